"""What is read and written in the homes of users; it runs in the child process of `home_worker`.

A user can put anything below the home, and change it at any moment. So files there are reached by open directories
(openat(2)) as the user, without following links below the home, and nothing is read but regular files of limited size.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from typing import Callable, Dict, Optional, Tuple

from slurmfab.on_hosts.agent.core import labels
from slurmfab.on_hosts.agent.core.account import acting_as
from slurmfab.on_hosts.agent.core.safe_paths import MAX_LINKS, OTHERS_WRITE, Opened, Tie

MAX_KEY_FILE_BYTES = 1 << 20  # a larger file of keys is not read

KEYS = "authorized_keys"
LINK = "a symbolic link is in the way"
DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a directory without reading it, so that the right to search it is enough, as for sshd."""

Account = Tuple[int, int]  # UID and GID


def owner(account: Account, home: str) -> Optional[int]:
    """The UID that owns a home, `None` if there is no such directory; asks as the user where root may not look."""
    try:
        return os.stat(home).st_uid
    except FileNotFoundError:
        return None
    except PermissionError:  # a file server may deny root access (NFS: root_squash)
        with acting_as(*account):
            return os.stat(home).st_uid if os.path.lexists(home) else None


def read_keys(account: Account, home: str) -> Tuple[bytes, str]:
    """The content of ~/.ssh/authorized_keys, empty for none; and what, if known, prevents the user from replacing it.

    Raises OSError if the home is another's, or there is a link, a device, a FIFO or a too large file.
    """
    with acting_as(*account):
        try:
            opened = open_home(account, home)
        except FileNotFoundError:  # it is made before the keys are written
            return b"", ""
        with Opened(opened) as top:
            try:
                folder = open_folder(top)
            except FileNotFoundError:
                return b"", obstacle(top, home)
            with Opened(folder):
                return read_regular(folder), obstacle(folder, home + "/.ssh") or fixed(folder, home)


def write_keys(account: Account, home: str, data: bytes, temporary: str) -> None:
    """Replace ~/.ssh/authorized_keys as the user, making `.ssh`; OSError without rights or room."""
    with acting_as(*account), Opened(open_home(account, home)) as top:
        is_new = False
        with suppress(FileExistsError):
            os.mkdir(".ssh", 0o700, dir_fd=top)
            is_new = True
        with Opened(open_folder(top)) as folder:
            if is_new:
                labels.give(folder, home + "/.ssh")
            remove(temporary, folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
                    labels.give(file.fileno(), "%s/.ssh/%s" % (home, KEYS))
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, KEYS, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                remove(temporary, folder)
                raise


def make_home(account: Account, home: str, temporary: str, skeleton: str) -> None:
    """Make a home under a temporary name beside its path, and rename it; it is root's alone until it is complete.

    `temporary`: name of the directory while it is made. `skeleton`: directory with the initial content. Raises OSError
    if root may not make it, or a directory on the way belongs to another user.
    """
    parent, name = os.path.split(home)
    with Opened(open_parent(parent)) as place:
        discard(temporary, place)
        os.mkdir(temporary, 0o700, dir_fd=place)
        with Opened(os.open(temporary, DIRECTORY, dir_fd=place)) as new:
            if os.fstat(new).st_uid != os.geteuid():
                raise OSError(errno.ENOTSUP, "another user changes the directory", parent)
            fill(new, skeleton, account, home)
        try:
            os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        except OSError:
            discard(temporary, place)
            # Another host may have made it meanwhile, on a shared file system.
            if not stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
                raise


TASKS: Dict[str, Callable[..., object]] = {
    "owner": owner,
    "read keys": read_keys,
    "write keys": write_keys,
    "make home": make_home,
}
"""What the child process can do, by name."""


def open_home(account: Account, home: str) -> int:
    """Open a home. Raises OSError if there is none, it belongs to another user, or it is no directory."""
    top = os.open(home, DIRECTORY & ~os.O_NOFOLLOW)
    if os.fstat(top).st_uid != account[0]:
        os.close(top)
        raise OSError(errno.ENOTSUP, "the home belongs to another user", home)
    return top


def open_folder(top: int) -> int:
    """Open `.ssh` in an open home; FileNotFoundError if there is none, OSError if it is a link or no directory."""
    status = os.stat(".ssh", dir_fd=top, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, LINK, ".ssh")
    return os.open(".ssh", DIRECTORY, dir_fd=top)


def read_regular(folder: int) -> bytes:
    """The keys in an open `.ssh`, empty without a file; OSError if it is no regular file, or unreadable."""
    try:
        require_regular(os.stat(KEYS, dir_fd=folder, follow_symlinks=False))
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with open(os.open(KEYS, flags, dir_fd=folder), "rb") as file:
            require_regular(os.fstat(file.fileno()))
            data = file.read(MAX_KEY_FILE_BYTES + 1)
    except FileNotFoundError:
        return b""
    if len(data) > MAX_KEY_FILE_BYTES:
        raise OSError(errno.EFBIG, "it is larger than 1 MiB, so it is not a file of keys", KEYS)
    return data


def require_regular(status: os.stat_result) -> None:
    """Refuse what is not a file of keys. Raises OSError if it is a link, a FIFO, a device or a directory."""
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, LINK, KEYS)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", KEYS)


