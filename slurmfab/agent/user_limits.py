"""What slurmdbd knows of one user: accounts, qualities of service and limits; read, passed on as text."""

from __future__ import annotations

from typing import Dict

from slurmfab.agent.resource import Context, ResourceFailed

ASSOCIATION_FIELDS = (
    "Account", "Partition", "DefaultQOS", "QOS", "MaxJobs", "MaxSubmitJobs", "MaxWall", "MaxTRES", "GrpJobs", "GrpTRES",
)  # fmt: skip
QOS_FIELDS = (
    "Name", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPU", "MaxJobsPA", "MaxTRESPA", "MaxWall", "MaxTRES", "GrpJobs",
    "GrpTRES",
)  # fmt: skip
"""What is asked, in sacctmgr(1)'s words of 22.05 to 26.05; the limits of a user come with inherited ones."""

SECONDS = 20.0
BARE = ("--noheader", "--parsable2")


def read(user: str, context: Context) -> Dict[str, str]:
    """The texts of both tables as `associations` and `qos`; no answer from slurmdbd is no key at all.

    Args:
        user: login name.
        context: runs the programs.
    """
    commands = {
        "associations": ("sacctmgr", *BARE, "show", "associations", "where", "user=" + user,
                         "format=" + ",".join(ASSOCIATION_FIELDS)),
        "qos": ("sacctmgr", *BARE, "show", "qos", "format=" + ",".join(QOS_FIELDS)),
    }  # fmt: skip
    try:
        return {name: context.must(argv, seconds=SECONDS) for name, argv in commands.items()}
    except ResourceFailed:
        return {}
