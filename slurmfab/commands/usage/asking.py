"""Asks the cluster what its jobs used; the figures of the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import HostError, InputError
from slurmfab.base.json_output import Key, shows
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.accounting.job_records import GPU_USE

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.hosts.transport import Transport


KEYS = ("user", "account", "partition", "gpu")
"""By what use can be told; `gpu` is the type of GPU, empty for jobs without GPUs."""


@dataclass(frozen=True)
class Sums:
    """What some jobs used within the window."""

    jobs: int = 0  # how many ran; parts of a job that was requeued or resized count each
    cpu_seconds: int = 0  # of allocated CPUs
    gpu_seconds: int = 0  # of allocated GPUs
    cpu_asked: int = 0  # CPU seconds of jobs that have ended, of which Slurm knows the CPU time
    cpu_used: int = 0  # seconds of CPU time of these
    memory_asked: int = 0  # MiB times seconds of jobs that have ended, of which Slurm knows the memory
    memory_used: int = 0  # the most that a step of these used, times seconds
    gpu_seen: int = 0  # GPU seconds of jobs that have ended, whose GPUs Slurm watched
    gpu_idle: int = 0
    waits: int = 0
    waited: int = 0  # seconds that these waited, from when they could have begun
    longest_wait: int = 0  # seconds that the longest waited

    @property
    def cpu_efficiency(self) -> float | None:
        """CPU time used, as a part of what was allocated; null if Slurm does not know it of any."""
        return ratio(self.cpu_used, self.cpu_asked)

    @property
    def memory_efficiency(self) -> float | None:
        """Memory used, as a part of what was asked for."""
        return ratio(self.memory_used, self.memory_asked)

    @property
    def gpu_busy(self) -> float | None:
        """How busy GPUs were, as a part of 1, as far as the records tell: a bound from above."""
        return ratio(self.gpu_seen - self.gpu_idle, self.gpu_seen)

    @property
    def mean_wait(self) -> float | None:
        """Seconds that jobs waited, on average."""
        return ratio(self.waited, self.waits)

    def __add__(self, other: Sums) -> Sums:
        values = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Sums)}
        return Sums(**{**values, "longest_wait": max(self.longest_wait, other.longest_wait)})


def ratio(part: float, whole: float) -> float | None:
    """A part of a whole; `None` where there is no whole."""
    return part / whole if whole else None


_MEANS = ("cpu_efficiency", "memory_efficiency", "gpu_busy", "mean_wait")


@shows(
    *(Key(name, f"sums.{name}") for name in ("jobs", "cpu_seconds", "gpu_seconds")),
    *(Key(name, f"sums.{name}", digits=4) for name in _MEANS), Key("longest_wait", "sums.longest_wait"),
    *(Key(name, digits=6) for name in ("cpu_share", "gpu_share")),
)  # fmt: skip
@dataclass(frozen=True)
class Shares:
    """What jobs used, and their share of the cluster; what is unknown is null."""

    sums: Sums
    cpu_share: float | None  # of the CPU time that the cluster had, as a part of 1
    gpu_share: float | None  # of the GPU time that it had


@dataclass(frozen=True)
class Group:
    """What the jobs of one user, account, partition and type of GPU used."""

    user: str
    account: str
    partition: str
    gpu: str
    sums: Sums


@dataclass(frozen=True)
class Row:
    """What the jobs used that have the same values of some keys."""

    key: tuple[str, ...]
    sums: Sums


@dataclass(frozen=True)
class Point:
    """What was in use in one hour or day."""

    time: int  # its begin, in seconds since 1970
    cpu_seconds: int  # CPUs times seconds
    gpu_seconds: int  # GPUs times seconds


@dataclass(frozen=True)
class Wait:
    """One of the jobs that waited longest."""

    job: str  # its ID
    user: str  # whose it is
    account: str  # its account
    partition: str  # where it ran or may run
    gpus: int  # how many GPUs it asked for
    seconds: int  # how long it waited, from when it could have begun
    started: bool  # whether it has begun


@dataclass(frozen=True)
class IdleGpus:
    """A job that held GPUs and did not use them."""

    job: str  # its ID
    user: str  # whose it is
    account: str  # its account
    partition: str  # where it ran
    gpus: int  # how many
    gpu_seconds: int  # for how long within the window, times GPUs
    evidence: str  # `gpuutil`: Slurm looked and never saw them busy; `cputime`: the job had hardly any CPU time
    running: bool  # whether it still runs

    @property
    def is_certain(self) -> bool:
        """Whether Slurm watched the GPUs themselves."""
        return self.evidence == GPU_USE


@dataclass(frozen=True)
class Usage:
    """What jobs used of a cluster between two times."""

    cluster: str
    since: int  # begin, in seconds since 1970
    until: int
    since_text: str  # begin in the controller's zone, as `2026-11-01T00:00:00+0100`
    until_text: str
    # what there was, by Slurm's name (`cpu`, `gres/gpu`), times seconds; nodes out of service included
    capacity: Mapping[str, int]
    tracks_gpus: bool = False
    tracks_gpu_use: bool = False  # whether it has a place in its records for how busy they are
    groups: tuple[Group, ...] = ()
    points: tuple[Point, ...] = ()
    waits: tuple[Wait, ...] = ()  # the jobs that waited longest, those first that waited most
    idle: tuple[IdleGpus, ...] = ()  # the jobs that held GPUs idle, those first that held most

    @property
    def total(self) -> Sums:
        """What all jobs used."""
        return sum((group.sums for group in self.groups), Sums())

    def by(self, keys: Sequence[str]) -> tuple[Row, ...]:
        """The sums by some of `KEYS`; what used most GPUs is first, then what used most CPUs."""
        found: dict[tuple[str, ...], Sums] = {}
        for group in self.groups:
            key = tuple(getattr(group, name) for name in keys)
            found[key] = found.get(key, Sums()) + group.sums
        rows = (Row(key, sums) for key, sums in found.items())
        return tuple(sorted(rows, key=lambda row: (-row.sums.gpu_seconds, -row.sums.cpu_seconds, row.key)))

    def shares(self, sums: Sums) -> Shares:
        """Sums with their shares of the cluster."""
        return Shares(sums, self.cpu_share(sums), self.gpu_share(sums))

    def cpu_share(self, sums: Sums) -> float | None:
        """The part of all the cluster's CPU time that these used."""
        return ratio(sums.cpu_seconds, self.capacity.get("cpu", 0))

    def gpu_share(self, sums: Sums) -> float | None:
        """The part of all the cluster's GPU time that these used."""
        return ratio(sums.gpu_seconds, self.capacity.get("gres/gpu", 0))


