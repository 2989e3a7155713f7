"""Removal of what a user has filled: by open directories, without a path, without recursion, and with a time limit.

The user can swap everything in it at any moment. So directories are moved beside each other, one at a time, until each
has only files: no link is followed, no depth is too large, and another file system that is mounted there stays, because
the kernel refuses to move a mount point.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import suppress
from typing import Dict, Iterator

from slurmfab.on_hosts.agent.core.safe_paths import Folder, Opened, make_or_enter

GONE = ".slurmfab-gone"  # the directory in which root removes something, beside where it was; only root can enter it
ROUND = 1000  # after how many files the time limit of a removal is looked at
MOST_TURNS = 20  # how often the files of one directory are removed in one go while a process makes new ones


def remove(base: Folder, name: str, until: float) -> str:
    """Remove something and its place below `base`, which is root's; returns as `empty`, raises as `set_aside`."""
    set_aside(base, name)
    left = empty(base, until)
    with suppress(OSError):  # something is left, or another process is at it
        os.rmdir(GONE, dir_fd=base.descriptor)
    return left


def set_aside(base: Folder, name: str) -> None:
    """Move something, if it is there, out of the way for removal; OSError for a mount point, for example."""
    with make_or_enter(base, GONE, 0o700) as gone:
        gone.set_access(mode=0o700)
        try:
            os.rename(name, fresh_name(), src_dir_fd=base.descriptor, dst_dir_fd=gone.descriptor)
        except FileNotFoundError:
            return


def fresh_name() -> str:
    """A name that nothing else has."""
    return "%d-%s" % (time.time_ns(), os.urandom(6).hex())


def empty(base: Folder, until: float) -> str:
    """Remove what was set aside, one process for all; what could not be removed, and why, or empty."""
    try:
        gone = base.enter(GONE)
    except FileNotFoundError:
        return ""
    with gone, Opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=gone.descriptor)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
        stuck = remove_all(gone, until)
        return "; ".join("%s: %s" % (gone.place(name), why) for name, why in sorted(stuck.items()))


def remove_all(gone: Folder, until: float) -> Dict[str, str]:
    """Remove everything in a directory of root's, or with its user's rights alone; why not, by name."""
    stuck: Dict[str, str] = {}
    turns: Dict[str, int] = {}
    while time.monotonic() < until:
        left = [name for name in gone.names() if name not in stuck]
        if not left:
            break
        for name in left:
            turns[name] = turns.get(name, 0) + 1
            try:
                take_apart(gone, name, until)
            except OSError as error:
                stuck[name] = error.strerror or str(error)
            if turns[name] == MOST_TURNS:
                stuck.setdefault(name, "somebody still writes there")
    return stuck


def take_apart(gone: Folder, name: str, until: float) -> None:
    """Remove a file, or the files of a directory; its directories are moved beside it, for another turn.

    A directory that somebody fills meanwhile is left for another turn, too. Raises OSError if something cannot be
    removed or moved.
    """
    status = gone.find(name)
    if status is None or not stat.S_ISDIR(status.st_mode):
        gone.unlink(name)
        return
    with gone.enter(name) as inner:
        for number, one in enumerate(entries(inner)):
            if number % ROUND == 0 and time.monotonic() > until:
                return
            found = inner.find(one)
            if found is not None and stat.S_ISDIR(found.st_mode):
                os.rename(one, fresh_name(), src_dir_fd=inner.descriptor, dst_dir_fd=gone.descriptor)
            elif found is not None:
                unlink_file(inner, one)
        is_empty = not inner.names()
    if is_empty:
        try:
            os.rmdir(name, dir_fd=gone.descriptor)
        except FileNotFoundError:
            return


def unlink_file(folder: Folder, name: str) -> None:
    """Remove a file or a link; one that its user has just exchanged for a directory stays for another turn."""
    try:
        folder.unlink(name)
    except IsADirectoryError:
        return


def entries(folder: Folder) -> Iterator[str]:
    """Yield the names in a directory, however many there are."""
    with Opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.descriptor)) as descriptor:
        yield from os.listdir(descriptor)
