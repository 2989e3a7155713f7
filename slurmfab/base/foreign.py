"""Whose the files are that belong to a cluster file: who may change it may change them, and nobody else."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST_LINKS = 40  # as many as Linux follows
ACCESS_LIST = "system.posix_acl_access"  # the extended attribute of a file with an access control list (acl(5))


class Trusted(NamedTuple):
    """Those who may change a file."""

    users: frozenset[int]  # by UID
    group: int | None  # the GID of a group whose members may, too


def sharing(cluster_file: Path) -> Trusted:
    """Those who may change a cluster file, or its directory while it is not there."""
    shared = (cluster_file if cluster_file.exists() else cluster_file.absolute().parent).stat()
    group = shared.st_gid if shared.st_mode & stat.S_IWGRP else None
    return Trusted(frozenset({0, os.geteuid(), shared.st_uid}), group)


def why_planted(path: Path, cluster_file: Path) -> str:
    """Why a file beside a cluster file may be of somebody who cannot change that; empty if it is not.

    Where all may put files, as in /tmp, each changes their own alone. Raises OSError if it is not there.
    """
    owner = path.lstat().st_uid
    is_open = cluster_file.absolute().parent.stat().st_mode & stat.S_ISVTX
    if not is_open or is_trusted(owner, sharing(cluster_file)):
        return ""
    return f"{path} belongs to another user (UID {owner}), who may not change {cluster_file}"


def own(directory: Path) -> Trusted:
    """Those whose code is run from a directory: this user, whoever called sudo, root, and a group that these let in.

    They let it in by its right to write to a directory of theirs. Somebody else's directory lets nobody in.
    """
    users, found = frozenset({0, os.geteuid(), caller()}), directory.stat()
    is_shared = found.st_uid in users and found.st_mode & stat.S_IWGRP and is_in(caller(), found.st_gid)
    return Trusted(users, found.st_gid if is_shared else None)


def caller() -> int:
    """The UID of whoever called sudo, or of this user."""
    called = os.environ.get("SUDO_UID", "")
    return int(called) if os.geteuid() == 0 and called.isdecimal() else os.geteuid()


def why_unsafe(path: Path, trusted: Trusted) -> str:
    """Why code in a file is not run; empty if nobody else could write it, or put something beside it."""
    real = path.resolve()
    for place in (path.absolute().parent, path.absolute().parent / "__pycache__", real.parent):
        if place.exists() and (why := why_foreign(place, trusted)):
            return why
    return why_not_own(path, trusted)


def why_not_own(path: Path, trusted: Trusted) -> str:
    """Why a file may be what others made of it, or of a link or a directory on the way to it; empty if it is not."""
    reasons = (why_foreign(place, trusted, found) for place, found in entries(path))
    return next(filter(None, reasons), "")


def entries(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All files, directories and links on the way to a file, as far as they are there and can be seen.

    Rights to write in links, and in directories such as /tmp, are left out: others cannot replace there what is not
    theirs.
    """
    waiting, here, links = deque(Path(os.path.abspath(path.parent), path.name).parts), Path("/"), 0  # noqa: PTH100
    while waiting:
        here = here.parent if waiting[0] == ".." else here / waiting[0]
        waiting.popleft()
        try:
            found = here.lstat()
            is_link = stat.S_ISLNK(found.st_mode)
            is_closed = is_link or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX)
            yield here, without_rights(found, stat.S_IWGRP | stat.S_IWOTH) if is_closed else found
            if is_link and links < MOST_LINKS:
                waiting.extendleft(reversed(here.readlink().parts))
                here, links = here.parent, links + 1
        except OSError:
            return  # reading it tells why


def without_rights(found: os.stat_result, rights: int) -> os.stat_result:
    """What is known of a file, without some rights in its mode."""
    return os.stat_result((found.st_mode & ~rights, *found[1:10]))


def why_foreign(place: Path, trusted: Trusted, found: os.stat_result | None = None) -> str:
    """Why a file or directory can be changed by others; empty if it cannot.

    `found`: what is known of it, if it is. Raises OSError if it is not there.
    """
    found = found or place.stat()
    if not is_trusted(found.st_uid, trusted):
        return f"{place} belongs to another user (UID {found.st_uid})"
    may_write = trusted.group is not None and (found.st_gid == trusted.group or is_own_group(found))
    if found.st_mode & (stat.S_IWOTH | (0 if may_write else stat.S_IWGRP)):
        return f"others may write to {place} (mode {stat.S_IMODE(found.st_mode):04o})"
    if found.st_mode & stat.S_IWGRP and has_access_list(place):
        return f"others may write to {place} (it has an access control list)"
    return ""


def is_trusted(uid: int, trusted: Trusted) -> bool:
    """Whether a user is one of those."""
    return uid in trusted.users or (trusted.group is not None and is_in(uid, trusted.group))


def is_in(uid: int, gid: int) -> bool:
    """Whether a user belongs to a group."""
    try:
        user = pwd.getpwuid(uid)
        return gid in os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OSError):
        return False


def is_own_group(found: os.stat_result) -> bool:
    """Whether the group of a file is that of its owner alone, as many distributions give each user one."""
    try:
        group = grp.getgrgid(found.st_gid)
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        return False
    others = (one for one in pwd.getpwall() if one.pw_gid == found.st_gid and one.pw_name != owner)
    return group.gr_name == owner and not group.gr_mem and not any(others)


def has_access_list(place: Path) -> bool:
    """Whether a file has an access control list, in which the mode's bits of the group stand for all of it."""
    with suppress(OSError):  # a file system without extended attributes
        return ACCESS_LIST in os.listxattr(place)
    return False
