"""Finding all files on a host's local file systems with given UIDs or GIDs, and changing these IDs.

Users may rename and link files meanwhile, so nothing is done by path: every directory is opened relative to its open
parent, and every file is opened before its owner is read and changed. Symbolic links are not followed. Mount points are
not crossed and not even read, because a dead network file system never answers.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Set, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.identities import mounts
from slurmfab.on_hosts.agent.identities.mounts import Mount

CONTAINERS = (
    *("/var/lib/" + name for name in ("containerd", "containers", "docker", "lxc", "lxd", "machines")),
    "/var/snap/lxd",
)
"""Directories of containers, whose users may have the same numbers by chance."""

CAPABILITY = "security.capability"
"""The extended attribute with a program's capabilities (capabilities(7)), which chown(2) removes."""

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of opening a directory that was removed or replaced meanwhile."""

MAX_DEPTH = 100_000  # how many directories may be open at once: one on each level


@dataclass
class FileTally:
    """The files that were found or changed so far."""

    # device and inode of each file, so that a file with several names counts once
    seen: Set[Tuple[int, int]] = field(default_factory=set)
    tops: Set[str] = field(default_factory=set)  # top-level directories that contain such files
    # number of such files on read-only file systems, by mount point
    fixed: Dict[str, int] = field(default_factory=dict)
    failed: List[str] = field(default_factory=list)  # path and reason of each file that could not be changed

    def __str__(self) -> str:
        """Number and place of the files, such as `1234 files below /home, /var (local file systems)`."""
        count = len(self.seen)
        places = " below %s" % ", ".join(sorted(self.tops)) if self.tops else ""
        fixed = "".join("; %d on read-only %s stay" % (number, path) for path, number in sorted(self.fixed.items()))
        return "%d file%s%s (local file systems)%s" % (count, "" if count == 1 else "s", places, fixed)


@dataclass
class FileSearch:
    """One search through a host's local file systems."""

    context: Context
    uids: Mapping[int, int]  # the new UID by the old one; at most one pair
    gids: Mapping[int, int]  # the new GID by the old one; at most one pair
    change: bool  # whether to change the files, or only to count them
    tally: FileTally = field(default_factory=FileTally)
    # names of mount points and container directories, by parent directory; they are not entered
    hidden: Dict[str, Set[str]] = field(default_factory=dict)

    def run(self) -> FileTally:
        """Search all local file systems; ResourceFailed if a tree is too deep, or /proc is not mounted."""
        found = mounts.read(self.context.path("/proc/self/mountinfo"))
        if not found:
            raise ResourceFailed("/proc/self/mountinfo cannot be read, so the mounted file systems are unknown")
        for path in (*(mount.path for mount in found), *CONTAINERS):
            parent, name = os.path.split(path)
            self.hidden.setdefault(parent, set()).add(name)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MAX_DEPTH) if hard > 0 else MAX_DEPTH, hard))
        try:
            for mount in mounts.mounts_to_search(found):
                if not any(mounts.below(mount.path, place) for place in CONTAINERS):
                    self.search(mount)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return self.tally

    def search(self, mount: Mount) -> None:
        """Search one mount, one directory at a time; a mount that another one hides is skipped."""
        stack: List[Tuple[int, str, List[str]]] = []

        def enter(name: str, path: str, parent: Optional[int]) -> None:
            try:
                descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise ResourceFailed("%s is nested in too many directories" % path) from None
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
            stack[-1][2].extend(self.consider_files(descriptor, mount, path))

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

    def consider_files(self, directory: int, mount: Mount, path: str) -> List[str]:
        """Count or change the files in a directory, and return the names of its subdirectories."""
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
        """Open a file (`name` is its path where there is no directory); count or change it on the expected mount."""
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
        """Count an open file if it has one of the old IDs, and change it if `change` is set."""
        status = os.fstat(descriptor)
        uid, gid = self.uids.get(status.st_uid, -1), self.gids.get(status.st_gid, -1)
        file = (status.st_dev, status.st_ino)
        if (uid, gid) == (-1, -1) or file in self.tally.seen:
            return
        try:
            if mount.read_only:
                raise OSError(errno.EROFS, "read-only")
            if self.change:
                change_owner(descriptor, status, uid, gid)
        except OSError as error:
            if error.errno == errno.EROFS:  # also a read-only snapshot within a writable btrfs
                self.tally.fixed[mount.path] = self.tally.fixed.get(mount.path, 0) + 1
            else:
                self.tally.failed.append("%s (%s)" % (path, error.strerror))
            return
        self.tally.seen.add(file)
        self.tally.tops.add("/" + path.lstrip("/").partition("/")[0])


def change_owner(descriptor: int, status: os.stat_result, uid: int, gid: int) -> None:
    """Change owner and group (-1: keep) of an open file, and restore mode and capabilities that chown(2) removes.

    The path in /proc refers to the open file itself, even if another file has its name by now. `status`: of before.
    """
    path = "/proc/self/fd/%d" % descriptor
    is_program = stat.S_ISREG(status.st_mode) and status.st_mode & 0o111
    capabilities = attribute(path, CAPABILITY) if is_program else b""
    os.chown(path, uid, gid)
    if not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        os.chmod(path, stat.S_IMODE(status.st_mode))
    if capabilities:
        os.setxattr(path, CAPABILITY, capabilities)


def attribute(path: str, name: str) -> bytes:
    """An extended attribute, empty where it is missing or the file system has no extended attributes."""
    try:
        return os.getxattr(path, name)
    except OSError:
        return b""


def mount_of(descriptor: int) -> int:
    """The ID of the mount through which a file was opened (proc(5), fdinfo)."""
    with open("/proc/self/fdinfo/%d" % descriptor, "rb", buffering=0) as file:
        return int(file.read(4096).partition(b"mnt_id:")[2].split()[0])
