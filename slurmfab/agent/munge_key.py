"""The munge key of the host that makes it for all others."""

from __future__ import annotations

import os
from typing import ClassVar

from slurmfab.agent import replace
from slurmfab.agent.accounts import gid_of, group_name, uid_of, user_name
from slurmfab.agent.resource import Context, Resource, State

SIZES = range(32, 1025)
"""Bytes that a key may have (mungekey(8), 0.5.15)."""

NEW_SIZE = 128
"""Bytes of a new key, as mungekey(8) makes them by default."""


class MungeKey(Resource):
    """A munge key of this host's own making, for the user munge alone; one that munged could use is kept.

    Args:
        path: absolute; its directory has to be there.
    """

    kind: ClassVar[str] = "munge-key"
    path: str = "/etc/munge/munge.key"

    def name(self) -> str:
        """The path."""
        return self.path

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The key file."""
        return (self.path,) if differing - {"leftovers"} else ()

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002
        """It is nothing else."""
        return True

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """A key of a legal size, munge's, 0400; and none beside it, which a run that was killed has left."""
        return {"key": "present", "owner": "munge", "group": "munge", "mode": "0400", "leftovers": None}

    def actual(self, context: Context) -> State:
        """The same of the file that is there; nothing when there is none."""
        path = context.path(self.path)
        status = replace.regular(path)
        if status is None:
            return {}
        return {
            "key": "present" if status.st_size in SIZES else "unusable: %d bytes" % status.st_size,
            "owner": user_name(context, status.st_uid, "munge"),
            "group": group_name(context, status.st_gid, "munge"),
            "mode": "%04o" % (status.st_mode & 0o7777),
            "leftovers": len(replace.leftovers(path)) or None,
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make a key, or only set who may read the one that is there."""
        path = context.path(self.path)
        uid, gid = uid_of(context, "munge"), gid_of(context, "munge")
        if "key" in differing:
            replace.put(path, os.urandom(NEW_SIZE), uid, gid, 0o400)
        elif differing - {"leftovers"}:
            replace.change_access(path, uid, gid, 0o400)
        if "leftovers" in differing:
            replace.remove_leftovers(*os.path.split(path))
