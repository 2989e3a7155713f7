"""Replacing a file in one step: a reader, or a crash, sees either the old content or the new one, never a mixture.

The agent uses it for files of hosts, and the deployer for its own (`slurmfab.atomic_file`).
"""

from __future__ import annotations

import os
import stat
from typing import List, Optional

from slurmfab.agent.core.reading import names
from slurmfab.agent.core.resource import ResourceFailed

DIGITS = 8
"""Number of hexadecimal digits in the name of a temporary file."""

UNCHANGED = -1
"""As UID or GID: leave it as the kernel set it (chown(2)), which honors a set-group-ID bit on the directory."""


def regular(path: str) -> Optional[os.stat_result]:
    """The status of a regular file, `None` when nothing has this name.

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
        raise ResourceFailed("%s is not a regular file; move it away if a file may take its place" % path)
    return status


def read(path: str) -> Optional[bytes]:
    """The content of a regular file, `None` when nothing has this name.

    Raises:
        ResourceFailed: as for `regular`.
        OSError: the file cannot be read.
    """
    if regular(path) is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def put(path: str, content: bytes, uid: int, gid: int, mode: int) -> None:
    """Write a file in one step, and remove temporary files of earlier interrupted runs beside it.

    Args:
        path: path of the file.
        content: the whole content.
        uid: UID of the owner.
        gid: GID of the group.
        mode: permission bits.

    Raises:
        ResourceFailed: the directory is missing.
        OSError: the disk is full, for example; the old file is unchanged.
    """
    directory, name = os.path.split(path)
    if not os.path.isdir(directory):
        raise ResourceFailed("the directory %s is missing" % directory)
    remove_leftovers(directory, name)
    exchange(path, content, uid, gid, mode)


def exchange(path: str, content: bytes, uid: int = UNCHANGED, gid: int = UNCHANGED, mode: int = 0o600) -> None:
    """Write a temporary file beside a path and rename it to the path.

    Several processes may do this to one path at a time; the last one wins.

    Args:
        path: path of the file; its directory has to exist.
        content: the whole content.
        uid: UID of the owner, or `UNCHANGED`.
        gid: GID of the group, or `UNCHANGED`.
        mode: permission bits.

    Raises:
        OSError: the disk is full, for example; the old file is unchanged and the temporary one is removed.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, temporary_name(name, os.urandom(DIGITS // 2).hex()))
    write(temporary, content, uid, gid, mode)
    try:
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write(path: str, content: bytes, uid: int, gid: int, mode: int) -> None:
    """Write a new file and flush it to the disk; on failure nothing is left.

    Args:
        path: path of the file, which must not exist.
        content: the whole content.
        uid: UID of the owner, or `UNCHANGED`.
        gid: GID of the group, or `UNCHANGED`.
        mode: permission bits.

    Raises:
        OSError: the file exists, or the disk is full, for example.
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
    """Flush the names in a directory to the disk, so that a rename survives a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_name(name: str, digits: str) -> str:
    """The name of the temporary file that will replace a file, beside it.

    Args:
        name: of the file to replace.
        digits: `DIGITS` hexadecimal digits.
    """
    return ".slurmfab-%s.%s" % (name, digits)


def leftovers(path: str) -> List[str]:
    """The names of temporary files beside a file, left by interrupted runs; empty where there is no directory."""
    directory, name = os.path.split(path)
    start = temporary_name(name, "")
    ends = ((entry, entry[len(start) :]) for entry in names(directory) if entry.startswith(start))
    return [entry for entry, end in ends if len(end) == DIGITS and set(end) <= set("0123456789abcdef")]


def remove_leftovers(directory: str, name: str) -> None:
    """Remove the temporary files beside a file; the host's lock ensures that no other run is writing one."""
    for entry in leftovers(os.path.join(directory, name)):
        os.unlink(os.path.join(directory, entry))


def set_access(descriptor: int, uid: int, gid: int, mode: int) -> None:
    """Set owner, group and permission bits of an open file, the owner first: chown(2) clears the set-user-ID bit."""
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (uid, gid):
        os.fchown(descriptor, uid, gid)
    os.fchmod(descriptor, mode)


def change_access(path: str, uid: int, gid: int, mode: int, is_directory: bool = False) -> None:
    """Set owner, group and permission bits of a file or directory.

    Args:
        path: its path.
        uid: UID of the owner.
        gid: GID of the group.
        mode: permission bits.
        is_directory: whether it has to be a directory.

    Raises:
        OSError: it is a symbolic link, or not a directory though it has to be one.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_DIRECTORY if is_directory else 0)
    descriptor = os.open(path, flags)
    try:
        set_access(descriptor, uid, gid, mode)
    finally:
        os.close(descriptor)


def make_directory(path: str, uid: int, gid: int, mode: int) -> None:
    """Make a directory, and those above it, unless it exists; set its owner, group and permission bits.

    Args:
        path: its path.
        uid: UID of the owner.
        gid: GID of the group.
        mode: permission bits.

    Raises:
        OSError: it is a symbolic link or not a directory.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.isdir(path):
        os.mkdir(path, 0o700)
    change_access(path, uid, gid, mode, is_directory=True)
