"""What takes longer to find out than a TAB should, kept in the user's cache: a cluster file's names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurmfab import __version__

PACKAGE = Path(__file__).parents[1]


def kept(name: str, of: list[str], make: Callable[[], Any]) -> Any:
    """JSON values from the cache, if they were made of the same things by the same slurmfab; else made now, and kept.

    Args:
        name: name of the file.
    """
    path, mark = directory() / f"{name}.json", [__version__, str(PACKAGE), *of]
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        found = json.loads(path.read_bytes())
        if found["of"] == mark:
            return found["values"]
    values = make()
    with suppress(OSError):
        write(path, json.dumps({"of": mark, "values": values}))
    return values


def directory() -> Path:
    """The directory of what slurmfab keeps for this user, by the XDG Base Directory Specification."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    above = given if given.startswith("/") else os.path.expanduser("~/.cache")  # noqa: PTH111 - no home is no error
    return Path(above) / "slurmfab"


def write(path: Path, text: str) -> None:
    """Write a file that only this user can read, in one step.

    Raises:
        OSError: that is not possible, for example because the home is another user's.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.geteuid():  # as root with another user's HOME
        return
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.touch(0o600, exist_ok=False)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
