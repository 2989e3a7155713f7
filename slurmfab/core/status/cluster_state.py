"""The present state of a cluster in numbers, made from one snapshot of Slurm; as values and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypedDict

from slurmfab.base.exit_codes import DONE, FAILURE
from slurmfab.base.hostlist import fold
from slurmfab.core.status import snapshot
from slurmfab.core.status.limits import UserLimits
from slurmfab.core.status.snapshot import Job, Node, Snapshot
from slurmfab.on_hosts.agent.nodes.states import parse_reason

JSON_VERSION = 1
"""The version of the JSON format; it increases if a key changes its meaning or is removed."""


@dataclass(frozen=True)
class Usage:
    """Numbers of CPUs or GPUs."""

    total: int  # all of them
    used: int  # in use by jobs
    free: int  # free for new jobs
    unavailable: int  # not in use, on nodes that are out of service


@dataclass(frozen=True)
class StateGroup:
    """Nodes in the same state, with the same reason if they are out of service."""

    state: str  # Slurm's words, such as `idle, drain`
    nodes: tuple[str, ...]  # names in the order of slurm.conf
    reason: str = ""  # why they are out of service; empty for nodes in service
    by: str = ""  # the user who set the reason
    since: str = ""  # time of the first reason, such as `2026-11-21T09:00:00`
    by_slurmfab: bool = False  # whether slurmfab drained them, so that `fab resume` resumes them

    def as_json(self) -> StateGroupJson:
        """The group as JSON values."""
        return {
            "state": self.state,
            "nodes": fold(self.nodes),
            "count": len(self.nodes),
            "reason": self.reason,
            "by": self.by,
            "since": self.since,
            "by_slurmfab": self.by_slurmfab,
        }


@dataclass(frozen=True)
class JobCount:
    """The jobs of a user or partition."""

    name: str  # of the user or the partition
    running: int  # how many jobs have nodes
    pending: int  # how many wait
    cpus: int  # of the running ones
    gpus: int  # of the running ones


class ControllerJson(TypedDict):
    """A controller.

    Args:
        host: its name.
        role: `primary` or `backup`.
        up: whether slurmctld answers there.
    """

    host: str
    role: str
    up: bool


class StateGroupJson(TypedDict):
    """Nodes in the same state, with the same reason if they are out of service.

    Args:
        state: Slurm's words, such as `idle, drain`.
        nodes: the nodes, as a hostlist.
        count: how many these are.
        reason: why they are out of service; empty for nodes in service.
        by: the user who set the reason.
        since: time of the first reason, such as `2026-11-21T09:00:00`.
        by_slurmfab: whether slurmfab drained them, so that `fab resume` resumes them.
    """

    state: str
    nodes: str
    count: int
    reason: str
    by: str
    since: str
    by_slurmfab: bool


class NodesJson(TypedDict):
    """The compute nodes.

    Args:
        total: how many there are.
        free: nodes in service without jobs, as a hostlist.
        states: the nodes by state.
    """

    total: int
    free: str
    states: list[StateGroupJson]


class PartitionJson(TypedDict):
    """A partition.

    Args:
        name: its name.
        default: whether jobs go there that name no partition.
        state: `up`, `down`, `drain` or `inactive`.
        max_time: the longest time limit of jobs, as Slurm writes it.
        nodes: its nodes, as a hostlist.
        cpus: their CPUs.
        gpus: their GPUs.
        running: how many jobs run there.
        pending: how many wait; a job that waits in several partitions counts in each.
    """

    name: str
    default: bool
    state: str
    max_time: str
    nodes: str
    cpus: Annotated[dict[str, Any], Usage]
    gpus: Annotated[dict[str, Any], Usage]
    running: int
    pending: int


class JobsJson(TypedDict):
    """Numbers of jobs.

    Args:
        running: all jobs that have nodes.
        pending: each task of an array counts.
    """

    running: int
    pending: int


class JobJson(TypedDict):
    """A job of a user.

    Args:
        id: as squeue shows it.
        partitions: its partitions; several while it waits for one of them.
        name: its name.
        state: Slurm's word.
        tasks: how many tasks of an array this stands for.
        cpus: of each task.
        gpus: of each task.
        seconds: how long it has run.
        cpu_seconds: that, multiplied by its CPUs.
        time_limit: as Slurm writes it.
        nodes: where it runs, as a hostlist.
        reason: why it waits.
    """

    id: str
    partitions: list[str]
    name: str
    state: str
    tasks: int
    cpus: int
    gpus: int
    seconds: int
    cpu_seconds: int
    time_limit: str
    nodes: str
    reason: str


class UserJson(TypedDict):
    """A user's jobs and limits.

    Args:
        name: the login name.
        limits: null if no accounting database answers.
        jobs: the user's jobs.
    """

    name: str
    limits: Annotated[dict[str, Any], UserLimits] | None
    jobs: list[JobJson]


class AskedUserJson(TypedDict, total=False):
    """What is only there in some cases.

    Args:
        user: with `--user`.
    """

    user: UserJson


class StatusJson(AskedUserJson):
    """The state of a cluster.

    Args:
        version: of this format: 1.
        cluster: its name.
        slurm: the newest version that a slurmd runs; empty if it is not known.
        error: why Slurm could not be asked; empty if it could.
        controllers: the controllers.
        nodes: the compute nodes.
        cpus: all CPUs.
        gpus: all GPUs.
        partitions: the partitions.
        users: jobs of each user, with the CPUs and GPUs of the running ones.
        jobs: all jobs.
    """

    version: int
    cluster: str
    slurm: str
    error: str
    controllers: list[ControllerJson]
    nodes: NodesJson
    cpus: Annotated[dict[str, Any], Usage]
    gpus: Annotated[dict[str, Any], Usage]
    partitions: list[PartitionJson]
    users: list[Annotated[dict[str, Any], JobCount]]
    jobs: JobsJson


@dataclass(frozen=True)
class Status:
    """The state of a cluster."""

    cluster: str
    seen: Snapshot  # the snapshot of Slurm; it has only controllers if no slurmctld answers
    lost: Mapping[str, str]  # by name of a controller that SSH did not reach, the reason
    has_database: bool = False  # whether the cluster has accounting, and so limits

    @property
    def version(self) -> str:
        """The newest Slurm version of all nodes; empty if unknown."""
        return max((node.version for node in self.seen.nodes), default="")

    @property
    def older_nodes(self) -> Mapping[str, list[str]]:
        """The nodes whose slurmd has an older version than the newest one, by this; the newest first."""
        found: dict[str, list[str]] = {}
        for node in self.seen.nodes:
            if node.version and node.version != self.version:
                found.setdefault(node.version, []).append(node.name)
        return dict(sorted(found.items(), reverse=True))

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

    def as_json(self, user: str = "") -> StatusJson:
        """The state as JSON values.

        Args:
            user: the user whose jobs and limits to include; empty for none.
        """
        seen = self.seen
        values: StatusJson = {
            "version": JSON_VERSION,
            "cluster": self.cluster,
            "slurm": self.version,
            "error": "" if self.exit_code == 0 else self.trouble(),
            "controllers": [{"host": one.host, "role": one.role, "up": one.is_up} for one in seen.controllers],
            "nodes": {
                "total": len(seen.nodes),
                "free": fold(node.name for node in seen.nodes if node.is_free),
                "states": [group.as_json() for group in self.groups],
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

    def partition_as_json(self, partition: snapshot.Partition) -> PartitionJson:
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


def job_as_json(job: Job) -> JobJson:
    """A job as JSON values."""
    return {
        "id": job.id, "partitions": list(job.partitions), "name": job.name, "state": job.state, "tasks": job.tasks,
        "cpus": job.cpus, "gpus": job.gpus, "seconds": job.seconds, "cpu_seconds": job.seconds * job.cpus,
        "time_limit": job.time_limit, "nodes": job.node_list, "reason": job.reason,
    }  # fmt: skip
