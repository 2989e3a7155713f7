"""A snapshot of Slurm: nodes, partitions and jobs, parsed from the output of Slurm's commands on a controller."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from slurmfab.base.errors import AgentFailed, HostError
from slurmfab.base.hostlist import expand
from slurmfab.base.json_output import Key, shows
from slurmfab.base.program_name import FAB
from slurmfab.core.status.limits import UserLimits, limits_from
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import seconds_of
from slurmfab.on_hosts.agent.nodes.states import NodeState, records, state_of
from slurmfab.on_hosts.agent.slurm.reading import JOB_FIELDS, PARTS, SLURM_TIMEOUT

NO_ACCOUNT = ("(null)", "N/A")  # what squeue shows for a job without an account
_FIELD = re.compile(r"(?:^|\s)([A-Z]\w*)=(\S*)")
_GPUS = re.compile(r"(?:gres[:/])?gpu(?:[:=](?P<type>[^,:=]*[^,:=\d][^,:=]*))?(?:[:=](?P<count>\d{1,18}))?$")


@shows("host", "role", Key("up", "is_up"))
@dataclass(frozen=True)
class Controller:
    """A controller."""

    host: str  # its name
    role: str  # `primary` or `backup`
    is_up: bool  # whether slurmctld answers there


@dataclass(frozen=True)
class Node:
    """A compute node as slurmctld reports it; memory in MiB."""

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
    boot: str = ""  # when its machine booted, as Slurm writes it

    @property
    def is_free(self) -> bool:
        """Whether it is in service and no job holds it."""
        return self.state.is_in_service and "IDLE" in self.state.flags and self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether no job uses it, and none is completing there."""
        return not self.cpus_used and "COMPLETING" not in self.state.flags


@dataclass(frozen=True)
class Partition:
    """A partition."""

    name: str
    is_default: bool  # whether jobs without a partition run in it
    state: str  # `UP`, `DOWN`, `DRAIN` or `INACTIVE`
    max_time: str  # MaxTime in Slurm's form, such as `7-00:00:00` or `UNLIMITED`


