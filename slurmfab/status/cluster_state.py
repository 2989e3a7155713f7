"""How a cluster is right now, in numbers: made from one look at Slurm, for people and for machines alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from slurmfab.agent.node_states import said
from slurmfab.hostlist import fold
from slurmfab.status import snapshot
from slurmfab.status.snapshot import Job, Node, Snapshot

SHAPE = 1
"""The version of the JSON's shape; it goes up when a key changes its meaning or goes away."""


@dataclass(frozen=True)
class Usage:
    """How many of something there are: in use, free for new jobs, and unused on nodes that take none."""

    total: int
    used: int
    free: int
    unavailable: int


@dataclass(frozen=True)
class StateGroup:
    """Nodes in one state, out of service for one reason or in service.

    Args:
        state: Slurm's words, such as `idle, drain`.
        nodes: names in slurm.conf's order.
        reason: why they are out of service, empty for those in service.
        by: who took them out.
        since: when the first of them, as in `2026-11-21T09:00:00`.
        by_slurmfab: whether that was `slurmfab drain`, so that `slurmfab resume` ends it.
    """

    state: str
    nodes: tuple[str, ...]
    reason: str = ""
    by: str = ""
    since: str = ""
    by_slurmfab: bool = False


@dataclass(frozen=True)
class JobCount:
    """How many jobs run and wait for somebody or somewhere, and the CPUs and GPUs that the running ones hold."""

    name: str
    running: int
    pending: int
    cpus: int
    gpus: int


@dataclass(frozen=True)
class Status:
    """How a cluster is.

    Args:
        cluster: its name.
        seen: what Slurm said; without a slurmctld that answers, no more than who does not.
        lost: controllers that SSH did not reach, and why.
        has_database: whether the cluster has accounting, so that there are limits to tell of.
    """

    cluster: str
    seen: Snapshot
    lost: Mapping[str, str]
    has_database: bool = False

    @property
    def version(self) -> str:
        """The newest Slurm that runs on a node, empty while that is unknown."""
        return max((node.version for node in self.seen.nodes), default="")

    @property
    def exit_code(self) -> int:
        """1 when nobody told how the cluster is; nodes that are down are no failure of this command."""
        return 0 if self.seen.is_up and not self.seen.trouble else 1

    @cached_property
    def by_partition(self) -> Mapping[str, JobCount]:
        """The jobs in each partition; one that waits for several counts in each."""
        found: dict[str, list[Job]] = {}
        for job in self.seen.jobs:
            for partition in job.partitions:
                found.setdefault(partition, []).append(job)
        return {partition: count_jobs(partition, there) for partition, there in found.items()}

    @cached_property
    def groups(self) -> tuple[StateGroup, ...]:
        """All nodes by state, those in service first, the rest by reason."""
        found: dict[StateGroup, list[Node]] = {}
        for node in self.seen.nodes:
            found.setdefault(group_of(node), []).append(node)
        filled = [
            replace(group, nodes=tuple(node.name for node in nodes), since=earliest(group, nodes))
            for group, nodes in found.items()
        ]
        return tuple(sorted(filled, key=lambda group: (bool(group.reason), group.state, group.reason)))

    def as_json(self, user: str = "") -> dict[str, Any]:
        """The whole as JSON values; docs/nodes.md says what each key holds.

        Args:
            user: whose jobs to list, empty for nobody's.
        """
        seen = self.seen
        told: dict[str, Any] = {
            "shape": SHAPE,
            "cluster": self.cluster,
            "slurm": self.version,
            "error": "" if self.exit_code == 0 else self.trouble(),
            "controllers": [{"host": one.host, "role": one.role, "up": one.is_up} for one in seen.controllers],
            "nodes": {
                "total": len(seen.nodes),
                "free": fold(node.name for node in seen.nodes if node.is_free),
                "states": [
                    {**asdict(group), "nodes": fold(group.nodes), "count": len(group.nodes)} for group in self.groups
                ],
            },
            "cpus": asdict(cpus(seen.nodes)),
            "gpus": asdict(gpus(seen.nodes)),
            "partitions": [self.partition_as_json(partition) for partition in seen.partitions],
            "users": [asdict(count) for count in by_user(seen.jobs)],
            "jobs": {"running": count_running(seen.jobs), "pending": count_pending(seen.jobs)},
        }
        if user:
            told["user"] = {
                "name": user,
                "limits": seen.limits.as_json() if seen.limits else None,
                "jobs": [job_as_json(job) for job in seen.jobs if job.user == user],
            }
        return told

    def partition_as_json(self, partition: snapshot.Partition) -> dict[str, Any]:
        """One partition as JSON values."""
        nodes = self.nodes_of(partition.name)
        count = self.by_partition.get(partition.name, JobCount(partition.name, 0, 0, 0, 0))
        return {
            "name": partition.name, "default": partition.is_default, "state": partition.state.lower(),
            "max_time": partition.max_time, "nodes": fold(node.name for node in nodes),
            "cpus": asdict(cpus(nodes)), "gpus": asdict(gpus(nodes)),
            "running": count.running, "pending": count.pending,
        }  # fmt: skip

    def nodes_of(self, partition: str) -> tuple[Node, ...]:
        """The nodes of a partition."""
        return tuple(node for node in self.seen.nodes if partition in node.partitions)

    def trouble(self) -> str:
        """Why Slurm could not be asked."""
        words = list(self.lost.values())
        asked = [one.host for one in self.seen.controllers if not one.is_up]
        if asked or self.seen.trouble:
            words.append(f"{','.join(asked) or self.cluster}: {snapshot.silence(self.seen)}")
        return "\n".join(words)


