"""The munge key on the host that makes it for the cluster."""

from __future__ import annotations

import os
from typing import ClassVar

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import MUNGE_KEY
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, gid_of, uid_of

SIZES = range(32, 1025)  # allowed sizes of a key in bytes (mungekey(8), munge 0.5.15)
NEW_SIZE = 128  # bytes of a new key: the default of mungekey(8)


class MungeKey(Resource):
    """A random key that only its user can read, as that of munge; an existing usable key is kept."""

    kind: ClassVar[str] = "munge-key"
    named_by: ClassVar[str] = "path"
    file_in: ClassVar[str] = "path"
    path: str = MUNGE_KEY  # absolute path; its directory has to exist
    owner: str = "munge"  # user and group

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002
        """The key file holds nothing but a secret."""
        return True

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """A key of an allowed size with its owner and mode 0400, and no copy left by an interrupted run."""
        return {"key": "present", "owner": self.owner, "group": self.owner, "mode": "0400", "leftovers": None}

    def actual(self, context: Context) -> State:
        """The same of the key on the host, empty without one; ResourceFailed if it is no regular file."""
        path = context.path(self.path)
        status = replace.regular(path)
        if status is None:
            return {}
        return {
            "key": "present" if status.st_size in SIZES else "unusable: %d bytes" % status.st_size,
            **access_of(context, status, self.owner, self.owner),
            "leftovers": len(replace.leftovers(path)) or None,
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make a key, or set access of the present one; ResourceFailed if user or directory are missing."""
        path = context.path(self.path)
        uid, gid = uid_of(context, self.owner), gid_of(context, self.owner)
        if "key" in differing:
            replace.put(path, os.urandom(NEW_SIZE), uid, gid, 0o400)
        elif differing - {"leftovers"}:
            replace.change_access(path, uid, gid, 0o400)
        if "leftovers" in differing:
            replace.remove_leftovers(*os.path.split(path))
