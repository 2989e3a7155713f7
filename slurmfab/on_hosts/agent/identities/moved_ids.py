"""New UID and GID for a system user and its group, and for all of their local files."""

from __future__ import annotations

import errno
import os
import resource
import stat
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Set, Tuple

from slurmfab.on_hosts.agent.core import mounts
from slurmfab.on_hosts.agent.core.mounts import Mount
from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.id_processes import Process, listed, with_numbers
from slurmfab.on_hosts.agent.identities.passwd_files import edit
from slurmfab.on_hosts.agent.identities.users_and_groups import find_group, find_user
from slurmfab.on_hosts.agent.services.service import show

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


NUMBER, PRIMARY_GID = 2, 3
"""Indices of fields in passwd(5): UID and primary GID; in group(5) the GID has the index of the UID."""

NSCD = "/run/nscd/socket"  # exists while nscd(8) runs, which caches users and groups
DOWN = ("inactive", "failed", None)  # ActiveStates of a unit that need not be stopped
NAMED_IN_MESSAGE = 5  # how many files a message names at most


class MovedIds(Resource):
    """A user and the group of the same name with these IDs; files with the old IDs get the new ones.

    Files are changed first, and the entries in /etc/passwd and /etc/group last. After an interruption the next run
    finds the old IDs there and continues; files that have the new IDs already are not changed again.
    """

    kind: ClassVar[str] = "moved-ids"
    named_by: ClassVar[str] = "user"
    deadline: ClassVar[float] = 86400.0
    user: str  # name of the user and of its group; a missing user or group is not made
    uid: int
    gid: int  # the group's GID; it becomes the user's primary group
    daemons: Tuple[str, ...] = ()  # services that are stopped first, in this order; a later resource starts them again
    needed: Tuple[str, ...] = ()  # directories that the services need; see `refuse_foreign`

    def units(self) -> Tuple[str, ...]:
        """The services, so that the undo store knows that they ran."""
        return self.daemons

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """UID, GID, and GID of the primary group."""
        return {"uid": self.uid, "gid": self.gid, "primary gid": self.gid}

    def numbers(self, context: Context) -> Dict[str, int]:
        """The IDs of user and group on the host; those of a missing user or group count as right."""
        user, group = find_user(context, self.user), find_group(context, self.user)
        gid = self.gid if group is None else group
        follows = user is None or user.pw_gid == gid
        return {
            "uid": self.uid if user is None else user.pw_uid,
            "gid": gid,
            "primary gid": self.gid if user is None or follows else user.pw_gid,
        }

    def actual(self, context: Context) -> State:
        """The IDs; a dry run remarks how many files and processes have old ones; ResourceFailed if unsafe."""
        now = self.numbers(context)
        if now != self.wanted(context):
            self.refuse_entries(context, now)
            self.refuse_foreign(context, now)
            processes = self.refuse_processes(context, now)
            processes = [one for one in processes if one.unit != manager(now)]
            if context.dry_run:
                context.remark = self.forecast(context, self.search(context, now, False), len(processes))
        return now

    def forecast(self, context: Context, tally: FileTally, processes: int) -> str:
        """What the change will affect, such as `1234 files below /var (local file systems), 2 processes; …`.

        `context`: the request's context; running services are added to `stopped`. `tally`: files with the old IDs.
        `processes`: number of processes with the old IDs.
        """
        count = "%s, %d process%s" % (tally, processes, "" if processes == 1 else "es")
        daemons = self.active(context)
        context.stopped.update(daemons)
        if not daemons:
            return count
        waiting = "; without slurmctld, Slurm's commands wait" if "slurmctld" in daemons else ""
        return "%s; %s stop%s for it, running jobs go on%s" % (
            count, ", ".join(daemons), "s" if len(daemons) == 1 else "", waiting)  # fmt: skip

    def active(self, context: Context) -> List[str]:
        """The services that run now, or are starting."""
        return [unit for unit in self.daemons if show(context, unit).get("ActiveState") not in DOWN]

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Stop services, change files, then accounts; ResourceFailed, accounts unchanged, if old IDs are kept."""
        old = self.numbers(context)
        running = self.active(context)
        idle = {one.unit for one in self.refuse_processes(context, old)} - set(self.daemons)
        if running or idle:
            context.must(["systemctl", "stop", *running, *idle], seconds=180)
        try:
            self.refuse_processes(context, old, stopped=True)
        except ResourceFailed:
            if running:
                context.run(["systemctl", "start", *reversed(running)], seconds=180)
            raise
        tally = self.search(context, old, True)
        if tally.failed:
            failures = "; ".join(tally.failed[:NAMED_IN_MESSAGE])
            raise ResourceFailed(
                "%s could not get the new number (%d got it): %s; %s keeps the old number, and its services stay "
                "stopped, until all files can be changed (lsattr shows whether a file is immutable)"
                % (counted(len(tally.failed), "file"), len(tally.seen), failures, self.user)
            )
        self.refuse_processes(context, old, stopped=True)
        edit(context, "/etc/passwd", lambda fields: self.in_passwd(fields, old))
        edit(context, "/etc/group", self.in_group)
        if os.path.exists(context.path(NSCD)):
            context.run(["nscd", "--invalidate=passwd"])
            context.run(["nscd", "--invalidate=group"])
        context.remark = "moved %s" % tally

    def search(self, context: Context, old: State, change: bool) -> FileTally:
        """Count, or change, all local files with the old IDs."""
        return FileSearch(context, self.pair(old, "uid"), self.pair(old, "gid"), change).run()

    def pair(self, old: State, kind: str) -> Dict[int, int]:
        """The new ID by the old one, empty if they are equal. `kind`: `uid` or `gid`."""
        new = self.uid if kind == "uid" else self.gid
        return {} if old[kind] == new else {old[kind]: new}

    def in_passwd(self, fields: List[str], old: State) -> List[str]:
        """The fields of a line of passwd(5) with the new IDs; other users with this primary group keep it."""
        if len(fields) <= PRIMARY_GID:
            return fields
        uid, gid = fields[NUMBER], fields[PRIMARY_GID]
        if fields[0] == self.user:
            uid, gid = str(self.uid), str(self.gid)
        elif gid == str(old["gid"]):
            gid = str(self.gid)
        return [*fields[:NUMBER], uid, gid, *fields[PRIMARY_GID + 1 :]]

    def in_group(self, fields: List[str]) -> List[str]:
        """The fields of a line of group(5), with the new GID if it is this group's."""
        return [*fields[:NUMBER], str(self.gid), *fields[NUMBER + 1 :]] if fields[0] == self.user else fields

    def refuse_entries(self, context: Context, old: State) -> None:
        """Refuse, by ResourceFailed, IDs that others share, or that are not of this host's /etc/passwd."""
        for file, kind, new in (("passwd", "uid", self.uid), ("group", "gid", self.gid)):
            if old[kind] == new:
                continue
            names: Dict[str, List[str]] = {}
            for fields in entries(context.path("/etc/" + file)):
                names.setdefault(fields[NUMBER], []).append(fields[0])
            if self.user not in names.get(str(old[kind]), []):
                message = "%s has the %s %d, but not from /etc/%s; change it in its source (getent -s)"
                raise ResourceFailed(message % (self.user, kind.upper(), old[kind], file))
            others = [one for number in (old[kind], new) for one in names.get(str(number), []) if one != self.user]
            if others:
                message = "%s shares the %s %d with %s, or would share %d; free the number first"
                raise ResourceFailed(message % (self.user, kind.upper(), old[kind], ", ".join(others), new))

    def refuse_foreign(self, context: Context, old: State) -> None:
        """Refuse, by ResourceFailed with a command for one host, needed directories on other than local disks."""
        found = mounts.read(context.path("/proc/self/mountinfo"))
        for path in ("/", *self.needed):
            mount = mounts.at(path, found)
            if mount is None or mount.is_local:
                continue
            if path == "/":
                message = "the root file system of this host is on %s, which is not local; change %s in its image"
                raise ResourceFailed(message % (mount.type, self.user))
            try:
                status = os.lstat(context.path(path))
            except FileNotFoundError:
                continue
            if status.st_uid in self.pair(old, "uid") or status.st_gid in self.pair(old, "gid"):
                chown = "chown -hR --from=%d %d %s; chown -hR --from=:%d :%d %s" % (
                    old["uid"], self.uid, path, old["gid"], self.gid, path)  # fmt: skip
                message = (
                    "%s is on %s, where slurmfab changes no files; stop %s on all hosts, then run on one of them: %s"
                )
                users = ", ".join(self.daemons) or "all programs that use it"
                raise ResourceFailed(message % (path, mount.type, users, chown))

    def refuse_processes(self, context: Context, old: State, stopped: bool = False) -> List[Process]:
        """The processes of the services with the old IDs; refuse when other processes have them.

        systemd's manager of the user stays for ten seconds after the last login (logind.conf(5), UserStopDelaySec), and
        is no reason to refuse. `stopped`: whether the services have been stopped, so that no process may be left.
        Raises ResourceFailed: with the processes' numbers and names.
        """
        found = with_numbers(context, self.pair(old, "uid"), self.pair(old, "gid"))
        others = [one for one in found if stopped or one.unit not in (*self.daemons, manager(old))]
        if others:
            raise ResourceFailed(
                "processes run with the number that %s has here (UID %d, GID %d): %s; end them first"
                % (self.user, old["uid"], old["gid"], listed(others))
            )
        return found


def manager(old: State) -> str:
    """The unit of systemd's manager of a user, without the services in it. `old`: the user's IDs, as in `numbers`."""
    return "user@%d" % old["uid"]


def counted(number: int, thing: Any) -> str:
    """A number of things, such as `1 file` or `2 files`."""
    return "%d %s%s" % (number, thing, "" if number == 1 else "s")
