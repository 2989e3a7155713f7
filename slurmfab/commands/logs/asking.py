"""Which hosts are asked for the lines of their logs, and their answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from slurmfab.base.errors import HostError, HostlistError, SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.base.hostlist import expand
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.logs.merging import HostLine, Told, is_about, merge
from slurmfab.commands.logs.times import Asked, Period, period
from slurmfab.core.engine import session
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.client.commands import is_job_id

if TYPE_CHECKING:
    from slurmfab.hosts.transport import Transport

MARGIN = 60.0  # seconds before and after a job that belong to it: hosts' clocks differ, and some lines come late
AHEAD = 3600.0  # seconds of the future that are asked for where the period ends now: the host's clock may be ahead
CLOCK_SECONDS = 5.0  # from this difference on, a host's clock is told


@dataclass(frozen=True)
class Job:
    """A job; times are in UTC.

    Here they are seconds since 1970, and 0 is none.
    """

    ids: tuple[str, ...]  # as it was asked for, and as Slurm numbers it
    state: str  # Slurm's word; empty if only slurmctld's log knows it
    code: str  # as Slurm writes it, such as `0:125`; empty likewise
    nodes: tuple[str, ...]  # where it ran
    submitted: int  # when; null if that is not known
    start: int  # when it began; null if it has not
    end: int  # when it ended; null if it has not
    origin: str  # who told it: `slurmctld` or `slurmdbd`

    @property
    def id(self) -> str:
        """Slurm's number."""
        return self.ids[0]

    @property
    def begin(self) -> float:
        """Where the job's own period begins: shortly before its start, or its submission if it has not started."""
        return (self.start or self.submitted) - MARGIN


@dataclass(frozen=True)
class Answers:
    """What the logs say."""

    target: str  # what was asked for: hosts, or the id of a job
    period: Period  # when
    asked: tuple[str, ...]  # the hosts that were asked
    job: Job | None = None  # the job; null if nodes were asked for
    lines: tuple[Told, ...] = ()  # in the order of time
    notes: tuple[tuple[str, str], ...] = ()  # what is to be said of logs, as pairs of a host and a sentence
    lost: Mapping[str, str] = field(default_factory=dict)  # hosts that did not answer, each with the reason

    @property
    def exit_code(self) -> int:
        """0 if all hosts answered, 1 if none did, 3 otherwise."""
        return DONE if not self.lost else FAILURE if len(self.lost) == len(self.asked) else LEFT_OUT


def ask(known: Inventory, transport: Transport, target: str, asked: Asked, *, every_line: bool) -> Answers:
    """Ask the hosts, and the controllers, for lines that matter for a node (hostlist) or a job (its id).

    The period is by default the last hour, or that of the job. Raises InputError for a wrong target or time,
    SlurmfabError for an unknown job, HostError if no controller answers for it.
    """
    now = time.time()
    if not is_job(known, target):
        hosts = session.select_hosts(known.cluster, target, known.path)
        return gather(known, transport, Answers(target, period(asked, None, now), hosts), every_line=every_line)
    period(asked, Period(now - 1, now), now)  # a wrong time is refused before a host is asked
    job = find_job(known, transport, target)
    own = Period(job.begin, min(now, (job.end or now) + MARGIN))
    found = Answers(target, period(asked, own, now), tuple(job.nodes), job)
    return gather(known, transport, found, every_line=every_line)


def is_job(known: Inventory, target: str) -> bool:
    """Whether a word of the command line is a job's id, and no host of the cluster; InputError if it is neither."""
    try:
        if any(host in known.cluster.hosts for host in expand(target)):
            return False
    except HostlistError:
        if not is_job_id(target):
            raise
    return is_job_id(target)


def find_job(known: Inventory, transport: Transport, job: str) -> Job:
    """When and where a job ran, by the first controller that answers; SlurmfabError if unknown, HostError if silent."""
    lost: HostError | None = None
    for host in known.cluster.controllers:
        try:
            lines = transport.call(host, {"op": "job", "job": job})
        except HostError as error:
            lost = error
            continue
        value = answer_value(host, lines, "job")
        if value["rows"]:
            return job_of(job, value["rows"], value["origin"], known.cluster.hosts)
    if lost is not None:
        raise lost
    raise SlurmfabError(
        f"Job {job} is not known: not to slurmctld, which forgets jobs some minutes after their end (MinJobAge), "
        "not to sacct, and not in slurmctld's log. Ask for its nodes instead, with --around and the time."
    )


