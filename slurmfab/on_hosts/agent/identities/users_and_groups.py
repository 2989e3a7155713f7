"""Users and groups of a host, by name and by number; below a scratch root, from its /etc/passwd and /etc/group."""

from __future__ import annotations

import grp
import pwd
from typing import TYPE_CHECKING, Dict, Optional

from slurmfab.on_hosts.agent.core.reading import entries
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

if TYPE_CHECKING:
    import os

    from slurmfab.on_hosts.agent.core.resource import Context


def find_user(context: Context, user: str) -> Optional[pwd.struct_passwd]:
    """The passwd entry of a user, from NSS or from the /etc/passwd of a scratch root; `None` when there is none."""
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
    """The UID of a user. Raises ResourceFailed if there is no such user."""
    found = find_user(context, user)
    if found is None:
        raise ResourceFailed("there is no user %s on this host" % user)
    return found.pw_uid


def gid_of(context: Context, group: str) -> int:
    """The GID of a group. Raises ResourceFailed if there is no such group."""
    found = find_group(context, group)
    if found is None:
        raise ResourceFailed("there is no group %s on this host" % group)
    return found


def user_name(context: Context, uid: int, wanted: str = "") -> str:
    """The name of a UID, or the number as text. `wanted`: the name to return where several users share the UID."""
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
    """The name of a GID, or the number as text. `wanted`: the name to return where several groups share the GID."""
    if wanted and find_group(context, wanted) == gid:
        return wanted
    if context.root == "/":
        try:
            return grp.getgrgid(gid).gr_name
        except KeyError:
            return str(gid)
    return next((fields[0] for fields in entries(context.path("/etc/group")) if fields[2] == str(gid)), str(gid))


def access_text(context: Context, status: os.stat_result, owner: str = "", group: str = "") -> str:
    """Owner, group and mode, such as `root:root 0755`; the arguments are those of `access_of`."""
    return "%(owner)s:%(group)s %(mode)s" % access_of(context, status, owner, group)


def access_of(context: Context, status: os.stat_result, owner: str = "", group: str = "") -> Dict[str, str]:
    """Owner, group and mode of a file, as a part of a state.

    `owner`: the name to return where several users share the UID. `group`: the name to return where several groups
    share the GID. Returns `owner` and `group`: names, or numbers as text; `mode`: four octal digits.
    """
    return {
        "owner": user_name(context, status.st_uid, owner),
        "group": group_name(context, status.st_gid, group),
        "mode": "%04o" % (status.st_mode & 0o7777),
    }
