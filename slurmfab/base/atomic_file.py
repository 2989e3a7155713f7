"""Files of the deployer that are replaced in one step: a reader, or a crash, sees the old content or the new one."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.on_hosts.agent.core import replace

OWNER_ONLY = 0o600  # the mode of a new file: most hold what hosts, checks or Slurm say of users, jobs and files
READABLE_BY_ALL = 0o644  # the mode of a new file that colleagues or other programs read


def require_writable(path: Path, option: str) -> None:
    """Refuse a path that `write` could not write later; nothing is left there.

    `path`: the file, which need not exist, and neither need its folder. `option`: the option that named it, such as
    `--json`, for the message. Raises InputError if it is not a regular file, or its folder does not allow new files.
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


def refuse_link(path: Path) -> None:
    """Refuse, by InputError, a file or directory with a name of slurmfab's that is a link: nobody named its target."""
    if path.is_symlink():
        raise InputError(f"{path} is a link, and slurmfab writes through none that you have not named. Remove it.")


def write(path: Path, text: str, mode: int | None = None, new: int = OWNER_ONLY, *, through_link: bool = False) -> None:
    """Write a file of the deployer in one step, unless it has this content already.

    `through_link`: whether a symbolic link stays, and the file that it points to is replaced, since the user named the
    path; else a link is refused. Missing folders are made; surrogates, which are bytes
    that are no UTF-8, are written out. `mode`: `None` keeps that of an existing file; a new one gets `new`. Raises
    InputError, the old content in place.
    """
    if not through_link:
        refuse_link(path)
    target = Path(os.path.realpath(path) if through_link else Path(os.path.realpath(path.parent), path.name))
    content = text.encode(errors="backslashreplace")
    try:
        if target.is_file() and target.read_bytes() == content:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else new
        replace.exchange(str(target), content, mode=mode)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. What was there is unchanged.") from error


def keep_newest(directory: Path, most: int) -> None:
    """Remove the oldest JSON files of a directory whose names begin with times, so that so many are left."""
    if directory.is_symlink():
        return
    for old in sorted(directory.glob("*.json"))[:-most]:
        with suppress(OSError):
            old.unlink()


def write_private(path: Path, text: str, shared: Path) -> None:
    """Write a file for those alone who may change another one, as the only kind of file in its folder.

    The folder, and files in it that an earlier slurmfab wrote, become as private. `text`: as for `write`. `shared`: the
    file whose owner may read this one; its group, too, if it may change that file. Raises InputError as for `write`.
    """
    refuse_link(path.parent)
    of_group = shared.exists() and bool(shared.stat().st_mode & stat.S_IWGRP)
    mode, others = (0o660, 0o007) if of_group else (0o600, 0o077)
    is_new = not path.parent.exists()
    write(path, text, mode)
    if is_new and of_group:  # the umask of this program is nobody's but its own
        with suppress(OSError):
            path.parent.chmod(stat.S_IMODE(path.parent.stat().st_mode) | 0o770)
    for place in (path.parent, *path.parent.iterdir()):
        with suppress(OSError):  # somebody else's, who writes it anew, or one that has just gone
            found = place.lstat()
            if found.st_mode & others and not stat.S_ISLNK(found.st_mode):
                place.chmod(stat.S_IMODE(found.st_mode) & ~others)
