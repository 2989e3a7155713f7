"""A removed user's associations with accounts, deleted from slurmdbd."""

from __future__ import annotations

from typing import ClassVar, FrozenSet

from slurmfab.on_hosts.agent.accounting.sacctmgr import NAME_BYTES, Sacctmgr, one_line
from slurmfab.on_hosts.agent.accounting.tree import is_not_installed_yet
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State


class AssociationsGone(Resource):
    """No association of a user in this cluster; the history of jobs is kept."""

    kind: ClassVar[str] = "associations-gone"
    named_by: ClassVar[str] = "user"
    deadline: ClassVar[float] = 1800.0
    user: str
    cluster: str
    conf: str  # of `Sacctmgr`

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """No accounts."""
        return {"accounts": None}

    def actual(self, context: Context) -> State:
        """The accounts that the user may use."""
        if is_not_installed_yet(context):
            return {"accounts": None}
        with Sacctmgr(context, self.conf) as sacctmgr:
            where = ("where", "user=" + self.user, "cluster=" + self.cluster)
            rows = sacctmgr.records({"account": NAME_BYTES}, "associations", *where)
            return {"accounts": ",".join(sorted(one_line(row[0]) for row in rows)) or None}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Delete the associations; slurmdbd deletes the user with the last one."""
        with Sacctmgr(context, self.conf) as sacctmgr:
            sacctmgr.run(["-i", "delete", "user", "where", "name=" + self.user, "cluster=" + self.cluster])
