"""A guard that takes a change of who may log in back, unless another login has passed it.

The guard is a transient unit of systemd, so it outlives the agent, its connection and the deployer. It waits for the
lock of this host, which an agent holds until its process ends: at once when the deployer is killed, and after a minute
of silence when the network fails.
"""

from __future__ import annotations

import os
from typing import ClassVar, Iterable

from slurmfab.agent.core import replace
from slurmfab.agent.core.host_lock import LOCK
from slurmfab.agent.core.resource import Context, Resource, State
from slurmfab.agent.core.safe_paths import open_parent

UNIT = "slurmfab-logins-back"
EARLIER = "/var/lib/slurmfab/earlier-logins"
"""The files as they were, at their paths below /etc; exists while a change is not proved."""

RESTORE = (
    'cd "$1" && find . -type f | while read -r file; do cp -p "$file" "$2/$file.slurmfab-back"'
    ' && mv "$2/$file.slurmfab-back" "$2/$file" || exit 1; done && cd / && rm -rf "$1"'
)
"""Puts each earlier file back in one step; a file that was not there before does no harm without a line for it."""

WAIT = 'flock --shared "$3" true; '


class LoginGuard(Resource):
    """The end of the guard of a change of who may log in, if there was one.

    Args:
        proved: whether another login has passed the change, so that it stays; otherwise it is taken back.
    """

    kind: ClassVar[str] = "login-guard"
    proved: bool

    def name(self) -> str:
        """What becomes of the change."""
        return "kept" if self.proved else "taken back"

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """No guard."""
        return {"guard": None}

    def actual(self, context: Context) -> State:
        """Whether there is a guard."""
        return {"guard": "armed" if is_armed(context) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Keep the change, or take it back, and remove the guard.

        Raises:
            ResourceFailed: the earlier files cannot be put back.
        """
        if self.proved:
            context.run(["systemctl", "stop", UNIT + ".service"])
            context.must(["rm", "-rf", context.path(EARLIER)])
        else:
            take_back(context)


def arm(context: Context, paths: Iterable[str]) -> None:
    """Have these files put back when the present run has ended; called before they are changed.

    Args:
        context: the request's context; the agent holds the host's lock.
        paths: of files below /etc.

    Raises:
        ResourceFailed: systemd refuses the guard.
    """
    context.run(["systemctl", "stop", UNIT + ".service"])
    context.must(["rm", "-rf", context.path(EARLIER)])
    for path in paths:
        found = replace.find(context.path(path))
        if found is not None:
            status = found[0]
            folder, name = open_parent(context.path(EARLIER + path[len("/etc") :]), make=True)
            with folder:
                replace.put_in(folder, name, found[1], (status.st_uid, status.st_gid, status.st_mode & 0o777))
    what = "--description=Takes back who may log in unless slurmfab proves it"
    script = ["sh", "-c", WAIT + RESTORE, "sh", context.path(EARLIER), context.path("/etc"), LOCK]
    context.must(["systemd-run", "--quiet", "--collect", "--unit=" + UNIT, what, *script])


def take_back(context: Context) -> None:
    """Put the earlier files back, and remove the guard.

    Raises:
        ResourceFailed: they cannot be put back; the guard still tries it when the run ends.
    """
    if is_armed(context):
        context.must(["sh", "-c", RESTORE, "sh", context.path(EARLIER), context.path("/etc")])
        context.run(["systemctl", "stop", UNIT + ".service"])


def is_armed(context: Context) -> bool:
    """Whether a change is not proved yet."""
    return os.path.isdir(context.path(EARLIER))
