"""Files of the deployer that are replaced in one step: a reader, or a crash, sees the old content or the new one.

Others may write to the directory of a cluster file, and so may exchange each name there between two steps. So every
directory is opened, one name at a time and through no link that another user could have made, and everything is done
relative to it, by descriptors (`slurmfab.on_hosts.agent.core.safe_paths`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurmfab.base import bounded_file, foreign
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import (
    FILE_FLAGS,
    MAX_LINKS,
    WAY_FLAGS,
    Folder,
    Opened,
    access_shown,
    make_or_enter,
    open_folder,
    user,
)

OWNER_ONLY = 0o600  # the mode of a new file: most hold what hosts, checks or Slurm say of users, jobs and files
RECORD = ".json"  # in the name of each record, also of an unfinished one
READABLE_BY_ALL = 0o644  # the mode of a new file that colleagues or other programs read
LINK = "{} is a link, and slurmfab writes through none that you have not named. Remove it."
KEPT = (replace.UNCHANGED, replace.UNCHANGED)  # owner and group of a new file are as the kernel sets them


class Place(Folder):
    """An open directory of the deployer: links are followed that this user, whoever called sudo, or root made."""

    def is_own(self, status: os.stat_result) -> bool:
        """Whether something belongs to one of these."""
        return status.st_uid in (0, os.geteuid(), foreign.caller())

    def writer(self) -> str:
        """Who else can change the names in it; many distributions give each user a group, which is nobody else."""
        mode = self.status.st_mode
        if not self.is_own(self.status):
            return user(self.status.st_uid)
        if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not foreign.is_own_group(self.status)):
            return f"whoever may write to {self.path} ({access_shown(self.status)})"
        return ""

    def link(self, name: str) -> str:
        """The target of a link that may be followed, as `Folder.link`; also of one of these users' own, as in /tmp."""
        found = self.find(name)
        if found and stat.S_ISLNK(found.st_mode) and self.is_sticky and self.is_own(found):
            return os.readlink(name, dir_fd=self.descriptor)
        return super().link(name)

    def set_access(self, uid: int = -1, gid: int = -1, mode: int = 0o755) -> None:
        """Set its access, and let it hand on its group if it does: new ones take that from the directory above."""
        super().set_access(uid, gid, mode | (os.fstat(self.descriptor).st_mode & stat.S_ISGID))


def opened(directory: Path, make: int = 0) -> Folder:
    """Open a directory; `make`: the mode of a new one, 0 for none. Raises OSError, or UnsafePath for others' links."""
    path = str(directory.absolute())
    try:
        return open_folder(path, top=Place(os.open("/", WAY_FLAGS), "/"))
    except FileNotFoundError:
        if not make:
            raise
    above, name = os.path.split(path)
    with open_folder(above, make=True, top=Place(os.open("/", WAY_FLAGS), "/")) as parent:
        return make_or_enter(parent, name, make)


def opened_parent(path: Path, *, through_link: bool = False, make: bool = False) -> tuple[Folder, str]:
    """Open the directory of a file, which another one is if the path is a link; with the file's name there.

    Raises InputError for a link unless it may be one, and as `opened`.
    """
    for _ in range(MAX_LINKS):
        folder, name = opened(path.parent, 0o755 if make else 0), path.name
        found = folder.find(name)
        if found is None or not stat.S_ISLNK(found.st_mode):
            return folder, name
        with folder:
            if not through_link:
                raise InputError(LINK.format(path))
            path = Path(folder.path, folder.link(name))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def entered(directory: Path, make: int = 0) -> Folder:
    """Open a directory that must be no link itself; `make`: the mode of a new one, 0 for none. Raises as `opened`."""
    parent, name = opened_parent(directory, make=bool(make))
    with parent:
        return make_or_enter(parent, name, make) if make else parent.enter(name)


def opened_own(directory: Path, shared: Path, make: int = 0) -> Folder:
    """Open a directory of slurmfab's beside a file, which those alone may own who may change that.

    `make`: the mode of a new one, 0 for none. Raises BrokenFile for one of others, or a link; OSError.
    """
    try:
        folder = entered(directory, make)
    except InputError as error:
        raise BrokenFile(directory, f"{directory} is a link") from error
    owner = folder.status.st_uid
    if not foreign.is_trusted(owner, foreign.sharing(shared)):
        folder.close()
        raise BrokenFile(directory, f"{directory} belongs to another user (UID {owner})")
    return folder


