"""Slurm at one moment, as a controller tells it: nodes, partitions and jobs, from the texts of Slurm's commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.agent.node_states import NodeState, records, state_of
from slurmfab.agent.slurm_reading import JOB_FIELDS, PARTS
from slurmfab.errors import AgentFailed, HostError
from slurmfab.hostlist import expand
from slurmfab.ssh.transport import Transport
from slurmfab.status.limits import UserLimits, limits_from

_PING = re.compile(r"Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)")
_FIELD = re.compile(r"(?:^|\s)([A-Z]\w*)=(\S*)")
_GPUS = re.compile(r"(?:gres[:/])?gpu(?:[:=](?P<type>[^,:=]*[^,:=\d][^,:=]*))?(?:[:=](?P<count>\d+))?$")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Controller:
    """One slurmctld: the host's name, `primary` or `backup`, and whether it answers."""

    host: str
    role: str
    is_up: bool


@dataclass(frozen=True)
class Node:
    """A compute node as slurmctld sees it; memory in MiB."""

    name: str
    state: NodeState
    cpus: int
    cpus_used: int
    gpus: int
    gpus_used: int
    memory: int
    memory_used: int
    partitions: tuple[str, ...]
    version: str

    @property
    def is_free(self) -> bool:
        """Whether it is given jobs and has none."""
        return self.state.is_in_service and "IDLE" in self.state.flags and not self.cpus_used

    @property
    def is_empty(self) -> bool:
        """Whether no job has anything of it, and none is ending there."""
        return not self.cpus_used and "COMPLETING" not in self.state.flags


@dataclass(frozen=True)
class Partition:
    """A partition.

    Args:
        name: its name.
        is_default: whether jobs go there that name none.
        state: `UP`, `DOWN`, `DRAIN` or `INACTIVE`.
        max_time: as Slurm writes it, such as `7-00:00:00` or `UNLIMITED`.
    """

    name: str
    is_default: bool
    state: str
    max_time: str


@dataclass(frozen=True)
class Job:
    """A job, or the tasks of an array that wait together.

    Args:
        id: as squeue shows it, such as `12` or `12_[1-20]`.
        number: its own number, which a task of an array has besides.
        user: whose it is.
        partitions: where it runs, or may run.
        state: `RUNNING`, `PENDING` and so on.
        reason: why it waits, empty when it does not.
        tasks: how many jobs it is: more than one only for tasks of an array.
        cpus: of each.
        gpus: of each.
        seconds: how long it has run.
        time_limit: as Slurm writes it.
        node_list: where it runs, as a hostlist; empty while it waits.
        name: what its user calls it.
    """

    id: str
    number: str
    user: str
    partitions: tuple[str, ...]
    state: str
    reason: str
    tasks: int
    cpus: int
    gpus: int
    seconds: int
    time_limit: str
    node_list: str
    name: str

    @property
    def is_pending(self) -> bool:
        """Whether it waits."""
        return self.state == "PENDING"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where it runs."""
        return expand(self.node_list) if self.node_list and not self.is_pending else ()


@dataclass(frozen=True)
class Snapshot:
    """What Slurm said.

    Args:
        controllers: all of them; empty when not even `scontrol ping` could tell.
        nodes: in the order of slurm.conf.
        partitions: in that order.
        jobs: all that wait or run.
        limits: of the user who was asked about; `None` where nobody was, or slurmdbd does not answer.
        trouble: why Slurm told nothing or not all, empty when it did.
    """

    controllers: tuple[Controller, ...] = ()
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    jobs: tuple[Job, ...] = field(default=(), repr=False)
    limits: UserLimits | None = None
    trouble: str = ""

    @property
    def is_up(self) -> bool:
        """Whether a slurmctld answered."""
        return any(controller.is_up for controller in self.controllers)

    @property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}


def ask(transport: Transport, host: str, parts: Iterable[str] = tuple(PARTS), user: str = "") -> Snapshot:
    """Ask a controller, by one request.

    Args:
        transport: the way to it.
        host: its name.
        parts: which of `nodes`, `partitions` and `jobs` to ask for.
        user: whose limits to ask for, empty for nobody's.

    Raises:
        HostError: it does not answer.
    """
    for line in transport.call(host, {"op": "slurm", "parts": list(parts), "user": user}):
        if "slurm" in line:
            return from_answer(line["slurm"])
    raise AgentFailed(host, "the agent answered without a word of Slurm's; please report this.")


def ask_up(transport: Transport, host: str, parts: Iterable[str] = tuple(PARTS)) -> Snapshot:
    """The same, of a slurmctld that has to answer.

    Raises:
        HostError: the host does not answer, or slurmctld does not.
    """
    snapshot = ask(transport, host, parts)
    if not snapshot.is_up or snapshot.trouble:
        raise HostError(host, silence(snapshot))
    return snapshot


def silence(snapshot: Snapshot) -> str:
    """In words, that slurmctld does not answer, and what to try."""
    why = f" ({snapshot.trouble.splitlines()[-1]})" if snapshot.trouble else ""
    return f"slurmctld does not answer{why}. See `systemctl status slurmctld` there; fab deploy starts it."


def from_answer(answer: Mapping[str, Any]) -> Snapshot:
    """The snapshot in an agent's answer."""
    return Snapshot(
        controllers=tuple(Controller(host, role, state == "UP") for role, host, state in _PING.findall(answer["ping"])),
        nodes=tuple(map(node_from, records(answer.get("nodes", "")))),
        partitions=tuple(map(partition_from, fields_of(answer.get("partitions", ""), "PartitionName="))),
        jobs=tuple(job for job in map(job_from, answer.get("jobs", "").splitlines()) if job),
        limits=limits_from(answer),
        trouble=answer.get("trouble", ""),
    )


