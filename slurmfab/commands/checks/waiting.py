"""Why jobs wait: Slurm's own reasons (squeue(1), JOB REASON CODES), and what each means for a test job."""

from __future__ import annotations

from slurmfab.base.program_name import FAB
from slurmfab.on_hosts.agent.client.commands import PARTITION, update_partition

FOR_NODES = ("Resources", "Priority", "Nodes required for job are DOWN, DRAINED or reserved")
"""How the reasons of jobs begin that start once other jobs have ended or started; the last one is also about nodes that
the backfill scheduler keeps for jobs of partitions with a higher PriorityTier, which all others have."""

_LIMITS = ("QOS", "Assoc")  # how the reasons of jobs begin that a limit of accounting holds until other jobs have ended

_PASSING = ("Prolog", "Cleaning")
"""Reasons of jobs that have their nodes and start when these are made ready, or are put back into the queue."""

_NO_REASON = ("", "None")
_UNKNOWN_PARTITION = "Invalid partition name"
"""Slurm's error for a partition that slurmctld does not have (slurm_errno.h, ESLURM_INVALID_PARTITION_NAME)."""

_ROOT = "Invalid user id"
"""Slurm's error for a job of root where DisableRootJobs=YES (slurm_errno.h, ESLURM_USER_ID_MISSING)."""

LOGS = "see /var/log/slurm/slurmctld.log on the controller, and `sinfo -R`"

ANOTHER_USER = "name another user than root: slurm.conf has DisableRootJobs=YES, unless slurm_conf says otherwise"


def real_reason(shown: str) -> str:
    """The reason of the first job that squeue showed; empty for a job that Slurm has not considered, or that ran."""
    first = shown.strip().partition("\n")[0].strip().replace("_", " ")
    return "" if first in _NO_REASON else first


def is_for_nodes(reason: str) -> bool:
    """Whether a job waits only for nodes that others use or that are being made ready, or was not considered yet."""
    return not reason or reason in _PASSING or reason.startswith(FOR_NODES)


def is_limit(reason: str) -> bool:
    """Whether a limit holds the job, such as `QOSGrpCpuLimit` or `AssocMaxJobsLimit`."""
    return reason.startswith(_LIMITS)


def limited(names: str) -> str:
    """A shell command that prints the IDs of jobs that a limit holds; `names` prints ID and reason, one a line."""
    return f"{names} | sed -nE 's/^([0-9_]+) ({'|'.join(_LIMITS)}).*/\\1/p'"


def repair_of(partition: str, message: str) -> str:
    """What to try when Slurm does not run a job. `message`: Slurm's error, or the reason why the job waits."""
    if message.startswith("PartitionDown") or "Required partition not available" in message:
        return " ".join(update_partition(partition, "State=UP"))
    if partition == PARTITION and _UNKNOWN_PARTITION in message:
        return f"{FAB} deploy, which adds the partition {PARTITION} to slurm.conf"
    return ANOTHER_USER if _ROOT in message else LOGS
