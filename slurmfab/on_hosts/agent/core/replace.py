"""Replacing a file or link in one step: a reader, or a crash, sees the old content or the new one, never a mixture.

All of it is done relative to the open directory of the file (`slurmfab.on_hosts.agent.core.safe_paths`), so that nobody
who can change a directory on the way can lead root elsewhere. The agent uses it for files of hosts, and the deployer
for its own (`slurmfab.base.atomic_file`).
"""

from __future__ import annotations

import errno
import os
import stat
from typing import List, Optional, Tuple

from slurmfab.on_hosts.agent.core import labels
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import (
    FILE_FLAGS,
    Folder,
    Opened,
    UnsafePath,
    at,
    open_folder,
    open_parent,
    set_access,
    user,
)

DIGITS = 8  # number of hexadecimal digits in the name of a temporary file

UNCHANGED = -1
"""As UID or GID: leave it as the kernel set it (chown(2)), which honors a set-group-ID bit on the directory."""

Access = Tuple[int, int, int]  # UID, GID and permission bits


def regular(path: str) -> Optional[os.stat_result]:
    """The status of a regular file, `None` for no such name; ResourceFailed if it is a link, directory or device."""
    try:
        folder, name = open_parent(path)
    except FileNotFoundError:
        return None
    with folder:
        status = folder.find(name)
        if status is not None:
            folder.require_regular(name, status)
        return status


def find(path: str) -> Optional[Tuple[os.stat_result, bytes]]:
    """Status and content of a regular file, `None` for no such name; ResourceFailed as `regular`, or OSError."""
    try:
        folder, name = open_parent(path)
    except FileNotFoundError:
        return None
    with folder:
        return folder.read(name)


def read(path: str) -> Optional[bytes]:
    """The content of a regular file, `None` for no such name; ResourceFailed as `regular`, or OSError."""
    found = find(path)
    return None if found is None else found[1]


def put(path: str, content: bytes, uid: int, gid: int, mode: int, *, make: bool = False) -> None:
    """Write a file in one step, and remove leftovers of earlier ones; ResourceFailed without directory, OSError.

    `make`: whether to make a missing directory, and those above it, root's and with mode 0755.
    """
    try:
        folder, name = open_parent(path, make)
    except (FileNotFoundError, NotADirectoryError):
        if make:
            raise
        raise ResourceFailed("the directory %s is missing" % os.path.dirname(path)) from None
    with folder:
        put_in(folder, name, content, (uid, gid, mode))


def put_in(folder: Folder, name: str, content: bytes, access: Access) -> None:
    """Write a file in an open directory in one step, with the errors of `put`."""
    clear(folder, name)
    exchange_in(folder, name, content, access)


def exchange(path: str, content: bytes, uid: int = UNCHANGED, gid: int = UNCHANGED, mode: int = 0o600) -> None:
    """Write a temporary file beside a path, whose directory exists, and rename it to the path.

    Several processes may do this to one path at a time; the last one wins. `uid`, `gid`: or `UNCHANGED`. Raises
    OSError, with the old file unchanged and no temporary one.
    """
    folder, name = open_parent(path)
    with folder:
        exchange_in(folder, name, content, (uid, gid, mode))


