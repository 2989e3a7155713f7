"""Files on the deployer that are replaced in one step: a reader, or a crash, sees the old content or the new one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from slurmfab.errors import InputError

NEW_FILE_MODE = 0o644


def write(path: Path, text: str, mode: int | None = None) -> None:
    """Give a file this content, unless it has it already.

    Args:
        path: the file; where it is a link, what the link points to is replaced. Missing folders are made.
        text: the whole content, with the line ends as they shall be.
        mode: permission bits; `None` leaves those of a file that exists, and gives a new one 0644.

    Raises:
        InputError: the file cannot be written there; the old content is still in place.
    """
    target = Path(os.path.realpath(path))
    content = text.encode()
    try:
        if target.is_file() and target.read_bytes() == content:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else NEW_FILE_MODE
        _replace(target, content, mode)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. What was there is unchanged.") from error


def _replace(target: Path, content: bytes, mode: int) -> None:
    """Write beside the target, on disk before it takes the target's name."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