def fields_of(shown: str, start: str) -> list[dict[str, str]]:
    """The fields of the lines that begin like this; none of their values holds a space."""
    return [dict(_FIELD.findall(line)) for line in shown.splitlines() if line.startswith(start)]


def node_from(fields: Mapping[str, str]) -> Node:
    """The node in the fields of a line of `scontrol show node`."""
    return Node(
        name=fields["NodeName"],
        state=state_of(dict(fields)),
        cpus=number(fields.get("CPUEfctv", fields.get("CPUTot", ""))),
        cpus_used=number(fields.get("CPUAlloc", "")),
        gpus=gpu_count(fields.get("Gres", "")),
        gpus_used=gpu_count(fields.get("GresUsed", "")),
        memory=number(fields.get("RealMemory", "")),
        memory_used=number(fields.get("AllocMem", "")),
        partitions=tuple(filter(None, fields.get("Partitions", "").split(","))),
        version=fields.get("Version", ""),
    )


def partition_from(fields: Mapping[str, str]) -> Partition:
    """The partition in the fields of a line of `scontrol show partition`."""
    return Partition(
        fields["PartitionName"], fields.get("Default") == "YES", fields.get("State", ""), fields.get("MaxTime", "")
    )


def job_from(line: str) -> Job | None:
    """The job in a line of squeue; `None` for what is none, as the rest of a name with a line break in it."""
    values = line.split("|", len(JOB_FIELDS) - 1)
    if len(values) < len(JOB_FIELDS) or not values[0][:1].isdigit():
        return None
    told = dict(zip(JOB_FIELDS, values, strict=True))
    is_pending = told["State"] == "PENDING"
    return Job(
        id=told["JobArrayID"],
        number=told["JobID"],
        user=told["UserName"],
        partitions=tuple(told["Partition"].split(",")),
        state=told["State"],
        reason="" if told["Reason"] == "None" else told["Reason"],
        tasks=array_tasks(told["JobArrayID"]) if is_pending else 1,
        cpus=number(told["NumCPUs"]),
        gpus=job_gpus(told),
        seconds=seconds(told["TimeUsed"]),
        time_limit=told["TimeLimit"],
        node_list=told["NodeList"],
        name=told["Name"].removesuffix("|"),
    )


def job_gpus(told: Mapping[str, str]) -> int:
    """How many GPUs a job has or asks for: what is allocated where Slurm counts that, else what it asked for.

    Slurm counts them per job only with AccountingStorageTRES=gres/gpu (slurm.conf(5)).
    """
    return (
        gpu_count(told["tres-alloc"])
        or gpu_count(told["tres-per-job"])
        or gpu_count(told["tres-per-node"]) * number(told["NumNodes"])
        or gpu_count(told["tres-per-task"]) * number(told["NumTasks"])
    )


def gpu_count(text: str) -> int:
    """The GPUs in a list of generic resources, of whatever type: `gpu:a100:2(S:0),shard:8`, `gres/gpu=2`, `gres:gpu:1`.

    A total and counts by type side by side (`gres/gpu=4,gres/gpu:a100=4`) are not added up.
    """
    if "gpu" not in text:
        return 0
    total, typed = 0, 0
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        match = _GPUS.match(part)
        if match:
            count = int(match["count"] or 1)
            typed, total = (typed + count, total) if match["type"] else (typed, total + count)
    return max(total, typed)


def array_tasks(job_id: str) -> int:
    """How many tasks of an array a line stands for: 20 for `3_[1-20%2]`, 1 for what is no array."""
    match = re.search(r"_\[([^]%]*)", job_id)
    if not match:
        return 1
    ranges = re.findall(r"(\d+)(?:-(\d+)(?::(\d+))?)?", match[1])
    return sum(len(range(int(low), int(high or low) + 1, int(step or 1))) for low, high, step in ranges)


def seconds(text: str) -> int:
    """A time as Slurm writes it (`2-01:27:11`, `27:11`) in seconds; 0 for what is none."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not match:
        return 0
    return sum(int(value or 0) * _UNITS[unit] for value, unit in zip(match.groups(), "dhms", strict=True))


def number(text: str) -> int:
    """The number that a text begins with; 0 when there is none."""
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0