@shows(
    "id", "partitions", "name", "state", "tasks", "cpus", "gpus", "seconds", "cpu_seconds", "time_limit",
    Key("nodes", "node_list"), "reason",
)  # fmt: skip
@dataclass(frozen=True)
class Job:
    """A job, or the pending tasks of a job array."""

    id: str  # as squeue shows it, such as `12` or `12_[1-20]`
    number: str  # the job ID; a task of an array has its own
    user: str
    partitions: tuple[str, ...]  # the partition in which it runs, or those in which it may run
    state: str  # `RUNNING`, `PENDING` and so on
    reason: str  # why it is pending; empty otherwise
    tasks: int  # number of jobs: more than one only for tasks of an array
    cpus: int  # number of CPUs of each task
    gpus: int  # number of GPUs of each task
    seconds: int  # run time in seconds
    time_limit: str  # as Slurm writes it
    node_list: str  # its nodes as a hostlist; empty while it is pending
    name: str  # its name
    account: str = ""  # the account that it is for; empty without accounting

    @property
    def cpu_seconds(self) -> int:
        """How long it has run, multiplied by its CPUs."""
        return self.seconds * self.cpus

    @property
    def is_pending(self) -> bool:
        """Whether it is pending."""
        return self.state == "PENDING"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes; empty while it is pending."""
        return expand(self.node_list) if self.node_list and not self.is_pending else ()


@shows("id", "user", "nodes", "text")
@dataclass(frozen=True)
class LostJob:
    """A job that Slurm calls running, and that cannot be: its node has booted since."""

    id: str  # as squeue shows it
    user: str  # its owner
    nodes: str  # where Slurm says that it runs, as a hostlist
    text: str  # what is known of it, for people


@shows("id", "user", "state", "submitted")
@dataclass(frozen=True)
class OpenRecord:
    """A job that slurmdbd has as pending or running, and slurmctld does not know: a crash has lost it."""

    id: str  # as sacct shows it
    user: str  # its owner
    state: str  # by slurmdbd, such as `PENDING`
    submitted: int  # in seconds since 1970


@shows("id", "user", "nodes", "ended")
@dataclass(frozen=True)
class EndedJob:
    """A job that ended more than a minute ago and still holds nodes: its epilog, or a process of it, has not ended."""

    id: str  # as squeue shows it
    user: str  # its owner
    nodes: str  # those that it still holds, as a hostlist
    ended: int  # in seconds since 1970


@dataclass(frozen=True)
class Snapshot:
    """The state of Slurm at one moment."""

    controllers: tuple[Controller, ...] = ()  # all controllers; empty if `scontrol ping` failed
    nodes: tuple[Node, ...] = ()  # in the order of slurm.conf
    partitions: tuple[Partition, ...] = ()  # in the order of slurm.conf
    jobs: tuple[Job, ...] = field(default=(), repr=False)  # all pending and running jobs
    # limits of the requested user; `None` if no user was requested, or slurmdbd does not answer
    limits: UserLimits | None = None
    trouble: str = ""  # why data is missing; empty if it is complete
    lost: tuple[LostJob, ...] = ()  # jobs that cannot be running, if they were asked for
    open_records: tuple[OpenRecord, ...] = ()  # records of jobs that slurmctld does not know, likewise
    ended: tuple[EndedJob, ...] = ()  # jobs that have ended and still hold nodes, likewise

    @property
    def is_up(self) -> bool:
        """Whether a slurmctld answered."""
        return any(controller.is_up for controller in self.controllers)

    @property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}


def ask(
    transport: Transport, host: str, parts: Iterable[str] = PARTS, user: str = "", seconds: float = SLURM_TIMEOUT
) -> Snapshot:
    """Read parts (`nodes`, `partitions`, `jobs`) of a snapshot, and a user's limits, in one request; HostError.

    `seconds`: time limit of a part.
    """
    lines = transport.call(host, {"op": "slurm", "parts": list(parts), "user": user, "seconds": seconds})
    with readable(host):
        return from_answer(answer_value(host, lines, "slurm"))


@contextmanager
def readable(host: str) -> Iterator[None]:
    """Turns errors in an agent's answer about Slurm into AgentFailed of its host."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AgentFailed(host, f"the agent's answer about Slurm cannot be read: {error}.") from error


def ask_up(transport: Transport, host: str, parts: Iterable[str] = PARTS, seconds: float = SLURM_TIMEOUT) -> Snapshot:
    """Read a snapshot as `ask` does; HostError if the host, or slurmctld, does not answer."""
    snapshot = ask(transport, host, parts, seconds=seconds)
    if not snapshot.is_up or snapshot.trouble:
        raise HostError(host, no_answer(snapshot))
    return snapshot


def no_answer(snapshot: Snapshot) -> str:
    """The message about a slurmctld that does not answer, with what to try."""
    why = f" ({snapshot.trouble.splitlines()[-1]})" if snapshot.trouble else ""
    return f"slurmctld does not answer{why}. See `systemctl status slurmctld` there; {FAB} deploy starts it."


def from_answer(answer: Mapping[str, Any]) -> Snapshot:
    """Parse the snapshot in an agent's answer. Raises ValueError if the answer has rows that are no jobs."""
    partitions = [
        fields
        for fields in fields_of(answer.get("partitions", ""), "PartitionName=")
        if fields["PartitionName"] != commands.PARTITION
    ]
    return Snapshot(
        controllers=tuple(Controller(host, role, is_up) for role, host, is_up in commands.controllers(answer["ping"])),
        nodes=tuple(map(node_from, records(answer.get("nodes", "")))),
        partitions=tuple(map(partition_from, partitions)),
        jobs=jobs_from(answer.get("jobs", ())),
        limits=limits_from(answer, partitions),
        trouble=answer.get("trouble", ""),
        lost=tuple(
            LostJob(ident, user, nodes, f"{name}: {why}") for ident, user, nodes, name, why in answer.get("lost", ())
        ),
        open_records=open_records(answer.get("open", ())),
        ended=tuple(EndedJob(ident, user, nodes, int(at)) for ident, user, nodes, at in answer.get("ended", ())),
    )


