"""The controller's copy of the lock beside the cluster file, for an admin who has lost it and its records.

    /var/lib/slurmfab/lock-copy.json   the newest lock, with the run that left it; readable for root only

It is one file, which each run replaces whole. A lock has no secrets.
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Mapping

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State

PLACE = "/var/lib/slurmfab/lock-copy.json"

NAMES = ("cluster", "run", "by", "text")


class LockCopy(Resource):
    """The copy on this host."""

    kind: ClassVar[str] = "lock-copy"
    named_by: ClassVar[str] = "cluster"
    UNSHOWN: ClassVar[tuple[str, ...]] = ("text",)
    cluster: str
    run: str  # id of the run that left this lock
    by: str  # who ran it, as `USER@HOST`
    text: str

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Of which cluster it is, and the digest of the lock; the run that left it makes no difference."""
        return {"cluster": self.cluster, "digest": digest(self.text)}

    def actual(self, context: Context) -> State:
        """The same of the copy that is there."""
        found = read({}, context)
        return {"cluster": found.get("cluster"), "digest": digest(found["text"]) if "text" in found else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Replace the copy."""
        host_records.write(context, PLACE, {name: getattr(self, name) for name in NAMES})


def digest(text: str) -> str:
    """The SHA-256 of a lock's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read(request: Mapping[str, Any], context: Context) -> Mapping[str, str]:  # noqa: ARG001
    """The copy by `NAMES`; empty where there is none, or a damaged one."""
    found = host_records.read(context, PLACE)
    return {name: found[name] for name in NAMES} if all(isinstance(found.get(name), str) for name in NAMES) else {}
