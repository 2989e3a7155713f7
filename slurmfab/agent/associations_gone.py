"""A person who has left, as slurmdbd knows people."""

from __future__ import annotations

from typing import ClassVar, FrozenSet

from slurmfab.agent.account_tree import is_to_come
from slurmfab.agent.resource import Context, Resource, State
from slurmfab.agent.sacctmgr import Sacctmgr


class AssociationsGone(Resource):
    """No account of this cluster for a user; the history of jobs stays.

    Args:
        user: whose.
        cluster: the ClusterName.
        conf: of `Sacctmgr`.
    """

    kind: ClassVar[str] = "associations-gone"
    user: str
    cluster: str
    conf: str

    def name(self) -> str:
        """The user."""
        return self.user

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None."""
        return {"accounts": None}

    def actual(self, context: Context) -> State:
        """The accounts that the user may use."""
        if is_to_come(context):
            return {"accounts": None}
        with Sacctmgr(context, self.conf) as sacctmgr:
            rows = sacctmgr.rows(["Account"], "associations", "where", "user=" + self.user, "cluster=" + self.cluster)
            return {"accounts": ",".join(sorted(row[0] for row in rows)) or None}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Remove them; the user goes with the last one."""
        with Sacctmgr(context, self.conf) as sacctmgr:
            sacctmgr.run(["-i", "delete", "user", "where", "name=" + self.user, "cluster=" + self.cluster])