def open_records(rows: Iterable[Sequence[str]]) -> tuple[OpenRecord, ...]:
    """The records in an agent's answer. Raises ValueError if a row is no record."""
    return tuple(OpenRecord(ident, user, state, int(at)) for ident, _, user, state, at in rows)


def fields_of(shown: str, start: str) -> list[dict[str, str]]:
    """The fields of the lines with this beginning; values contain no spaces."""
    return [dict(_FIELD.findall(line)) for line in shown.split("\n") if line.startswith(start)]


def node_from(fields: Mapping[str, str]) -> Node:
    """Make a node from the fields of a line of `scontrol show node`."""
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
        boot=fields.get("BootTime", ""),
    )


def partition_from(fields: Mapping[str, str]) -> Partition:
    """Make a partition from the fields of a line of `scontrol show partition`."""
    return Partition(
        fields["PartitionName"], fields.get("Default") == "YES", fields.get("State", ""), fields.get("MaxTime", "")
    )


def jobs_from(rows: Iterable[Sequence[str]]) -> tuple[Job, ...]:
    """The jobs in an agent's answer, of values of `JOB_FIELDS`; ValueError if a row is no job."""
    return tuple(map(job_from, rows))


def job_from(values: Sequence[str]) -> Job:
    """Make a job from the values of `JOB_FIELDS`. Raises ValueError if the values are not those of a job."""
    fields = dict(zip(JOB_FIELDS, values, strict=True))
    if not commands.is_job_id(fields["JobArrayID"]) or not commands.is_job_id(fields["JobID"]):
        raise ValueError(f"{fields['JobArrayID'][:80]!a} is not the id of a job")
    is_pending = fields["State"] == "PENDING"
    return Job(
        id=fields["JobArrayID"],
        number=fields["JobID"],
        user=fields["UserName"],
        partitions=tuple(fields["Partition"].split(",")),
        state=fields["State"],
        reason="" if fields["Reason"] == "None" else fields["Reason"],
        tasks=array_tasks(fields["JobArrayID"]) if is_pending else 1,
        cpus=number(fields["NumCPUs"]),
        gpus=job_gpus(fields),
        seconds=seconds_of(fields["TimeUsed"]) or 0,
        time_limit=fields["TimeLimit"],
        node_list=fields["NodeList"],
        name=fields["Name"],
        account="" if fields["Account"] in NO_ACCOUNT else fields["Account"],
    )


def job_gpus(fields: Mapping[str, str]) -> int:
    """The number of GPUs of a job: allocated if Slurm counts them (AccountingStorageTRES), else requested."""
    return (
        gpu_count(fields["tres-alloc"])
        or gpu_count(fields["tres-per-job"])
        or gpu_count(fields["tres-per-node"]) * number(fields["NumNodes"])
        or gpu_count(fields["tres-per-task"]) * number(fields["NumTasks"])
    )


def gpu_count(text: str) -> int:
    """The GPUs in `gpu:a100:2(S:0),shard:8`, `gres/gpu=2` or `gres:gpu:1`, or their total if there is one."""
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
    """The number of tasks in a job ID of squeue: 20 for `3_[1-20%2]`, 1 for a job without an array."""
    match = re.search(r"_\[([^]%]*)", job_id)
    if not match:
        return 1
    ranges = re.findall(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", match[1])
    return sum(len(range(int(low), int(high or low) + 1, int(step or 1) or 1)) for low, high, step in ranges)


def number(text: str) -> int:
    """The number at the beginning of a text; 0 if there is none."""
    match = re.match(r"\d{1,18}", text)
    return int(match[0]) if match else 0
