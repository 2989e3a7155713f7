"""The queue as a check's jobs see it: who waits for the nodes that they hold, so that they give way."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

from slurmfab.agent.resource import Context

SLURM = "slurm"
"""The user whose jobs these are."""

NAME = "slurmfab-gpu-check-"
"""How the names of these jobs begin."""

SHOW = ("squeue", "--all", "--noheader", "--states=PENDING,RUNNING,CONFIGURING,SUSPENDED",
        "--format=%i|%T|%u|%P|%D|%n|%r|%j")  # fmt: skip
"""Prints number, state, user, partitions, number of nodes, nodes that it needs, why it waits, and name of each job."""

WAITS_FOR_NODES = ("Resources", "Priority", "ReqNodeNotAvail, May be reserved")
"""How the reasons begin of jobs that start once nodes are free (squeue(1), JOB REASON CODES)."""

FIELDS = 8


class Job(NamedTuple):
    """A job in the queue.

    Args:
        number: its id, `12_3` for one of an array.
        state: in squeue's words.
        user: whose it is.
        partitions: those that it may run in.
        nodes: how many it takes.
        needs: hostlist of nodes that it has asked for, empty for any.
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
        """Whether a check has sent it."""
        return self.user == SLURM and self.name.startswith(NAME)

    @property
    def waits_for_nodes(self) -> bool:
        """Whether it would start if nodes were free."""
        return self.state == "PENDING" and self.reason.startswith(WAITS_FOR_NODES)

    def could_use(self, nodes: Sequence[str], partitions: FrozenSet[str], context: Context) -> bool:
        """Whether it may run on some of these nodes.

        Args:
            nodes: NodeNames.
            partitions: that these nodes are in.
            context: runs `scontrol show hostnames`.
        """
        if not partitions & set(self.partitions):
            return False
        return not self.needs or bool(set(nodes) & set(hostnames(context, self.needs)))


def queue(context: Context) -> List[Job]:
    """All jobs that wait or run.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    return jobs_in(context.must(SHOW, seconds=30))


def jobs_in(shown: str) -> List[Job]:
    """The jobs in what squeue prints."""
    found = []
    for line in shown.splitlines():
        words = line.strip().split("|", FIELDS - 1)
        if len(words) == FIELDS:
            number, state, user, partitions, count, needs, reason, name = words
            # The number of nodes of a job that waits may be a range.
            nodes = int(count.split("-")[0]) if count.split("-")[0].isdigit() else 1
            found.append(Job(number, state, user, tuple(partitions.split(",")), nodes, needs, reason, name))
    return found


def hostnames(context: Context, hostlist: str) -> List[str]:
    """The names in a hostlist; itself where Slurm does not understand it."""
    if "[" not in hostlist:
        return hostlist.split(",")
    return context.must(["scontrol", "show", "hostnames", hostlist], seconds=30).split()


def waiting(jobs: Sequence[Job]) -> Dict[str, Job]:
    """The jobs of others that wait for nodes, by number."""
    return {job.number: job for job in jobs if job.waits_for_nodes and not job.is_ours}


def cancel_leftovers(context: Context) -> int:
    """End the jobs of a check that was killed, and return how many they were."""
    left = [job.number for job in queue(context) if job.is_ours]
    if left:
        context.run(["scancel", "--quiet", *left])
    return len(left)
