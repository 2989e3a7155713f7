"""The present state of a cluster in numbers, made from one snapshot of Slurm; as values and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from slurmfab.agent.nodes.states import parse_reason
from slurmfab.exit_codes import DONE, FAILURE
from slurmfab.hostlist import fold
from slurmfab.status import snapshot
from slurmfab.status.snapshot import Job, Node, Snapshot

JSON_VERSION = 1
"""The version of the JSON format; it increases if a key changes its meaning or is removed."""


@dataclass(frozen=True)
class Usage:
    """Numbers of CPUs or GPUs: all, in use, free for new jobs, and unused on nodes out of service."""

    total: int
    used: int
    free: int
    unavailable: int


@dataclass(frozen=True)
class StateGroup:
    """Nodes in the same state, with the same reason if they are out of service.

    Args:
        state: Slurm's words, such as `idle, drain`.
        nodes: names in the order of slurm.conf.
        reason: why they are out of service; empty for nodes in service.
        by: the user who set the reason.
        since: time of the first reason, such as `2026-11-21T09:00:00`.
        by_slurmfab: whether slurmfab drained them, so that `fab resume` resumes them.
    """

    state: str
    nodes: tuple[str, ...]
    reason: str = ""
    by: str = ""
    since: str = ""
    by_slurmfab: bool = False


@dataclass(frozen=True)
class JobCount:
    """Numbers of running and pending jobs of a user or partition, and of the CPUs and GPUs of the running ones."""

    name: str
    running: int
    pending: int
    cpus: int
    gpus: int


@dataclass(frozen=True)
class Status:
    """The state of a cluster.

    Args:
        cluster: its name.
        seen: the snapshot of Slurm; it has only controllers if no slurmctld answers.
        lost: by name of a controller that SSH did not reach, the reason.
        has_database: whether the cluster has accounting, and so limits.
    """

    cluster: str
    seen: Snapshot
    lost: Mapping[str, str]
    has_database: bool = False

    @property
    def version(self) -> str:
        """The newest Slurm version of all nodes; empty if unknown."""
        return max((node.version for node in self.seen.nodes), default="")

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if the state is unknown; nodes that are down are not a failure of the command."""
        return DONE if self.seen.is_up and not self.seen.trouble else FAILURE

    @cached_property
    def by_partition(self) -> Mapping[str, JobCount]:
        """Numbers of jobs by partition; a pending job counts in each of its partitions."""
        found: dict[str, list[Job]] = {}
        for job in self.seen.jobs:
            for partition in job.partitions:
                found.setdefault(partition, []).append(job)
        return {partition: count_jobs(partition, there) for partition, there in found.items()}

    @cached_property
    def groups(self) -> tuple[StateGroup, ...]:
        """All nodes by state: those in service first, then the others by reason."""
        found: dict[StateGroup, list[Node]] = {}
        for node in self.seen.nodes:
            found.setdefault(group_of(node), []).append(node)
        filled = [
            replace(group, nodes=tuple(node.name for node in nodes), since=earliest(group, nodes))
            for group, nodes in found.items()
        ]
        return tuple(sorted(filled, key=lambda group: (bool(group.reason), group.state, group.reason)))

    def as_json(self, user: str = "") -> dict[str, Any]:
        """The state as JSON values; docs/nodes.md documents the keys.

        Args:
            user: the user whose jobs and limits to include; empty for none.
        """
        seen = self.seen
        values: dict[str, Any] = {
            "shape": JSON_VERSION,
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
            values["user"] = {
                "name": user,
                "limits": seen.limits.as_json() if seen.limits else None,
                "jobs": [job_as_json(job) for job in seen.jobs if job.user == user],
            }
        return values

    def partition_as_json(self, partition: snapshot.Partition) -> dict[str, Any]:
        """A partition as JSON values."""
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
        """Why the state is unknown, in one or more lines."""
        reasons = list(self.lost.values())
        asked = [one.host for one in self.seen.controllers if not one.is_up]
        if asked or self.seen.trouble:
            reasons.append(f"{','.join(asked) or self.cluster}: {snapshot.no_answer(self.seen)}")
        return "\n".join(reasons)


def group_of(node: Node) -> StateGroup:
    """The group of a node, without names; the old reason of a node in service, which Slurm keeps, is ignored."""
    state = node.state
    if state.is_in_service or not state.reason:
        return StateGroup(state.description, ())
    return StateGroup(state.description, (), parse_reason(state.reason).text, state.by, by_slurmfab=state.is_ours)


def earliest(group: StateGroup, nodes: Sequence[Node]) -> str:
    """The time when the first node of a group got its reason; empty for a group without a reason."""
    return min(node.state.since for node in nodes) if group.reason else ""


def usage(nodes: Iterable[Node], total: Callable[[Node], int], used: Callable[[Node], int]) -> Usage:
    """Add up the CPUs or GPUs of nodes.

    Args:
        nodes: the nodes.
        total: returns the number that a node has.
        used: returns the number that is in use on a node.
    """
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
    """The number of jobs with nodes: running, starting, completing or suspended."""
    return sum(not job.is_pending for job in jobs)


def count_pending(jobs: Iterable[Job]) -> int:
    """The number of pending jobs; each task of an array counts."""
    return sum(job.tasks for job in jobs if job.is_pending)


def count_jobs(name: str, jobs: Sequence[Job]) -> JobCount:
    """Count jobs, and the CPUs and GPUs of the running ones."""
    running = [job for job in jobs if not job.is_pending]
    return JobCount(
        name,
        count_running(jobs),
        count_pending(jobs),
        sum(job.cpus for job in running),
        sum(job.gpus for job in running),
    )


def by_user(jobs: Iterable[Job]) -> tuple[JobCount, ...]:
    """Numbers of jobs by user, users with most GPUs and CPUs first."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.user, []).append(job)
    counts = [count_jobs(user, mine) for user, mine in found.items()]
    return tuple(sorted(counts, key=lambda one: (-one.gpus, -one.cpus, -one.running, -one.pending, one.name)))


def job_as_json(job: Job) -> dict[str, Any]:
    """A job as JSON values."""
    return {
        "id": job.id, "partitions": list(job.partitions), "name": job.name, "state": job.state, "tasks": job.tasks,
        "cpus": job.cpus, "gpus": job.gpus, "seconds": job.seconds, "cpu_seconds": job.seconds * job.cpus,
        "time_limit": job.time_limit, "nodes": job.node_list, "reason": job.reason,
    }  # fmt: skip