def job_of(asked: str, rows: Sequence[Sequence[object]], origin: str, hosts: Iterable[str]) -> Job:
    """A job from the rows of its tasks (`slurmfab.on_hosts.agent.logs.job_record.Row`).

    `rows`: at least one. `origin`: who told them. `hosts`: those of the cluster; a job may have run on others, which
    have left.
    """
    columns = list(zip(*rows, strict=True))
    submitted, starts, ends = ([int(str(one)) for one in column if one] for column in columns[3:6])
    ids = dict.fromkeys([asked, *map(str, columns[0]), *map(str, columns[1])])
    members = frozenset(hosts)
    nodes = dict.fromkeys(host for text in columns[6] if text for host in expand(str(text)) if host in members)
    states = dict.fromkeys(str(one) for one in columns[2] if one)
    is_over = not {"RUNNING", "PENDING", "COMPLETING", "SUSPENDED", "CONFIGURING"} & states.keys() and len(ends) > 0
    return Job(
        tuple(ids), ", ".join(states), ", ".join(dict.fromkeys(str(one) for one in columns[7] if one)), tuple(nodes),
        min(submitted, default=0), min(starts, default=0) if nodes else 0, max(ends) if is_over else 0, origin,
    )  # fmt: skip


def gather(known: Inventory, transport: Transport, wanted: Answers, *, every_line: bool) -> Answers:
    """The answers of the hosts that the question names, of the controllers, and of slurmdbd's host."""
    cluster, targets = known.cluster, wanted.asked
    hosts = tuple(dict.fromkeys((*targets, *cluster.controllers, *cluster.database_hosts)))
    jobs = wanted.job.ids if wanted.job else ()
    all_hosts = frozenset(cluster.hosts)
    by_host: dict[str, list[HostLine]] = {}
    notes: list[tuple[str, str]] = []
    lost: dict[str, str] = {}
    is_now = wanted.period.until >= time.time() - 1
    request = {"op": "logs", "nodes": list(targets), "jobs": list(jobs), "all": every_line}

    def ask_one(host: str) -> tuple[list[HostLine], list[tuple[str, str]]]:
        period = period_on(host in cluster.controllers, wanted, is_now=is_now)
        return lines_of(transport, host, {**request, **period._asdict()})

    for host, result in on_each(hosts, ask_one):
        if isinstance(result, SlurmfabError):
            lost[host] = result.reason if isinstance(result, HostError) else str(result)
            continue
        is_whole = host in targets or every_line
        by_host[host] = [line for line in result[0] if is_whole or is_about(line.text, targets, all_hosts, jobs)]
        notes += result[1]
    lines = merge({host: by_host[host] for host in hosts if host in by_host})
    return replace(wanted, asked=hosts, lines=tuple(lines), notes=tuple(sorted(notes)), lost=lost)


def period_on(is_controller: bool, wanted: Answers, *, is_now: bool) -> Period:
    """The period that a host is asked for.

    Args:
        is_controller: whether it is a controller, whose log says what a job waited for before its start.
        is_now: whether the period ends now; a host whose clock is ahead then has its last lines in the future.
    """
    since, until = wanted.period
    if is_controller and wanted.job and wanted.job.submitted and since == wanted.job.begin:
        since = min(since, wanted.job.submitted - MARGIN)
    return Period(since, until + AHEAD if is_now else until)


def lines_of(
    transport: Transport, host: str, request: Mapping[str, object]
) -> tuple[list[HostLine], list[tuple[str, str]]]:
    """The lines of one host, and what is to be said about them. Raises HostError if it does not answer."""
    before = time.time()
    value = answer_value(host, transport.call(host, request), "logs")
    ahead = value["now"] - time.time()
    notes = [(host, f"{note}.") for note in value["notes"]]
    if ahead > CLOCK_SECONDS or value["now"] < before - CLOCK_SECONDS:
        seconds = abs(value["now"] - (before + time.time()) / 2)
        way = "ahead of" if ahead > 0 else "behind"
        notes.append((host, f"its clock is {seconds:.0f} s {way} this machine's, and so are the times of its lines."))
    return [HostLine(*line) for line in value["lines"]], notes
