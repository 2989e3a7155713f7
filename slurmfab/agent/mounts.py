"""The mounted file systems of a host, told apart by whether their files are this host's own."""

from __future__ import annotations

import os
import re
from typing import List, Optional

from slurmfab.agent.reading import read_bytes
from slurmfab.agent.record import Record

LOCAL = re.compile(r"ext[234]|xfs|btrfs|zfs|f2fs|bcachefs|jfs|reiserfs|nilfs2|ubifs|jffs2|tmpfs|ramfs|rootfs")
"""Types that hold files with owners of this host's own; tmpfs is memory, and has /run and /dev/shm.

Those that are not named here are the network's (nfs, lustre, fuse of any kind), the kernel's, or have no owners.
"""


class Mount(Record):
    """One line of /proc/self/mountinfo (proc(5)).

    Args:
        id: the kernel's number of the mount.
        device: `major:minor` of the file system.
        root: which of its directories is mounted.
        path: where.
        type: such as `ext4`.
        read_only: whether nothing can be changed there.
    """

    id: int
    device: str
    root: str
    path: str
    type: str
    read_only: bool

    @property
    def is_local(self) -> bool:
        """Whether its files are this host's own; as overlay only the root, for others belong to containers."""
        return bool(LOCAL.fullmatch(self.type)) or (self.type == "overlay" and self.path == "/")


def read(path: str) -> List[Mount]:
    """The mounts in a file such as /proc/self/mountinfo, in its order: a later one may hide an earlier one."""
    found = []
    for line in os.fsdecode(read_bytes(path)).splitlines():
        before, _, after = line.partition(" - ")
        words, (kind, _, options) = before.split(), after.split(" ", 2)
        read_only = "ro" in words[5].split(",") or "ro" in options.rpartition(" ")[2].split(",")
        found.append(Mount(int(words[0]), words[2], plain(words[3]), plain(words[4]), kind, read_only))
    return found


def plain(path: str) -> str:
    r"""A path of mountinfo without its escapes, in which a space is `\040`."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def below(path: str, directory: str) -> bool:
    """Whether a path is a directory, or in it at any depth."""
    return directory in ("/", path) or path.startswith(directory + "/")


def at(path: str, mounts: List[Mount]) -> Optional[Mount]:
    """The mount that a path is on; of several at one place, the last. `None` in a chroot that is no mount itself."""
    return max(
        (mount for mount in mounts if below(path, mount.path)),
        key=lambda mount: (len(mount.path), mounts.index(mount)),
        default=None,
    )


def worth_a_walk(mounts: List[Mount]) -> List[Mount]:
    """The local mounts that together show every local file, writable ones first, each directory once if possible.

    A mount that shows part of what another one shows (mount --bind) is left out, unless some mount point lies in that
    part of the other one: there, something may be hidden.
    """
    local = sorted(filter(lambda mount: mount.is_local, mounts), key=lambda one: (one.read_only, len(one.root)))
    points = [mount.path for mount in mounts]
    kept: List[Mount] = []
    for mount in local:
        if not any(shows(other, mount, points) for other in kept):
            kept.append(mount)
    return kept


def shows(other: Mount, mount: Mount, points: List[str]) -> bool:
    """Whether all of a mount's files are to be seen in another one as well."""
    if other.device != mount.device or not below(mount.root, other.root):
        return False
    inside = mount.root[len(other.root.rstrip("/")) :].rstrip("/")
    there = other.path.rstrip("/") + inside or "/"
    hiding = [point for point in points if point != other.path and below(point, other.path)]
    is_topmost = points.count(other.path) == 1
    return is_topmost and not any(below(point, there) or below(there, point) for point in hiding)
