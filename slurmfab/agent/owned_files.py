"""All files on a host's local file systems that carry some UID or GID, found and given another one.

Others may rename and link while we go through their directories. So nothing is done by path: every directory is opened
below its parent, every file is taken hold of before it is looked at, and what was looked at is what is changed. No
symbolic link is followed, and no mount point crossed: not even looked at, for a dead network file system never answers.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Set, Tuple

from slurmfab.agent import mounts
from slurmfab.agent.mounts import Mount
from slurmfab.agent.resource import Context, ResourceFailed

CONTAINERS = (
    *("/var/lib/" + name for name in ("containerd", "containers", "docker", "lxc", "lxd", "machines")),
    "/var/snap/lxd",
)
"""File systems of containers, whose users have the same numbers by chance."""

CAPABILITY = "security.capability"
"""The extended attribute with a program's privileges (capabilities(7)), which chown(2) takes away."""

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Why a directory cannot be opened that somebody has removed, or put something else in the place of."""

DEPTH = 100_000
"""How many directories may be open at once; one is on each level."""


@dataclass
class Tally:
    """What was found, or changed, so far.

    Args:
        seen: device and inode of each file; one with several names counts once.
        tops: the names below `/` in which there was any.
        fixed: how many are on read-only file systems, by mount point.
        failed: what could not be changed, and why.
    """

    seen: Set[Tuple[int, int]] = field(default_factory=set)
    tops: Set[str] = field(default_factory=set)
    fixed: Dict[str, int] = field(default_factory=dict)
    failed: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        """How many, and where, such as `1234 files below /home, /var (local file systems)`."""
        count = len(self.seen)
        places = " below %s" % ", ".join(sorted(self.tops)) if self.tops else ""
        fixed = "".join("; %d on read-only %s stay" % (number, path) for path, number in sorted(self.fixed.items()))
        return "%d file%s%s (local file systems)%s" % (count, "" if count == 1 else "s", places, fixed)


@dataclass
class Walk:
    """One way through a host's local file systems.

    Args:
        context: the request's context.
        uids: the new UID by the old one; at most one pair.
        gids: likewise.
        change: whether to give files the new numbers, or only to count them.
    """

    context: Context
    uids: Mapping[int, int]
    gids: Mapping[int, int]
    change: bool
    tally: Tally = field(default_factory=Tally)
    hidden: Dict[str, Set[str]] = field(default_factory=dict)

    def go(self) -> Tally:
        """Go through all of them.

        Raises:
            ResourceFailed: a directory tree is too deep, or /proc is not mounted.
        """
        found = mounts.read(self.context.path("/proc/self/mountinfo"))
        if not found:
            raise ResourceFailed("/proc/self/mountinfo cannot be read, so nobody knows what is mounted")
        for path in (*(mount.path for mount in found), *CONTAINERS):
            parent, name = os.path.split(path)
            self.hidden.setdefault(parent, set()).add(name)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, DEPTH) if hard > 0 else DEPTH, hard))
        try:
            for mount in mounts.worth_a_walk(found):
                if not any(mounts.below(mount.path, place) for place in CONTAINERS):
                    self.through(mount)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return self.tally

    def through(self, mount: Mount) -> None:
        """Go through one mount, a directory at a time; one whose mount point another one hides has nothing to see."""
        stack: List[Tuple[int, str, List[str]]] = []

        def enter(name: str, path: str, parent: Optional[int]) -> None:
            try:
                descriptor = os.open(name, DIRECTORY, dir_fd=parent)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise ResourceFailed("%s is too deep in directories" % path) from None
                if parent is None and error.errno == errno.ENOTDIR:
                    self.visit(name, None, mount, path)  # a file that is mounted over another one
                elif error.errno not in GONE:
                    self.tally.failed.append("%s (%s)" % (path, error.strerror))
                return
            if mount_of(descriptor) != mount.id:
                os.close(descriptor)
                return
            stack.append((descriptor, path, []))
            self.consider(descriptor, mount, path)
            stack[-1][2].extend(self.look_into(descriptor, mount, path))

        try:
            enter(self.context.path(mount.path), mount.path, None)
            while stack:
                descriptor, path, names = stack[-1]
                if names:
                    name = names.pop()
                    enter(name, path.rstrip("/") + "/" + name, descriptor)
                else:
                    os.close(stack.pop()[0])
        finally:
            for descriptor, _, _ in stack:
                os.close(descriptor)

    def look_into(self, directory: int, mount: Mount, path: str) -> List[str]:
        """See to the files in a directory, and return the directories in it."""
        inside, hidden = [], self.hidden.get(path, ())
        with os.scandir(directory) as found:
            for entry in found:
                try:
                    if entry.name in hidden:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        inside.append(entry.name)
                        continue
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if status.st_uid in self.uids or status.st_gid in self.gids:
                    self.visit(entry.name, directory, mount, path.rstrip("/") + "/" + entry.name)
        return inside

    def visit(self, name: str, directory: Optional[int], mount: Mount, path: str) -> None:
        """Take hold of a file, and see to it if it is what it seemed to be."""
        try:
            descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
        except FileNotFoundError:
            return
        try:
            if mount_of(descriptor) == mount.id:
                self.consider(descriptor, mount, path)
        finally:
            os.close(descriptor)

    def consider(self, descriptor: int, mount: Mount, path: str) -> None:
        """Count an open file if it carries one of the numbers, and change it if that is wanted."""
        status = os.fstat(descriptor)
        uid, gid = self.uids.get(status.st_uid, -1), self.gids.get(status.st_gid, -1)
        file = (status.st_dev, status.st_ino)
        if (uid, gid) == (-1, -1) or file in self.tally.seen:
            return
        try:
            if mount.read_only:
                raise OSError(errno.EROFS, "read-only")
            if self.change:
                give(descriptor, status, uid, gid)
        except OSError as error:
            if error.errno == errno.EROFS:  # also a read-only snapshot inside of a writable btrfs
                self.tally.fixed[mount.path] = self.tally.fixed.get(mount.path, 0) + 1
            else:
                self.tally.failed.append("%s (%s)" % (path, error.strerror))
            return
        self.tally.seen.add(file)
        self.tally.tops.add("/" + path.lstrip("/").partition("/")[0])


def give(descriptor: int, status: os.stat_result, uid: int, gid: int) -> None:
    """Change owner and group (-1: as it is) of an open file; chown(2) drops bits and privileges, which it gets again.

    By /proc the very file is meant that is open, and not what has its name by now.
    """
    path = "/proc/self/fd/%d" % descriptor
    is_program = stat.S_ISREG(status.st_mode) and status.st_mode & 0o111
    privileges = attribute(path, CAPABILITY) if is_program else b""
    os.chown(path, uid, gid)
    if not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        os.chmod(path, stat.S_IMODE(status.st_mode))
    if privileges:
        os.setxattr(path, CAPABILITY, privileges)


def attribute(path: str, name: str) -> bytes:
    """An extended attribute, empty where there is none or the file system has no such thing."""
    try:
        return os.getxattr(path, name)
    except OSError:
        return b""


def mount_of(descriptor: int) -> int:
    """The number of the mount through which a file was opened (proc(5), fdinfo)."""
    with open("/proc/self/fdinfo/%d" % descriptor, "rb", buffering=0) as file:
        return int(file.read(4096).partition(b"mnt_id:")[2].split()[0])