def group_of(node: Node) -> StateGroup:
    """The group that a node belongs to; the reason of one in service is past, and Slurm keeps it all the same."""
    state = node.state
    if state.is_in_service or not state.reason:
        return StateGroup(state.words, ())
    return StateGroup(state.words, (), said(state.reason)[0], state.by, by_slurmfab=state.is_ours)


def earliest(group: StateGroup, nodes: Sequence[Node]) -> str:
    """When the first node of a group got its reason, empty where there is none."""
    return min(node.state.since for node in nodes) if group.reason else ""


def usage(nodes: Iterable[Node], total: Callable[[Node], int], used: Callable[[Node], int]) -> Usage:
    """The sums over nodes of what they have and what is in use."""
    pairs = [(total(node), used(node), node.state.is_in_service) for node in nodes]
    there, taken = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    free = sum(has - uses for has, uses, is_in_service in pairs if is_in_service)
    return Usage(there, taken, free, there - taken - free)


def cpus(nodes: Iterable[Node]) -> Usage:
    """The CPUs of nodes."""
    return usage(nodes, lambda node: node.cpus, lambda node: node.cpus_used)


def gpus(nodes: Iterable[Node]) -> Usage:
    """The GPUs of nodes."""
    return usage(nodes, lambda node: node.gpus, lambda node: node.gpus_used)


def count_running(jobs: Iterable[Job]) -> int:
    """How many jobs have nodes: they run, start, end or are suspended."""
    return sum(not job.is_pending for job in jobs)


def count_pending(jobs: Iterable[Job]) -> int:
    """How many jobs wait, each task of an array counted."""
    return sum(job.tasks for job in jobs if job.is_pending)


def count_jobs(name: str, jobs: Sequence[Job]) -> JobCount:
    """The numbers of some jobs."""
    running = [job for job in jobs if not job.is_pending]
    return JobCount(
        name,
        count_running(jobs),
        count_pending(jobs),
        sum(job.cpus for job in running),
        sum(job.gpus for job in running),
    )


def by_user(jobs: Iterable[Job]) -> tuple[JobCount, ...]:
    """The jobs of each user, those with most GPUs and CPUs first."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.user, []).append(job)
    counts = [count_jobs(user, mine) for user, mine in found.items()]
    return tuple(sorted(counts, key=lambda one: (-one.gpus, -one.cpus, -one.running, -one.pending, one.name)))


def job_as_json(job: Job) -> dict[str, Any]:
    """One job as JSON values."""
    return {
        "id": job.id, "partitions": list(job.partitions), "name": job.name, "state": job.state, "tasks": job.tasks,
        "cpus": job.cpus, "gpus": job.gpus, "seconds": job.seconds, "cpu_seconds": job.seconds * job.cpus,
        "time_limit": job.time_limit, "nodes": job.node_list, "reason": job.reason,
    }  # fmt: skip
