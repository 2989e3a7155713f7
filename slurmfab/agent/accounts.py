"""Users and groups of a host by name and by number; below a scratch root, those of its own files."""

from __future__ import annotations

import grp
import pwd
from typing import TYPE_CHECKING, Optional

from slurmfab.agent.reading import entries
from slurmfab.agent.resource import ResourceFailed

if TYPE_CHECKING:
    from slurmfab.agent.resource import Context


def find_user(context: Context, user: str) -> Optional[pwd.struct_passwd]:
    """A user as NSS knows it, or as <root>/etc/passwd does; `None` when there is none."""
    if context.root == "/":
        try:
            return pwd.getpwnam(user)
        except KeyError:
            return None
    for fields in entries(context.path("/etc/passwd")):
        if fields[0] == user:
            name, password, uid, gid, gecos, home, shell = fields
            return pwd.struct_passwd((name, password, int(uid), int(gid), gecos, home, shell))
    return None


def find_group(context: Context, group: str) -> Optional[int]:
    """The GID of a group, `None` when there is none."""
    if context.root == "/":
        try:
            return grp.getgrnam(group).gr_gid
        except KeyError:
            return None
    return next((int(fields[2]) for fields in entries(context.path("/etc/group")) if fields[0] == group), None)


def uid_of(context: Context, user: str) -> int:
    """The UID of a user.

    Raises:
        ResourceFailed: there is no such user.
    """
    found = find_user(context, user)
    if found is None:
        raise ResourceFailed("there is no user %s on this host" % user)
    return found.pw_uid


def gid_of(context: Context, group: str) -> int:
    """The GID of a group.

    Raises:
        ResourceFailed: there is no such group.
    """
    found = find_group(context, group)
    if found is None:
        raise ResourceFailed("there is no group %s on this host" % group)
    return found


def user_name(context: Context, uid: int, wanted: str = "") -> str:
    """The name of a UID, or the number as text.

    Args:
        context: the request's context.
        uid: the number.
        wanted: a name to prefer, where several names share the number.
    """
    found = find_user(context, wanted) if wanted else None
    if found is not None and found.pw_uid == uid:
        return wanted
    if context.root == "/":
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)
    return next((fields[0] for fields in entries(context.path("/etc/passwd")) if fields[2] == str(uid)), str(uid))


def group_name(context: Context, gid: int, wanted: str = "") -> str:
    """The name of a GID, or the number as text; `wanted` as for `user_name`."""
    if wanted and find_group(context, wanted) == gid:
        return wanted
    if context.root == "/":
        try:
            return grp.getgrgid(gid).gr_name
        except KeyError:
            return str(gid)
    return next((fields[0] for fields in entries(context.path("/etc/group")) if fields[2] == str(gid)), str(gid))