def opened_private(directory: Path, shared: Path) -> Folder:
    """Open, or make, a directory of slurmfab's beside a file, for those alone who may change that: it becomes so.

    Raises as `opened_own`, and BrokenFile for a private one with files of others: it was moved here.
    """
    folder = opened_own(directory, shared, 0o700)
    group, found = foreign.sharing(shared).group, os.fstat(folder.descriptor)
    gid, mode = (found.st_gid, 0o700) if group is None else (group, 0o770)
    if group is not None and not found.st_mode & stat.S_IRWXG:
        strange = next((name for name in folder.names() if RECORD not in name), "")
        if strange:
            folder.close()
            raise BrokenFile(directory, f"{directory} is private and has {strange} in it, which is none of slurmfab's")
    if os.geteuid() in (0, found.st_uid) and (found.st_gid, found.st_mode & 0o777) != (gid, mode):
        with suppress(PermissionError):  # a group that this user is not in, or a file server that obeys no root
            folder.set_access(gid=gid, mode=mode)
    return folder


@contextmanager
def refusing(path: Path, end: str = "What was there is unchanged.") -> Iterator[None]:
    """A context in which a file or directory is written, and all that is in the way becomes an InputError."""
    try:
        yield
    except BrokenFile as error:
        raise InputError(f"{error.reason}, so nothing is written there. See who made it, and move it away.") from error
    except ResourceFailed as error:
        raise InputError(f"{path} cannot be written: {error}. {end}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}. {end}") from error


def require_writable(path: Path, option: str) -> None:
    """Refuse a path that `write` could not write later; nothing is left there.

    `path`: the file, which need not exist, and neither need its folder. `option`: the option that named it, such as
    `--json`, for the message. Raises InputError if it is not a regular file, or its folder does not allow new files.
    """
    import tempfile  # slow to import, and most runs write no such file

    place = there = path.absolute()
    try:
        while True:
            with suppress(FileNotFoundError):
                folder, name = opened_parent(there, through_link=True)
                break
            there = there.parent
        with folder:
            found = folder.find(name) if there == place else None
            if found is None or stat.S_ISREG(found.st_mode):
                with tempfile.TemporaryFile(dir=f"/proc/self/fd/{folder.descriptor}"):
                    return
            why = f"this is {'a folder' if stat.S_ISDIR(found.st_mode) else 'not a regular file'}"
    except (OSError, ResourceFailed) as error:
        why = f"it cannot be written: {error.strerror if isinstance(error, OSError) else error}"
    raise InputError(f"{option} {path}: {why.rstrip('.')}. Nothing was done; give another file name.")


def refuse_link(path: Path) -> None:
    """Refuse, by InputError, a directory with a name of slurmfab's that is a link: nobody named its target."""
    if path.is_symlink():
        raise InputError(LINK.format(path))


def refuse_open_to_all(folder: Folder) -> None:
    """Refuse, by InputError, a directory in which everybody may exchange what is written there."""
    if folder.status.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
        how = access_shown(folder.status)
        raise InputError(
            f"Everybody may exchange what is in {folder.path} ({how}), so nothing is written there. Take that right "
            f"away: chmod o-w {folder.path}"
        )


def write(
    path: Path, text: str | bytes, mode: int | None = None, new: int = OWNER_ONLY, *, through_link: bool = False
) -> None:
    """Write a file of the deployer in one step, unless it has this content already.

    `through_link`: whether a symbolic link stays, and the file that it points to is replaced, since the user named the
    path; else a link is refused. Missing folders are made; surrogates, which are bytes
    that are no UTF-8, are written out. `mode`: `None` keeps that of an existing file; a new one gets `new`. Raises
    InputError, the old content in place.
    """
    with refusing(path):
        folder, name = opened_parent(path, through_link=through_link, make=True)
        with folder:
            write_in(folder, name, text, mode, new)


def write_in(folder: Folder, name: str, text: str | bytes, mode: int | None, new: int = OWNER_ONLY) -> None:
    """Write a file in an open directory as `write` does. Raises OSError, or ResourceFailed if it is none."""
    content = text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
    descriptor = folder.open(name)
    if descriptor is not None:
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            has_mode = mode in (None, found.st_mode & 0o777)
            if has_mode and found.st_size == len(content) and file.read(len(content) + 1) == content:
                return
        # Who put a file there does not choose that all read the new one; where all may put files, nor who else does.
        is_own = found.st_uid in (0, os.geteuid(), foreign.caller())
        if mode is None and (is_own or not folder.status.st_mode & stat.S_ISVTX):
            mode = found.st_mode & (0o777 if is_own else 0o770 | new)
    replace.exchange_in(folder, name, content, (*KEPT, new if mode is None else mode))


