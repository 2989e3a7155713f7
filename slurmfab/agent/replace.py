"""Replacing a file in one step: a reader, or a power cut, sees either the old or the new one, never half of it."""

from __future__ import annotations

import os
import stat
from typing import List, Optional

from slurmfab.agent.reading import names
from slurmfab.agent.resource import ResourceFailed

DIGITS = 8
"""Hexadecimal digits in the name of a file that will replace another one."""


def regular(path: str) -> Optional[os.stat_result]:
    """The status of a regular file, `None` when there is nothing of this name.

    Raises:
        ResourceFailed: it is a symbolic link, a directory or a device.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        link = os.readlink(path)
        raise ResourceFailed("%s is a symbolic link to %s; remove it if a file may take its place" % (path, link))
    if not stat.S_ISREG(status.st_mode):
        raise ResourceFailed("%s is no regular file; move it away if a file may take its place" % path)
    return status


def read(path: str) -> Optional[bytes]:
    """The content of a regular file, `None` when there is nothing of this name.

    Raises:
        ResourceFailed: as `regular` does.
        OSError: it cannot be read.
    """
    if regular(path) is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def put(path: str, content: bytes, uid: int, gid: int, mode: int) -> None:
    """Put a file in place of another, or where there is none; leftovers of killed runs beside it go.

    Args:
        path: where.
        content: all of it.
        uid: the owner.
        gid: the group.
        mode: permission bits.

    Raises:
        ResourceFailed: the directory is missing.
        OSError: the disk is full or the like; the old file is untouched.
    """
    directory, name = os.path.split(path)
    if not os.path.isdir(directory):
        raise ResourceFailed("the directory %s is missing" % directory)
    remove_leftovers(directory, name)
    place = os.path.join(directory, temporary(name, os.urandom(DIGITS // 2).hex()))
    write(place, content, uid, gid, mode)
    try:
        os.rename(place, path)
    except BaseException:
        os.unlink(place)
        raise


def write(path: str, content: bytes, uid: int, gid: int, mode: int) -> None:
    """Write a file where there is none, whole and safely onto the disk, or not at all.

    Raises:
        OSError: there is one, or the disk is full or the like.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            set_access(file.fileno(), uid, gid, mode)
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


def sync(directory: str) -> None:
    """See the names in a directory on the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary(name: str, digits: str) -> str:
    """What a file is called beside the one of this name that it will replace, with hexadecimal digits."""
    return ".slurmfab-%s.%s" % (name, digits)


def leftovers(path: str) -> List[str]:
    """The names of files that were to take the place of this one and never did; none where there is no directory."""
    directory, name = os.path.split(path)
    start = temporary(name, "")
    ends = ((entry, entry[len(start) :]) for entry in names(directory) if entry.startswith(start))
    return [entry for entry, end in ends if len(end) == DIGITS and set(end) <= set("0123456789abcdef")]


def remove_leftovers(directory: str, name: str) -> None:
    """Remove what `put` left when it was killed; only one session works on a host, so nobody else needs it."""
    for entry in leftovers(os.path.join(directory, name)):
        os.unlink(os.path.join(directory, entry))


def set_access(descriptor: int, uid: int, gid: int, mode: int) -> None:
    """Set owner, group and permission bits of an open file; the owner first, for chown(2) drops bits."""
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (uid, gid):
        os.fchown(descriptor, uid, gid)
    os.fchmod(descriptor, mode)


def change_access(path: str, uid: int, gid: int, mode: int, is_directory: bool = False) -> None:
    """Set owner, group and permission bits of a file or directory that is no symbolic link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_DIRECTORY if is_directory else 0)
    descriptor = os.open(path, flags)
    try:
        set_access(descriptor, uid, gid, mode)
    finally:
        os.close(descriptor)
