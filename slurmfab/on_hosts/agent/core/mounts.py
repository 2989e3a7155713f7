"""The mounted file systems of a host, and which of them are local."""

from __future__ import annotations

import os
import re
from typing import List, Optional

from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.agent.core.record import Record

LOCAL = re.compile(r"ext[234]|xfs|btrfs|zfs|f2fs|bcachefs|jfs|reiserfs|nilfs2|ubifs|jffs2|tmpfs|ramfs|rootfs")
"""File system types that hold only this host's files; tmpfs includes /run and /dev/shm.

All other types are network file systems (nfs, lustre, any fuse), kernel interfaces, or have no file owners.
"""


class Mount(Record):
    """One line of /proc/self/mountinfo (proc(5))."""

    id: int
    device: str  # `major:minor` of the file system
    root: str
    path: str
    type: str  # file system type, such as `ext4`
    read_only: bool  # whether the mount or the file system is read-only
    source: str = ""  # the device or the server's directory that is mounted

    @property
    def is_local(self) -> bool:
        """Whether its files belong to this host; an overlay only at `/`, because others belong to containers."""
        return bool(LOCAL.fullmatch(self.type)) or (self.type == "overlay" and self.path == "/")


def read(path: str) -> List[Mount]:
    """The mounts in a file such as /proc/self/mountinfo, in its order: a later mount may hide an earlier one."""
    return parse(os.fsdecode(read_bytes(path)))


def parse(text: str) -> List[Mount]:
    """The mounts in the text of such a file."""
    found = []
    # Not splitlines, which splits at more characters than newlines: users can have those in names of mount points.
    for line in filter(None, text.split("\n")):
        before, _, after = line.partition(" - ")
        fields, (kind, source, options) = before.split(" "), after.split(" ", 2)
        read_only = "ro" in fields[5].split(",") or "ro" in options.rpartition(" ")[2].split(",")
        root, point = unescape(fields[3]), unescape(fields[4])
        found.append(Mount(int(fields[0]), fields[2], root, point, kind, read_only, unescape(source)))
    return found


def unescape(path: str) -> str:
    r"""A path in mountinfo without its octal escapes, such as `\040` for a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def below(path: str, directory: str) -> bool:
    """Whether a path is the directory or below it."""
    return directory in ("/", path) or path.startswith(directory + "/")


def at(path: str, mounts: List[Mount]) -> Optional[Mount]:
    """The last mount at the mount point that a path is on; `None` in a chroot whose root is no mount point."""
    return max(
        (mount for mount in mounts if below(path, mount.path)),
        key=lambda mount: (len(mount.path), mounts.index(mount)),
        default=None,
    )


def mounts_to_search(mounts: List[Mount]) -> List[Mount]:
    """The local mounts that together show every local file, writable ones first, each directory once if possible.

    A mount whose files another mount shows too (mount --bind) is omitted, unless a mount point in that part of the
    other mount may hide files.
    """
    local = sorted(filter(lambda mount: mount.is_local, mounts), key=lambda one: (one.read_only, len(one.root)))
    points = [mount.path for mount in mounts]
    chosen: List[Mount] = []
    for mount in local:
        if not any(shows_all(other, mount, points) for other in chosen):
            chosen.append(mount)
    return chosen


def shows_all(other: Mount, mount: Mount, points: List[str]) -> bool:
    """Whether another mount shows all files of a mount; the mount points of all mounts may hide some."""
    if other.device != mount.device or not below(mount.root, other.root):
        return False
    inside = mount.root[len(other.root.rstrip("/")) :].rstrip("/")
    there = other.path.rstrip("/") + inside or "/"
    hiding = [point for point in points if point != other.path and below(point, other.path)]
    is_topmost = points.count(other.path) == 1
    return is_topmost and not any(below(point, there) or below(there, point) for point in hiding)