def from_answer(cluster: str, answer: Mapping[str, Any]) -> Usage | None:
    """The usage in an answer of `slurmfab.on_hosts.agent.accounting.job_records.read`; `None` without records."""
    if not answer["accounting"]:
        return None
    tracked = set(answer["tracked"])
    return Usage(
        cluster=cluster,
        since=answer["since"],
        until=answer["until"],
        since_text=answer["since_text"],
        until_text=answer["until_text"],
        capacity=answer["capacity"],
        tracks_gpus="gres/gpu" in tracked,
        tracks_gpu_use="gres/gpuutil" in tracked,
        groups=tuple(
            Group(user, account, partition, gpu, Sums(*sums))
            for user, account, partition, gpu, sums in answer["groups"]
        ),
        points=tuple(Point(*values) for values in answer["points"]),
        waits=tuple(Wait(*values) for values in answer["waits"]),
        idle=tuple(IdleGpus(*values) for values in answer["idle"]),
    )


SINCE = "30d"  # where the window begins if nothing else is said
IDLE_MINUTES = 10  # from which age on a job can hold its GPUs idle

_AGE = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?)?")


def ask(
    cluster: Cluster, transport: Transport, since: str = SINCE, until: str = "", idle_minutes: int = IDLE_MINUTES
) -> Usage | None:
    """What jobs used between two times (see `moment`), of the first controller that answers; `None` without records.

    `idle_minutes`: from then on a job can hold its GPUs idle. Raises InputError for a time, HostError for silence.
    """
    request = {
        "op": "usage",
        "since": moment(since, "--since"),
        "until": moment(until, "--until"),
        "idle_seconds": idle_minutes * 60,
    }
    lost: HostError | None = None
    for host in cluster.controllers:
        try:
            return from_answer(cluster.name, answer_value(host, transport.call(host, request), "usage"))
        except HostError as error:
            lost = lost or error
    assert lost is not None, "every cluster has a controller"
    raise lost


def moment(text: str, flag: str) -> str:
    """A time as the agent wants it: in the controller's zone, or as seconds from now, such as `-86400`.

    >>> moment("2026-11-01", "--since"), moment("7d", "--since")
    ('2026-11-01T00:00:00', '-604800')

    Args:
        text: `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM` with or without `:SS`, or an age such as `12h`, `7d` or `4w`.

    Raises:
        InputError: it is none of these.
    """
    age, time = _AGE.fullmatch(text), _TIME.fullmatch(text)
    if age:
        return str(-int(age[1]) * _UNITS[age[2]])
    if time:
        return f"{time[1]}T{time[2] or '00:00'}{time[3] or ':00'}"
    if text:
        raise InputError(f'{flag} "{text}": give a time such as 2026-11-01 or 2026-11-01T08:00, or an age such as 7d.')
    return ""