def exchange_in(folder: Folder, name: str, content: bytes, access: Access) -> None:
    """Write a temporary file in an open directory and rename it, with the errors of `exchange`."""
    temporary = temporary_name(name, os.urandom(DIGITS // 2).hex())
    write_in(folder, temporary, content, access, name)
    take_place(folder, temporary, name)


def take_place(folder: Folder, temporary: str, name: str) -> None:
    """Rename what is complete by now, or remove it; OSError if the name is a directory's."""
    try:
        folder.rename(temporary, name)
    except OSError:
        folder.unlink(temporary)
        raise


def put_link(path: str, target: str) -> None:
    """Make a link in one step, with its directory if need be, in place of a file or another link."""
    folder, name = open_parent(path, make=True)
    with folder:
        put_link_in(folder, name, target)


def put_link_in(folder: Folder, name: str, target: str) -> None:
    """The same in an open directory, which only root can change."""
    clear(folder, name)
    temporary = temporary_name(name, os.urandom(DIGITS // 2).hex())
    os.symlink(target, temporary, dir_fd=folder.descriptor)
    labels.give_name(folder.descriptor, temporary, folder.place(name))
    take_place(folder, temporary, name)


def link_target(path: str) -> str:
    """Where a link of root alone leads, which stays when the link is replaced; empty for anything else."""
    try:
        folder, name = open_parent(path)
    except FileNotFoundError:
        return ""
    with folder:
        status = folder.find(name)
        if folder.others or status is None or not stat.S_ISLNK(status.st_mode):
            return ""
        return os.readlink(name, dir_fd=folder.descriptor)


def write(path: str, content: bytes, uid: int, gid: int, mode: int) -> None:
    """Write a new file and flush it to the disk; on failure (OSError) nothing is left. IDs may be `UNCHANGED`."""
    folder, name = open_parent(path)
    with folder:
        write_in(folder, name, content, (uid, gid, mode))


def write_in(folder: Folder, name: str, content: bytes, access: Access, later: str = "") -> None:
    """Write a new file in an open directory, with the errors of `write`. `later`: the name that it will get."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS
    try:
        descriptor = os.open(name, flags, 0o600, dir_fd=folder.descriptor)
    except OSError as error:
        raise at(error, folder.place(name)) from None
    try:
        with open(descriptor, "wb") as file:
            labels.give(file.fileno(), folder.place(later or name))
            file.write(content)
            file.flush()
            set_access(file.fileno(), *access)
            os.fsync(file.fileno())
    except BaseException:
        folder.unlink(name)
        raise


def rename(old: str, new: str) -> None:
    """Rename a file within its directory to a new path, which it replaces; OSError if there is no such file."""
    folder, name = open_parent(old)
    with folder:
        folder.rename(name, os.path.basename(new))


def unlink(path: str) -> None:
    """Remove a file or a link, if there is one; OSError if it is a directory, or its file system is read-only."""
    try:
        folder, name = open_parent(path)
    except FileNotFoundError:
        return
    with folder:
        folder.unlink(name)


def sync(directory: str) -> None:
    """Flush the names in a directory to the disk, so that a rename survives a power failure."""
    with open_folder(directory) as folder:
        folder.sync()


def temporary_name(name: str, digits: str) -> str:
    """The name of the temporary file that will replace a file, beside it. `digits`: `DIGITS` hexadecimal digits."""
    return ".slurmfab-%s.%s" % (name, digits)


def leftovers(path: str) -> List[str]:
    """The names of temporary files beside a file, left by interrupted runs; empty where there is no directory."""
    try:
        folder, name = open_parent(path)
    except OSError:
        return []
    with folder:
        return leftovers_in(folder, name)


def leftovers_in(folder: Folder, name: str) -> List[str]:
    """The names of temporary files beside a file in an open directory."""
    start = temporary_name(name, "")
    ends = ((entry, entry[len(start) :]) for entry in folder.names() if entry.startswith(start))
    return [entry for entry, end in ends if len(end) == DIGITS and set(end) <= set("0123456789abcdef")]


def remove_leftovers(directory: str, name: str) -> None:
    """Remove the temporary files beside a file; the host's lock ensures that no other run is writing one."""
    with open_folder(directory) as folder:
        clear(folder, name)


def clear(folder: Folder, name: str) -> None:
    """Remove the temporary files beside a file in an open directory."""
    for entry in leftovers_in(folder, name):
        folder.unlink(entry)


def change_access(path: str, uid: int, gid: int, mode: int) -> None:
    """Set owner, group and permission bits of a regular file.

    Another name of the file, outside of a directory that others can change, would get them too. So such a file is
    replaced by a copy, and only if it belongs to the wanted owner already, who can read it. Raises ResourceFailed if it
    is a symbolic link, or not a regular file. Raises UnsafePath if the file has other names, and another owner. Raises
    FileNotFoundError if there is no such file.
    """
    folder, name = open_parent(path)
    with folder:
        change_access_in(folder, name, (uid, gid, mode))


def change_access_in(folder: Folder, name: str, access: Access) -> None:
    """Set owner, group and permission bits of a file in an open directory, with the errors of `change_access`."""
    descriptor = folder.open(name)
    if descriptor is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder.place(name))
    with Opened(descriptor):
        status = os.fstat(descriptor)
        if not has_other_names(folder, status):
            set_access(descriptor, *access)
            return
    path = folder.place(name)
    if status.st_uid != access[0]:
        message = "%s is one of %d names of a file of %s (hard links), so its owner stays; remove it: rm %s"
        raise UnsafePath(message % (path, status.st_nlink, user(status.st_uid), path))
    found = folder.read(name)
    if found and found[0].st_uid == access[0]:
        exchange_in(folder, name, found[1], access)


def has_other_names(folder: Folder, status: os.stat_result) -> bool:
    """Whether a file has more than one name (hard links), in a directory that others can change."""
    return bool(folder.others) and status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)


def make_directory(path: str, uid: int, gid: int, mode: int) -> None:
    """Make a directory and those above, with access; OSError if it is none, UnsafePath for others' links."""
    with open_folder(path, make=True) as folder:
        folder.set_access(uid, gid, mode)
