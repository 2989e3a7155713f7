"""Who owns files and directories of this host, and who may use them; nothing is opened."""

from __future__ import annotations

import os
import stat
from typing import Any, Iterator, List, Mapping, NamedTuple

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.identities.users_and_groups import group_name, user_name

DIRECTORY, FILE = "directory", "file"


class Owned(NamedTuple):
    """A file or a directory; names are numbers where the host knows none."""

    path: str
    kind: str  # `DIRECTORY` or `FILE`
    user: str
    group: str
    mode: int  # permission bits


def read(request: Mapping[str, Any], context: Context) -> List[Owned]:
    """Those of `paths` that exist, and the directories above them, each behind its own directory; no links."""
    wanted = dict.fromkeys(one for path in request["paths"] for one in from_the_top(path))
    return [found for path in wanted for found in look(context, path)]


def from_the_top(path: str) -> Iterator[str]:
    """The directories above an absolute path, without the root, and the path itself."""
    parts = os.path.normpath(path).strip("/").split("/")
    return ("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))


def look(context: Context, path: str) -> Iterator[Owned]:
    """The file or directory at a path; nothing if there is none."""
    try:
        status = os.lstat(context.path(path))
    except OSError:
        return
    kind = DIRECTORY if stat.S_ISDIR(status.st_mode) else FILE
    if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
        user, group = user_name(context, status.st_uid), group_name(context, status.st_gid)
        yield Owned(path, kind, user, group, stat.S_IMODE(status.st_mode))