def obstacle(folder: int, path: str) -> str:
    """Why the user cannot make a file in an open directory; empty if the user can."""
    if os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
        return ""
    status = os.fstat(folder)
    advice = "immutable or read-only? see lsattr -d and mount"
    mode = status.st_mode & 0o7777
    return "%s cannot be written by its user (mode %04o, owner UID %d; %s)" % (path, mode, status.st_uid, advice)


def fixed(folder: int, home: str) -> str:
    """Whether the file of keys is immutable: its owner may write it by its mode, and yet may not."""
    try:
        status = os.stat(KEYS, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return ""
    is_open = status.st_uid == os.geteuid() and status.st_mode & stat.S_IWUSR
    if not is_open or os.access(KEYS, os.W_OK, dir_fd=folder, effective_ids=True):
        return ""
    return "%s/.ssh/%s cannot be changed by its user; is it immutable (lsattr)?" % (home, KEYS)


def open_parent(path: str) -> int:
    """Open, or make, a home's directory, links only in root's; OSError if others could exchange a part."""
    names = [name for name in reversed(path.split("/")) if name]
    here, passed, links = os.open("/", DIRECTORY), "/", 0
    tie = Tie(is_bound=True)
    try:
        while names:
            name = names.pop()
            require_roots(here, passed)
            try:
                status = os.stat(name, dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                tie.require(os.fstat(here))
                os.mkdir(name, 0o755, dir_fd=here)
                status = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > MAX_LINKS or status.st_uid not in (0, os.geteuid()):
                    raise OSError(errno.ELOOP, LINK, os.path.join(passed, name))
                tie.follow(os.fstat(here), os.path.join(passed, name))
                target = os.readlink(name, dir_fd=here)
                names += [one for one in reversed(target.split("/")) if one not in ("", ".")]
                following, passed = ("/", "/") if target.startswith("/") else (".", passed)
            else:
                following, passed = name, os.path.join(passed, name)
            before, here = here, os.open(following, DIRECTORY, dir_fd=here)
            os.close(before)
        require_roots(here, passed)
        tie.require(os.fstat(here))
    except BaseException:
        os.close(here)
        raise
    return here


def require_roots(folder: int, path: str) -> None:
    """Refuse, by OSError, a directory in which another user could exchange what root makes there."""
    status = os.fstat(folder)
    is_shared = status.st_mode & OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
    if status.st_uid not in (0, os.geteuid()) or is_shared:
        raise OSError(errno.ENOTSUP, "others than root can change this directory, so make the home yourself", path)


def fill(new: int, skeleton: str, account: Account, home: str) -> None:
    """Copy the skeleton into an open new home, make `.ssh`, and give all to the user, the home itself last.

    `home`: the path that it will have.
    """
    path = "/proc/self/fd/%d" % new
    if os.path.isdir(skeleton):
        copy(skeleton, new)
        os.chmod(path, 0o700)
    with suppress(FileExistsError):
        os.mkdir(".ssh", 0o700, dir_fd=new)
    labels.give(new, home)
    for folder, folders, files, here in os.fwalk(path + "/."):
        for name in (*folders, *files):
            labels.give_name(here, name, os.path.normpath(os.path.join(home, os.path.relpath(folder, path), name)))
            os.chown(name, *account, dir_fd=here, follow_symlinks=False)
    os.chown(path, *account)


def copy(source: str, target: int) -> None:
    """Copy what is in a directory into an open one, where nothing has these names.

    Root of another host may put links there, on a shared file system; OSError if a name is there.
    """
    with os.scandir(source) as found:
        for one in found:
            if one.is_symlink():
                os.symlink(os.readlink(one.path), one.name, dir_fd=target)
            elif one.is_dir():
                os.mkdir(one.name, 0o700, dir_fd=target)
                with Opened(os.open(one.name, os.O_RDONLY | DIRECTORY & ~os.O_PATH, dir_fd=target)) as below:
                    copy(one.path, below)
                    os.fchmod(below, stat.S_IMODE(one.stat().st_mode))
            elif one.is_file():
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(one.path, "rb") as old, open(os.open(one.name, flags, 0o600, dir_fd=target), "wb") as made:
                    shutil.copyfileobj(old, made)
                    os.fchmod(made.fileno(), stat.S_IMODE(one.stat().st_mode))


def discard(name: str, place: int) -> None:
    """Remove a directory that an interrupted run left, without following links."""
    try:
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=place)
        return
    for _, folders, files, here in os.fwalk(name, topdown=False, dir_fd=place):
        for file in files:
            os.unlink(file, dir_fd=here)
        for folder in folders:
            remove_directory(folder, here)
    os.rmdir(name, dir_fd=place)


def remove_directory(name: str, place: int) -> None:
    """Remove an empty directory, or the link to a directory."""
    if stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=place)
    else:
        os.rmdir(name, dir_fd=place)


def remove(name: str, folder: int) -> None:
    """Remove a file if there is one."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
