"""Directories opened one name at a time, so that a user of the host cannot lead root to another place.

Slurm's user, munge's and people own directories in which root works, and may rename everything in them at any moment,
also between two steps of root. So each directory is opened relative to its open parent (openat(2)) without following
links, and everything else is done relative to the open directory.

A link is followed only if root made it and nobody else can change a name on the way to it, such as /var/lib/slurm on
another disk. Below a directory that another user can change, no link is followed. On a network file system root of any
host may be root, so a link there leads nowhere but to the same file system.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from typing import Iterator, List, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core import labels, mounts
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

WAY_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How directories are opened: O_PATH needs no permission to read them, which a file server may deny root."""

FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""For opening files: a FIFO does not block, and a terminal does not become the agent's."""

MAX_LINKS = 40  # how many links one path may have, as in the kernel (path_resolution(7))
MAX_BYTES = 16 * 1024 * 1024  # the size up to which a file in a directory that others can change is read
MOUNTS = "/proc/self/mountinfo"
MAX_DEPTH = 100  # how deep directories may be nested where all files below one are listed or removed

OTHERS_WRITE = 0o022


class UnsafePath(ResourceFailed):
    """A path on which another user could lead root to another place; the text says who, and what to do."""


class Folder:
    """An open directory. It is a context manager, which closes it.

    Args:
        path: by which it was reached, for messages.
        parent: the directory that it was opened in; `None` for the top.

    Attributes:
        status: of the directory when it was opened.
        intruder: who can put another directory in its place; empty if only root can.
        others: who can change the names in it, or put another directory in its place; empty if only root can.
        remedy: the command that keeps `others` from it; empty if there are none.
    """

    def __init__(self, descriptor: int, path: str, parent: Optional[Folder] = None) -> None:
        self.descriptor = descriptor
        self.path = path
        self.status = os.fstat(descriptor)
        self.intruder: str = parent.others if parent else ""
        if parent and parent.is_sticky:  # only the owner can rename it
            self.intruder = "" if self.is_own(self.status) else user(self.status.st_uid)
        self.others: str = self.intruder or self.writer()
        self.remedy: str = parent.remedy if parent and self.intruder == parent.others else ""
        self.remedy = self.remedy or remedy(self.status, path)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        os.close(self.descriptor)

    @property
    def is_sticky(self) -> bool:
        """Whether it is like /tmp: root's, everybody can add names, and nobody can change those of root."""
        return not self.intruder and self.is_own(self.status) and bool(self.status.st_mode & stat.S_ISVTX)

    def is_own(self, status: os.stat_result) -> bool:
        """Whether something belongs to root, whose links are followed."""
        return is_roots(status)

    def writer(self) -> str:
        """Who besides root can change the names in it, if only root can put another directory in its place."""
        if not self.is_own(self.status):
            return user(self.status.st_uid)
        may_write = self.status.st_mode & OTHERS_WRITE
        return "whoever may write to %s (%s)" % (self.path, access_shown(self.status)) if may_write else ""

    def place(self, name: str) -> str:
        """The path of a name in it, for messages."""
        return os.path.join(self.path, name)

    def find(self, name: str) -> Optional[os.stat_result]:
        """The status of a name, of a link itself and not of its target; `None` if there is no such name."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> List[str]:
        """The names in it, sorted."""
        with Opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.descriptor)) as descriptor:
            return sorted(os.listdir(descriptor))

    def enter(self, name: str) -> Folder:
        """Open a directory in it; FileNotFoundError, or NotADirectoryError if it is a link or something else."""
        try:
            descriptor = os.open(name, WAY_FLAGS, dir_fd=self.descriptor)
        except OSError as error:
            raise at(error, self.place(name)) from None
        return type(self)(descriptor, self.place(name), self)

    def make(self, name: str, mode: int = 0o755) -> Folder:
        """Make a directory in it, and open it; FileExistsError, or UnsafePath if another user interferes."""
        os.mkdir(name, 0o700, dir_fd=self.descriptor)
        made = self.enter(name)
        try:
            # Root makes empty directories, so a full one is another one. Where only root can put another one in its
            # place, root works there from another host, too: controllers share the directory of their state.
            if made.intruder and (made.status.st_uid != os.geteuid() or made.names()):
                message = "%s was replaced while it was made%s; see what is there"
                raise UnsafePath(message % (made.path, " by " + self.others if self.others else ""))
            labels.give(made.descriptor, made.path)
            made.set_access(mode=mode)
        except BaseException:
            made.close()
            raise
        return made

    def set_access(self, uid: int = -1, gid: int = -1, mode: int = 0o755) -> None:
        """Set its owner, group and permission bits; -1 leaves owner or group as they are."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with Opened(os.open(".", flags, dir_fd=self.descriptor)) as descriptor:
            set_access(descriptor, uid, gid, mode)

    def rename(self, old: str, new: str) -> None:
        """Rename something in it, in place of a file; OSError if it is not there, or the new name is a directory's."""
        try:
            os.rename(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except OSError as error:
            raise at(error, self.place(new)) from None

    def take_name(self, old: str, new: str) -> None:
        """Rename a file in it to a name that does not exist yet. Raises FileExistsError if the name is taken."""
        here = self.descriptor
        try:
            os.link(old, new, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
            os.unlink(old, dir_fd=here)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise at(error, self.place(new)) from None
            # Some file systems have no hard links.
            if self.find(new):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.place(new)) from error
            self.rename(old, new)

    def sync(self) -> None:
        """Flush the names in it to the disk, so that a rename survives a power failure."""
        with Opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.descriptor)) as descriptor:
            os.fsync(descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file or a link in it, if any; OSError for a directory, or a read-only file system."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise at(error, self.place(name)) from None

    def walk(self, below: str = "", depth: int = 0) -> Iterator[Tuple[str, Folder, str]]:
        """Files and links below it: path after `below/`, open directory, name; UnsafePath if nested too deep."""
        if depth > MAX_DEPTH:
            raise UnsafePath("%s is nested in more than %d directories" % (self.path, MAX_DEPTH))
        for name in self.names():
            status = self.find(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                with self.enter(name) as inner:
                    yield from inner.walk("%s%s/" % (below, name), depth + 1)
            elif status is not None:
                yield below + name, self, name

    def remove(self, name: str, depth: int = 0) -> None:
        """Remove a file, link or whole directory, if any; UnsafePath if nested too deep, OSError if it fails."""
        status = self.find(name)
        if status is None or not stat.S_ISDIR(status.st_mode):
            self.unlink(name)
            return
        if depth > MAX_DEPTH:
            raise UnsafePath("%s is nested in more than %d directories" % (self.path, MAX_DEPTH))
        with self.enter(name) as inner:
            for one in inner.names():
                inner.remove(one, depth + 1)
        try:
            os.rmdir(name, dir_fd=self.descriptor)
        except OSError as error:
            raise at(error, self.place(name)) from None

    def has_mark(self, marks: Sequence[str], uid: int = 0) -> bool:
        """Whether a name in it matches a mark (fnmatch), and was made by root, the owner, or `uid` if it cannot write.

        Names of a user who cannot write there were made when the directory was its own.
        """
        from fnmatch import fnmatchcase  # seldom needed

        owners = {0, self.status.st_uid, 0 if self.status.st_mode & OTHERS_WRITE else uid}
        for name in self.names():
            if any(fnmatchcase(name, mark) for mark in marks):
                status = self.find(name)
                if status is not None and status.st_uid in owners:
                    return True
        return False

    def open(self, name: str) -> Optional[int]:
        """Open a regular file, `None` without one, never blocking; ResourceFailed if it is something else."""
        try:
            descriptor = os.open(name, os.O_RDONLY | FILE_FLAGS, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            status = self.find(name)
            if status is not None:
                self.require_regular(name, status)
            raise at(error, self.place(name)) from None
        try:
            self.require_regular(name, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str) -> Optional[Tuple[os.stat_result, bytes]]:
        """Status and content of a regular file, or `None`; ResourceFailed as `open`, or if large in others' places."""
        descriptor = self.open(name)
        if descriptor is None:
            return None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not self.others:
                return status, file.read()
            if status.st_size > MAX_BYTES:
                message = "%s has %d bytes, which is more than slurmfab reads; see what it is, and remove it"
                raise UnsafePath(message % (self.place(name), status.st_size))
            return status, file.read(MAX_BYTES)

    def require_regular(self, name: str, status: os.stat_result) -> None:
        """Refuse a name that is a symbolic link, a directory or a device, by ResourceFailed."""
        if stat.S_ISLNK(status.st_mode):
            target = self.target(name)
            owner = " of " + user(status.st_uid) if self.others else ""
            message = "%s is a symbolic link%s to %s; remove it if a file may take its place"
            raise ResourceFailed(message % (self.place(name), owner, target))
        if not stat.S_ISREG(status.st_mode):
            raise ResourceFailed(
                "%s is not a regular file; move it away if a file may take its place" % self.place(name)
            )

    def target(self, name: str) -> str:
        """Where a symbolic link leads; empty if it is not there any more."""
        try:
            return os.readlink(name, dir_fd=self.descriptor)
        except OSError:
            return ""

    def link(self, name: str) -> str:
        """The target of a link that may be followed; NotADirectoryError if none, UnsafePath if another user's."""
        status = self.find(name)
        if status is None or not stat.S_ISLNK(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.place(name))
        target = os.readlink(name, dir_fd=self.descriptor)
        who = self.others or ("" if self.is_own(status) else user(status.st_uid))
        if who:
            raise UnsafePath(
                "%s is a symbolic link of %s to %s. It is not followed, because %s can change it, and could so give "
                "root's files away. See who made it and why; then remove it (rm %s), or mount that directory there "
                "(mount --bind)" % (self.place(name), user(status.st_uid), target, who, self.place(name))
            )
        return target


class Tie:
    """Holds a path, if it is bound, to the network file system on which it followed a link."""

    def __init__(self, is_bound: bool) -> None:
        self.is_bound = is_bound
        self.device = -1
        self.link = ""

    def follow(self, status: os.stat_result, link: str) -> None:
        """Note a link that is followed. `status`: of its directory."""
        if self.is_bound and not self.link and is_on_network(status.st_dev):
            self.device, self.link = status.st_dev, link

    def require(self, status: os.stat_result) -> None:
        """Refuse, by UnsafePath, a directory on another file system."""
        if self.link and status.st_dev != self.device:
            message = (
                "%s is a symbolic link on a network file system, where root of another host can change it, and leads "
                "off it; name the directory itself, or mount it there"
            )
            raise UnsafePath(message % self.link)


class Opened:
    """A context manager that closes a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


def open_folder(path: str, make: bool = False, top: Optional[Folder] = None) -> Folder:
    """Open a directory, following the links of root alone; `make` makes missing ones of root, mode 0755.

    `top`: the root directory, as one of the deployer, where links may lead off a network file system. It is closed.
    Raises FileNotFoundError, NotADirectoryError, or UnsafePath if a link is not root's, or others can change it.
    """
    way = [top or Folder(os.open("/", WAY_FLAGS), "/")]
    names, links = path.split("/")[::-1], 0
    tie = Tie(is_bound=top is None)
    try:
        while names:
            name = names.pop()
            if name == ".." and len(way) > 1:
                way.pop().close()
            if name in ("", ".", ".."):
                continue
            try:
                way.append(way[-1].enter(name))
            except FileNotFoundError:
                if not make:
                    raise
                tie.require(way[-1].status)
                way.append(make_or_enter(way[-1], name))
            except NotADirectoryError:
                target, links = way[-1].link(name), links + 1
                tie.follow(way[-1].status, way[-1].place(name))
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
                while target.startswith("/") and len(way) > 1:
                    way.pop().close()
                names += target.split("/")[::-1]
        tie.require(way[-1].status)
        return way.pop()
    finally:
        for folder in way:
            folder.close()


def make_or_enter(folder: Folder, name: str, mode: int = 0o755) -> Folder:
    """Make a directory, or open the one that is there."""
    try:
        return folder.make(name, mode)
    except FileExistsError:
        return folder.enter(name)


def open_parent(path: str, make: bool = False) -> Tuple[Folder, str]:
    """Open the directory of a path, and return it with the path's last name; raises as `open_folder`."""
    directory, name = os.path.split(path)
    return open_folder(directory, make), name


def open_itself(path: str, make: bool = False) -> Optional[Folder]:
    """Open a directory that must not be reached by a link of its own name; `None` where nothing has this name.

    `make`: whether to make it, and directories above it, where they are missing. Raises ResourceFailed if it is a link,
    or something else that is not a directory. Raises OSError, UnsafePath as for `open_folder`.
    """
    try:
        folder, name = open_parent(path, make)
    except FileNotFoundError:
        return None
    with folder:
        try:
            return make_or_enter(folder, name) if make else folder.enter(name)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            status = folder.find(name)
            is_link = status is not None and stat.S_ISLNK(status.st_mode)
            what = " but a symbolic link; remove it" if is_link else "; move it away"
            raise ResourceFailed("%s is not a directory%s if a directory may take its place" % (path, what)) from None


def remove_empty(path: str) -> bool:
    """Remove a directory, if it is empty; whether it is gone now. Raises OSError as `open_folder`, or rmdir(2)."""
    try:
        with open_folder(path) as folder:
            if folder.names():
                return False
        parent, name = open_parent(path)
        with parent:
            os.rmdir(name, dir_fd=parent.descriptor)
    except FileNotFoundError:
        pass
    return True


def make_itself(path: str) -> Folder:
    """Open, or make, a directory that no link of its name reaches; raises as `open_itself` and `open_folder`."""
    folder = open_itself(path, make=True)
    if folder is None:
        raise ResourceFailed("%s was moved away while it was made; see who can write to the directories above" % path)
    return folder


def refuse_others(path: str) -> None:
    """Refuse, before it is made, too, a directory that others than root can replace: UnsafePath, or OSError."""
    above, name = os.path.split(path)
    while name:
        try:
            with open_folder(above) as folder:
                if folder.others and not folder.is_sticky:
                    message = "%s can be exchanged by %s; name a directory below directories of root's, as in /srv"
                    raise UnsafePath(message % (path, folder.others))
                return
        except FileNotFoundError:
            above, name = os.path.split(above)


def open_file(path: str) -> Optional[Tuple[int, str]]:
    """Open a regular file, and who else may change its directory, or `None`; raises as `Folder.open`."""
    try:
        folder, name = open_parent(path)
    except FileNotFoundError:
        return None
    with folder:
        descriptor = folder.open(name)
    return None if descriptor is None else (descriptor, folder.others)


def read_end(path: str, size: int) -> Optional[bytes]:
    """The last bytes of a regular file, up to a size; `None` without one, raises as `open_file`."""
    opened = open_file(path)
    if opened is None:
        return None
    with open(opened[0], "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read(size)


def is_on_network(device: int) -> bool:
    """Whether other hosts may have the files of a device, too; not so where it is in no list of mounts (btrfs)."""
    number = "%d:%d" % (os.major(device), os.minor(device))
    return any(mount.device == number and not mount.is_local for mount in mounts.read(MOUNTS))


def is_roots(status: os.stat_result) -> bool:
    """Whether something belongs to root, or to the user of this process: the deployer, or one who runs tests."""
    return status.st_uid in (0, os.geteuid())


def remedy(status: os.stat_result, path: str) -> str:
    """The command by which only root can change the names in a directory; empty if nobody else can."""
    if not is_roots(status):
        return "chown root %s" % path
    return "chmod go-w %s" % path if status.st_mode & OTHERS_WRITE else ""


def access_shown(status: os.stat_result) -> str:
    """Owner, group and mode, such as `root:syslog 0775`."""
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = "GID %d" % status.st_gid
    return "%s:%s %04o" % (user(status.st_uid), group, stat.S_IMODE(status.st_mode))


def user(uid: int) -> str:
    """The name of a user, or the number as text."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "UID %d" % uid


def set_access(descriptor: int, uid: int, gid: int, mode: int) -> None:
    """Set owner, group and permission bits of an open file, the owner first: chown(2) clears the set-user-ID bit.

    What is root's is this process's, as in `is_roots`: in scratch directories it may be another user.
    """
    status = os.fstat(descriptor)
    uid, gid = uid or os.geteuid(), gid or os.getegid()
    if (status.st_uid, status.st_gid) != (uid, gid):
        os.fchown(descriptor, uid, gid)
    os.fchmod(descriptor, mode)


def at(error: OSError, path: str) -> OSError:
    """The same error with the whole path in place of a name."""
    return type(error)(error.errno, error.strerror, path)
