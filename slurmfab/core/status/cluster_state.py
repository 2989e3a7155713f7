"""The present state of a cluster in numbers, made from one snapshot of Slurm; as values and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from slurmfab.base.exit_codes import DONE, FAILURE
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.core.status import snapshot
from slurmfab.core.status.limits import UserLimits
from slurmfab.core.status.snapshot import Job, Node, Snapshot
from slurmfab.on_hosts.agent.nodes.states import parse_reason


@dataclass(frozen=True)
class Usage:
    """Numbers of CPUs or GPUs."""

    total: int  # all of them
    used: int  # in use by jobs
    free: int  # free for new jobs
    unavailable: int  # not in use, on nodes that are out of service


@shows("state", Key("nodes", form=fold, text="as a hostlist"), "count", "reason", "by", "since", "by_slurmfab")
@dataclass(frozen=True)
class StateGroup:
    """Nodes in the same state, with the same reason if they are out of service."""

    state: str  # Slurm's words, such as `idle, drain`
    nodes: tuple[str, ...]  # names in the order of slurm.conf
    reason: str = ""  # why they are out of service; empty for nodes in service
    by: str = ""  # the user who set the reason
    since: str = ""  # time of the first reason, such as `2026-11-21T09:00:00`
    by_slurmfab: bool = False  # whether slurmfab drained them, so that `fab resume` resumes them

    @property
    def count(self) -> int:
        """How many these are."""
        return len(self.nodes)


@dataclass(frozen=True)
class JobCount:
    """The jobs of a user or partition."""

    name: str  # of the user or the partition
    running: int  # how many jobs have nodes
    pending: int  # how many wait
    cpus: int  # of the running ones
    gpus: int  # of the running ones


@dataclass(frozen=True)
class Nodes:
    """The compute nodes."""

    total: int  # how many there are
    free: str  # nodes in service without jobs, as a hostlist
    states: tuple[StateGroup, ...]  # the nodes by state


@dataclass(frozen=True)
class Partition:
    """A partition."""

    name: str  # its name
    default: bool  # whether jobs go there that name no partition
    state: str  # `up`, `down`, `drain` or `inactive`
    max_time: str  # the longest time limit of jobs, as Slurm writes it
    nodes: str  # its nodes, as a hostlist
    cpus: Usage  # their CPUs
    gpus: Usage  # their GPUs
    running: int  # how many jobs run there
    pending: int  # how many wait; a job that waits in several partitions counts in each


@dataclass(frozen=True)
class Jobs:
    """Numbers of jobs."""

    running: int  # all jobs that have nodes
    pending: int  # each task of an array counts


@dataclass(frozen=True)
class User:
    """A user's jobs and limits."""

    name: str  # the login name
    limits: UserLimits | None  # null if no accounting database answers
    jobs: tuple[Job, ...]  # the user's jobs


@shows(
    Key("version", "json_version"), "cluster", "slurm", "error", Key("controllers", "seen.controllers"), "nodes",
    "cpus", "gpus", "partitions", "users", "jobs", Key("lost_jobs", "seen.lost"),
    Key("open_records", "seen.open_records"), Key("ended_jobs", "seen.ended"),
    Key("user", "user_asked_for", optional=True),
)  # fmt: skip
@dataclass(frozen=True)
class Status:
    """The state of a cluster."""

    json_version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # its name
    seen: Snapshot  # the snapshot of Slurm; it has only controllers if no slurmctld answers
    lost: Mapping[str, str]  # by name of a controller that SSH did not reach, the reason
    has_database: bool = False  # whether the cluster has accounting, and so limits
    user: str = ""  # whose jobs and limits to tell as well; empty for nobody's

    @property
    def slurm(self) -> str:
        """The newest version that a slurmd runs; empty if it is not known."""
        return max((node.version for node in self.seen.nodes), default="")

    @property
    def older_nodes(self) -> Mapping[str, list[str]]:
        """The nodes whose slurmd has an older version than the newest one, by this; the newest first."""
        found: dict[str, list[str]] = {}
        for node in self.seen.nodes:
            if node.version and node.version != self.slurm:
                found.setdefault(node.version, []).append(node.name)
        return dict(sorted(found.items(), reverse=True))

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if the state is unknown; nodes that are down are not a failure of the command."""
        return DONE if self.seen.is_up and not self.seen.trouble else FAILURE

    @cached_property
    def by_partition(self) -> Mapping[str, JobCount]:
        """Numbers of jobs by partition; a pending job counts in each of its partitions."""
        found = grouped((partition, job) for job in self.seen.jobs for partition in job.partitions)
        return {partition: count_jobs(partition, there) for partition, there in found.items()}

    @cached_property
    def groups(self) -> tuple[StateGroup, ...]:
        """All nodes by state: those in service first, then the others by reason."""
        found = grouped((group_of(node), node) for node in self.seen.nodes)
        filled = [
            replace(group, nodes=tuple(node.name for node in nodes), since=earliest(group, nodes))
            for group, nodes in found.items()
        ]
        return tuple(sorted(filled, key=lambda group: (bool(group.reason), group.state, group.reason)))

    @property
    def error(self) -> str:
        """Why Slurm could not be asked; empty if it could."""
        return "" if self.exit_code == DONE else self.trouble()

    @property
    def nodes(self) -> Nodes:
        """The compute nodes."""
        free = fold(node.name for node in self.seen.nodes if node.is_free)
        return Nodes(len(self.seen.nodes), free, self.groups)

    @property
    def cpus(self) -> Usage:
        """All CPUs."""
        return cpus(self.seen.nodes)

    @property
    def gpus(self) -> Usage:
        """All GPUs."""
        return gpus(self.seen.nodes)

    @property
    def users(self) -> tuple[JobCount, ...]:
        """Jobs of each user, with the CPUs and GPUs of the running ones."""
        return by_user(self.seen.jobs)

    @property
    def jobs(self) -> Jobs:
        """All jobs."""
        return Jobs(count_running(self.seen.jobs), count_pending(self.seen.jobs))

    @property
    def user_asked_for(self) -> User | None:
        """With `--user`."""
        mine = tuple(job for job in self.seen.jobs if job.user == self.user)
        return User(self.user, self.seen.limits, mine) if self.user else None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions."""
        return tuple(map(self.partition, self.seen.partitions))

    def partition(self, one: snapshot.Partition) -> Partition:
        """A partition with its nodes and jobs."""
        nodes = self.nodes_of(one.name)
        count = self.by_partition.get(one.name, JobCount(one.name, 0, 0, 0, 0))
        return Partition(
            one.name, one.is_default, one.state.lower(), one.max_time, fold(node.name for node in nodes), cpus(nodes),
            gpus(nodes), count.running, count.pending,
        )  # fmt: skip

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
    """Add up the CPUs or GPUs of nodes by two functions: those that a node has, and those in use."""
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
    found = grouped((job.user, job) for job in jobs)
    counts = [count_jobs(user, mine) for user, mine in found.items()]
    return tuple(sorted(counts, key=lambda one: (-one.gpus, -one.cpus, -one.running, -one.pending, one.name)))
