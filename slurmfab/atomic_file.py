"""Files of the deployer that are replaced in one step: a reader, or a crash, sees the old content or the new one."""

from __future__ import annotations

import os
from pathlib import Path

from slurmfab.agent.core import replace
from slurmfab.errors import InputError

NEW_FILE_MODE = 0o644


def write(path: Path, text: str, mode: int | None = None) -> None:
    """Write a file of the deployer in one step, unless it has this content already.

    Args:
        path: the file; a symbolic link stays, and the file that it points to is replaced. Missing folders are made.
        text: the whole content; line ends are written as they are.
        mode: permission bits; `None` keeps those of an existing file, and gives a new one 0644.

    Raises:
        InputError: the file cannot be written; the old content is still in place.
    """
    target = Path(os.path.realpath(path))
    content = text.encode()
    try:
        if target.is_file() and target.read_bytes() == content:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else NEW_FILE_MODE
        replace.exchange(str(target), content, mode=mode)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. What was there is unchanged.") from error