def write_new(folder: Folder, files: Iterable[tuple[str, bytes, int]]) -> None:
    """Write files, by paths below an open directory, contents and modes, all or none, replacing none.

    Raises OSError, FileExistsError if there is one of them, or ResourceFailed.
    """
    written: list[tuple[Folder, str]] = []
    made: list[tuple[Folder, str]] = []
    folders = {"": folder}
    try:
        for path, content, mode in files:
            (*above, name), here = path.split("/"), folder
            for depth, one in enumerate(above, 1):
                there = "/".join(above[:depth])
                if there not in folders:
                    try:
                        folders[there] = here.make(one)
                        made.append((here, one))
                    except FileExistsError:
                        folders[there] = here.enter(one)
                here = folders[there]
            temporary = replace.temporary_name(name, os.urandom(replace.DIGITS // 2).hex())
            replace.write_in(here, temporary, content, (*KEPT, mode), name)
            written.append((here, temporary))
            here.take_name(temporary, name)
            written[-1] = here, name
    except BaseException:
        for here, name in written:
            here.unlink(name)
        for here, name in reversed(made):
            with suppress(OSError):
                os.rmdir(name, dir_fd=here.descriptor)
        raise
    finally:
        for there, here in folders.items():
            if there:
                here.close()


def write_private(path: Path, text: str, shared: Path) -> None:
    """Write a file for those alone who may change another one, as the only kind of file in its folder.

    The folder, and files in it that an earlier slurmfab of this user wrote, become as private. `text`: as for `write`.
    `shared`: the file whose owner may read this one; its group, too, if it may change that file. Raises InputError as
    for `write`, also if the folder is of somebody who may not change that file.
    """
    with refusing(path), opened_private(path.parent, shared) as folder:
        mode, others = (0o600, 0o077) if foreign.sharing(shared).group is None else (0o660, 0o007)
        write_in(folder, path.name, text, mode)
        close(folder, others)


def close(folder: Folder, others: int) -> None:
    """Take rights of others from an open directory and the files in it, as far as these are this user's own."""
    found = folder.status
    if found.st_uid == os.geteuid() and found.st_mode & others:
        folder.set_access(mode=stat.S_IMODE(found.st_mode) & ~others)
    for name in folder.names():
        with suppress(OSError, ResourceFailed):  # a link, or one that has just gone
            named = folder.find(name)
            if named is None or not named.st_mode & others or not stat.S_ISREG(named.st_mode):
                continue
            descriptor = folder.open(name)
            if descriptor is None:
                continue
            with Opened(descriptor):
                found = os.fstat(descriptor)
                if found.st_uid == os.geteuid() and found.st_nlink == 1:
                    os.fchmod(descriptor, found.st_mode & 0o777 & ~others)


def remove(path: Path) -> None:
    """Remove a file from a directory of slurmfab's, if both are there, and the directory is no link."""
    with suppress(OSError, ResourceFailed, InputError), entered(path.parent) as folder:
        folder.unlink(path.name)


def keep_newest(directory: Path, most: int) -> None:
    """Remove the oldest JSON files of a directory whose names begin with times, so that so many are left."""
    with suppress(OSError, ResourceFailed, InputError), entered(directory) as folder:
        for old in [name for name in folder.names() if name.endswith(".json")][:-most]:
            with suppress(OSError):
                folder.unlink(old)


@contextmanager
def reading(directory: Path, shared: Path) -> Iterator[Folder]:
    """A context with an open directory of slurmfab's beside a file; BrokenFile if others could write there, OSError."""
    try:
        with opened_own(directory, shared) as folder:
            if why := foreign.why_foreign(directory, foreign.sharing(shared), folder.status):
                raise BrokenFile(directory, why)
            yield folder
    except ResourceFailed as error:
        raise BrokenFile(directory, str(error)) from error


def kept(directory: Path, shared: Path) -> list[Path]:
    """The JSON files in a directory of slurmfab's beside a file, by name; none if others could write there."""
    with suppress(OSError, BrokenFile), reading(directory, shared) as folder:
        return [directory / name for name in folder.names() if name.endswith(".json")]
    return []


def read_private(path: Path, most_bytes: int, shared: Path) -> bytes:
    """The bytes of a file in a directory of slurmfab's beside a file that those alone could write who may write that.

    Raises BrokenFile if others could write it, or it is a link, not regular, or larger; OSError.
    """
    with reading(path.parent, shared) as folder:

        def beside(name: str, flags: int) -> int:
            return os.open(name, flags | FILE_FLAGS, dir_fd=folder.descriptor)

        named = folder.find(path.name)
        if named and stat.S_ISLNK(named.st_mode):
            raise BrokenFile(path, f"{path} is a link")
        with open(path.name, "rb", opener=beside) as file:
            if why := foreign.why_foreign(path, foreign.sharing(shared), os.fstat(file.fileno())):
                raise BrokenFile(path, why)
            return bounded_file.read_open(file, path, most_bytes)
