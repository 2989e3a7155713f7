"""Accounts, QOS and limits of one user in slurmdbd, returned as text."""

from __future__ import annotations

from typing import Dict, List

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

ASSOCIATION_FIELDS = (
    "Account", "Partition", "DefaultQOS", "QOS", "MaxJobs", "MaxSubmitJobs", "MaxWall", "MaxTRES", "GrpJobs", "GrpTRES",
)  # fmt: skip
QOS_FIELDS = (
    "Name", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPU", "MaxJobsPA", "MaxTRESPA", "MaxWall", "MaxTRES", "GrpJobs",
    "GrpTRES",
)  # fmt: skip
"""The fields to print, as sacctmgr(1) of 22.05 to 26.05 names them; a user's limits include inherited ones."""

LIMITS_TIMEOUT = 20.0


def read(user: str, context: Context) -> Dict[str, str]:
    """The user's `associations` and all `qos` as texts of sacctmgr; empty if slurmdbd does not answer."""
    queries = {
        "associations": commands.accounts("associations", ASSOCIATION_FIELDS, "where", "user=" + user),
        "qos": commands.accounts("qos", QOS_FIELDS),
    }
    try:
        return {name: context.must(argv, seconds=LIMITS_TIMEOUT) for name, argv in queries.items()}
    except ResourceFailed:
        return {}


def accounts_in(associations: str) -> List[str]:
    """The accounts in what sacctmgr printed of a user's associations."""
    return [line.split("|")[0] for line in associations.split("\n") if line]
