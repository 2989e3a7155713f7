"""The way to a directory: whether its user may pass the directories above, which a host can have closed."""

from __future__ import annotations

import os
import posixpath
from contextlib import suppress
from typing import Iterator, List

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import is_roots, open_folder
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, find_user

ACCESS_LISTS = "system.posix_acl_access"
"""The extended attribute of a directory with an access control list (acl(5)), which may let the user through."""


def closed_ways(context: Context, path: str, user: str) -> str:
    """Directories above a path that the user, if it exists, cannot pass (`/var/lib is root:root 0700`)."""
    return "; ".join(
        "%s is %s:%s %s" % (above, found["owner"], found["group"], found["mode"])
        for above in closed(context, path, user)
        for found in (access_of(context, os.stat(context.path(above))),)
    )


def closed(context: Context, path: str, user: str) -> List[str]:
    """The directories above a path that a user cannot pass, the topmost first."""
    found = find_user(context, user)
    if found is None or not found.pw_uid:
        return []
    return [above for above in parents(path) if not passes(context.path(above), found.pw_uid, found.pw_gid)]


def parents(path: str) -> Iterator[str]:
    """The directories above an absolute path, the topmost first."""
    above = posixpath.dirname(path)
    if above != path:
        yield from parents(above)
        yield above


def passes(path: str, uid: int, gid: int) -> bool:
    """Whether a user may pass a directory; also if there is none, or its access control list may say so."""
    try:
        status = os.stat(path)
    except OSError:
        return True
    bit = 0o100 if status.st_uid == uid else 0o010 if status.st_gid == gid else 0o001
    if status.st_mode & bit:
        return True
    with suppress(OSError):
        return ACCESS_LISTS in os.listxattr(path)
    return False


def open_ways(context: Context, path: str, user: str) -> None:
    """Let all pass root's directories above a path that its user cannot pass; ResourceFailed of another's."""
    for above in closed(context, path, user):
        with open_folder(context.path(above)) as folder:
            if not is_roots(folder.status):
                raise ResourceFailed("%s cannot pass %s; let it: chmod o+x %s" % (user, above, above))
            folder.set_access(mode=folder.status.st_mode & 0o7777 | 0o011)
