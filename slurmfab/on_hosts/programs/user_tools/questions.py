"""What users' commands ask Slurm: what is meant for the user, and so seldom with `--all`."""

from __future__ import annotations

from typing import Tuple

from slurmfab.on_hosts.agent.client.commands import Table
from slurmfab.on_hosts.programs.user_tools.asking import Question

JOB_FIELDS = (
    "JobArrayID", "Partition", "UserName", "Account", "QOS", "State", "Reason", "StartTime", "NumNodes", "NumCPUs",
    "NumTasks", "TimeUsed", "TimeLimit", "ReqNodes", "NodeList", "Dependency", "tres-alloc", "tres-per-job",
    "tres-per-node", "tres-per-task", "admin_comment", "Name",
)  # fmt: skip
"""Fields of a job, as named by squeue(1), --Format."""

ASSOCIATION_FIELDS = (
    "Account", "Partition", "DefaultQOS", "QOS", "MaxJobs", "MaxSubmitJobs", "MaxWall", "MaxTRES", "MaxTRESPerNode",
    "MaxTRESMins", "GrpJobs", "GrpSubmitJobs", "GrpTRES", "GrpTRESMins",
)  # fmt: skip
QOS_FIELDS = (
    "Name", "Flags", "MaxWall", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MinTRES", "MaxJobsPU", "MaxSubmitPU",
    "MaxTRESPU", "MaxJobsPA", "MaxSubmitPA", "MaxTRESPA", "GrpJobs", "GrpSubmitJobs", "GrpTRES", "GrpTRESMins",
)  # fmt: skip
"""What sacctmgr(1) of 22.05 to 26.05 prints; a user's limits include those inherited from accounts above."""

NODES = Question(("scontrol", "--details", "--oneliner", "show", "node"))
"""The nodes that the user may see, one a line; `nodes.read` reads them."""

PARTITIONS = Question(("scontrol", "--oneliner", "show", "partition"))
"""The partitions that are not hidden from the user, one a line; `partitions.read` reads them."""

ALL_PARTITIONS = Question(("scontrol", "--all", "--oneliner", "show", "partition"))
"""Also those that the user may not use, for a script may name one of them; `partitions.read` reads them."""

SBATCH_HELP = Question(("sbatch", "--help"))  # the options of sbatch, also those of plugins

TEST_ONLY = Question(("sbatch", "--test-only"))
"""Whether sbatch takes the script on its standard input, and when it would start; submits nothing (sbatch(1))."""

MODULES = Question(("bash", "-lc", "module -t avail 2>&1"))  # the modules that the user's login shell finds, one a line

MPI_KINDS = Question(("sh", "-c", "srun --mpi=list 2>&1"))
"""The MPI plugins that srun has; it starts nothing (srun(1), --mpi)."""

CONFIG = Question(("scontrol", "show", "config"))
QOS = Question(("sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=" + ",".join(QOS_FIELDS)))
"""All QOS, which `limits.qos` reads; slurmdbd answers, which may be down while slurmctld is not."""


def associations(user: str, cluster: str = "") -> Question:
    """The accounts of a user, with QOS and limits; `limits.associations` reads them, and slurmdbd answers.

    `cluster`: ClusterName, since a slurmdbd can serve several clusters; empty for all of them.
    """
    here = ("cluster=" + cluster,) if cluster else ()
    where = ("where", "user=" + user, *here, "format=" + ",".join(ASSOCIATION_FIELDS))
    return Question(("sacctmgr", "--noheader", "--parsable2", "show", "associations", *where))


def use(user: str) -> Question:
    """What a user uses of their own limits and of those of all QOS, from slurmctld's memory; `use.read` reads it."""
    return Question(("scontrol", "show", "assoc_mgr", "flags=assoc,qos", "users=" + user))


def jobs_of(user: str) -> Tuple[Question, Table]:
    """The jobs of a user that have not ended, and what reads the rows of the answer."""
    # With --all: a job in a hidden partition is none the less the user's.
    table = Table(("squeue", "--all", "--noheader", "--user=" + user), JOB_FIELDS)
    return Question(table.argv, table.env), table
