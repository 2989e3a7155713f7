"""Files of the deployer that are replaced in one step: a reader, or a crash, sees the old content or the new one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from slurmfab.agent.core import replace
from slurmfab.errors import InputError

NEW_FILE_MODE = 0o644


def require_writable(path: Path, option: str) -> None:
    """Refuse a path that `write` could not write later; nothing is left there.

    Args:
        path: the file, which need not exist, and neither need its folder.
        option: the option that named it, such as `--json`, for the message.

    Raises:
        InputError: it is not a regular file, or its folder does not allow new files.
    """
    import tempfile  # slow to import, and most runs write no such file

    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            kind = "a folder" if target.is_dir() else "not a regular file"
            raise InputError(f"{option} {path}: this is {kind}. Nothing was done; give another file name.")
        folder = next(folder for folder in target.parents if os.path.lexists(folder))
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        why = f"it cannot be written: {error.strerror}"
        raise InputError(f"{option} {path}: {why}. Nothing was done; give another file name.") from error


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
