"""The queue, read to see which jobs wait for the nodes of a check's jobs."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

from slurmfab.agent.core.resource import Context

SLURM_USER = "slurm"
"""The user of the check's jobs."""

JOB_PREFIX = "slurmfab-gpu-check-"
"""Prefix of the names of the check's jobs."""

SHOW_QUEUE = ("squeue", "--all", "--noheader", "--states=PENDING,RUNNING,CONFIGURING,SUSPENDED",
        "--format=%i|%T|%u|%P|%D|%n|%r|%j")  # fmt: skip
"""Prints id, state, user, partitions, number of nodes, requested nodes, reason for waiting, and name of each job."""

WAITS_FOR_NODES = ("Resources", "Priority", "ReqNodeNotAvail, May be reserved")
"""Prefixes of the reasons of jobs that start once nodes are free (squeue(1), JOB REASON CODES)."""

COLUMNS = 8


class QueuedJob(NamedTuple):
    """A job in the queue.

    Args:
        number: its id, `12_3` for one of an array.
        state: as squeue prints it.
        user: the job's user.
        partitions: in which it may run.
        nodes: number of nodes.
        needs: hostlist of requested nodes, empty for any.
        reason: why it waits.
        name: of the job.
    """

    number: str
    state: str
    user: str
    partitions: Tuple[str, ...]
    nodes: int
    needs: str
    reason: str
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
            nodes: NodeNames.
            partitions: partitions of these nodes.
            context: runs `scontrol show hostnames`.
        """
        if not partitions & set(self.partitions):
            return False
        return not self.needs or bool(set(nodes) & set(hostnames(context, self.needs)))


def queue(context: Context) -> List[QueuedJob]:
    """All jobs that wait or run.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    return jobs_in(context.must(SHOW_QUEUE, seconds=30))


def jobs_in(shown: str) -> List[QueuedJob]:
    """Parse squeue's output."""
    found = []
    for line in shown.splitlines():
        words = line.strip().split("|", COLUMNS - 1)
        if len(words) == COLUMNS:
            number, state, user, partitions, count, needs, reason, name = words
            # A pending job may have a range as its number of nodes.
            nodes = int(count.split("-")[0]) if count.split("-")[0].isdigit() else 1
            found.append(QueuedJob(number, state, user, tuple(partitions.split(",")), nodes, needs, reason, name))
    return found


def hostnames(context: Context, hostlist: str) -> List[str]:
    """The names in a hostlist; the text itself if it has no brackets."""
    if "[" not in hostlist:
        return hostlist.split(",")
    return context.must(["scontrol", "show", "hostnames", hostlist], seconds=30).split()


def waiting(jobs: Sequence[QueuedJob]) -> Dict[str, QueuedJob]:
    """Jobs of others that wait for nodes, by id."""
    return {job.number: job for job in jobs if job.waits_for_nodes and not job.is_ours}


def cancel_leftovers(context: Context) -> int:
    """Cancel the jobs of a killed check, and return their number."""
    left = [job.number for job in queue(context) if job.is_ours]
    if left:
        context.run(["scancel", "--quiet", *left])
    return len(left)
