"""The queue, read to see which jobs wait for the nodes of a check's jobs."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context

SLURM_USER = "slurm"
"""The user of the check's jobs."""

JOB_PREFIX = "slurmfab-gpu-check-"
"""Prefix of the names of the check's jobs."""

STATES = "--states=PENDING,RUNNING,CONFIGURING,SUSPENDED"
FIELDS = ("JobArrayID", "State", "UserName", "Partition", "NumNodes", "ReqNodes", "Reason", "Name")
"""The fields of `QueuedJob`, as named by squeue(1), --Format."""

WAITS_FOR_NODES = ("Resources", "Priority", "ReqNodeNotAvail, May be reserved")
"""Prefixes of the reasons of jobs that start once nodes are free (squeue(1), JOB REASON CODES)."""


class QueuedJob(NamedTuple):
    """A job in the queue."""

    number: str  # its id, `12_3` for one of an array
    state: str  # as squeue prints it
    user: str
    partitions: Tuple[str, ...]  # in which it may run
    nodes: int
    needs: str  # hostlist of requested nodes, empty for any
    reason: str  # why it waits
    name: str

    @property
    def is_ours(self) -> bool:
        """Whether a GPU check submitted it."""
        return self.user == SLURM_USER and self.name.startswith(JOB_PREFIX)

    @property
    def waits_for_nodes(self) -> bool:
        """Whether it would start if nodes were free."""
        return self.state == "PENDING" and self.reason.startswith(WAITS_FOR_NODES)

    def could_use(self, nodes: Sequence[str], partitions: FrozenSet[str], context: Context) -> bool:
        """Whether it may run on some of these nodes.

        Args:
            context: runs `scontrol show hostnames`.
        """
        if not partitions & set(self.partitions):
            return False
        return not self.needs or bool(set(nodes) & set(hostnames(context, self.needs)))


def queue(context: Context) -> List[QueuedJob]:
    """All jobs that wait or run."""
    return [queued_job(row) for row in commands.jobs(FIELDS, STATES).ask(context, seconds=30)]


def queued_job(row: Sequence[str]) -> QueuedJob:
    """A job from the values of `FIELDS`."""
    number, state, user, partitions, count, needs, reason, name = row
    # A pending job may have a range as its number of nodes.
    nodes = int(count.split("-")[0]) if count.split("-")[0].isdigit() else 1
    return QueuedJob(number, state, user, tuple(partitions.split(",")), nodes, needs, reason, name)


def hostnames(context: Context, hostlist: str) -> List[str]:
    """The names in a hostlist of a user's; white space in it separates names, as a comma does (hostlist.c)."""
    if "[" not in hostlist:
        return hostlist.replace(",", " ").split()
    return context.must(commands.hostnames(hostlist), seconds=30).split()


def waiting(jobs: Sequence[QueuedJob]) -> Dict[str, QueuedJob]:
    """Jobs of others that wait for nodes, by id."""
    return {job.number: job for job in jobs if job.waits_for_nodes and not job.is_ours}


def cancel_leftovers(context: Context) -> int:
    """Cancel the jobs of a killed check, and return their number."""
    left = [job.number for job in queue(context) if job.is_ours]
    if left:
        context.run(commands.cancel(left))
    return len(left)
