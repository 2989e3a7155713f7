"""Which hosts are asked for the lines of their logs, and their answers, told once where they are alike."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from slurmfab.base.errors import HostError, HostlistError, SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.base.folding import fold_texts, without_name
from slurmfab.base.hostlist import expand, fold
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.logs.times import Asked, Period, period
from slurmfab.core.engine import session
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.client.commands import is_job_id
from slurmfab.on_hosts.agent.logs.what_matters import jobs_in
from slurmfab.on_hosts.agent.services.daemon_log import normal_at

if TYPE_CHECKING:
    from slurmfab.hosts.transport import Transport


_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_CLIENT_PORT = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){3}):(?:3[2-9]|[45]\d|6[0-5])\d{3}(?!\d)|((?<=\[)\d{1,3}(?:\.\d{1,3}){3}|\[[\w.-]{1,255}\]):\d{1,5}(?=\])"
)
"""An address or name with a port of the kernel's choice, which tells nothing and makes equal lines differ."""

_PROCESS = re.compile(r"\b(pid|process)([ =]+)\d+")

_NAME = re.compile(
    r"(?<![\w.-])([A-Za-z][A-Za-z0-9-]*?)(\d*)\[([\d,-]{1,4096})\]|(?<![\w.-])([A-Za-z0-9][A-Za-z0-9-]*)(?![\w-])"
)


FIRST_START = 60.0  # seconds in which slurmctld may read its state again before there is any


class HostLine(NamedTuple):
    """A line of one host."""

    source: str  # the log, such as `slurmd`
    text: str  # without its time
    first: float  # when it came first, in seconds since 1970
    last: float  # when it came last
    number: int


class Told(NamedTuple):
    """A line of a log; equal ones, of one or many hosts, are one."""

    hosts: tuple[str, ...]  # on which they are
    source: str  # `slurmctld`, `slurmdbd`, `slurmd`, `munge` or `kernel`
    text: str  # without time
    first: float  # time of the first one
    last: float  # time of the last one
    number: int  # how many these are
    normal: str = ""  # where daemons that are well write it, `a start` or `the first start`; else empty

    @property
    def hostlist(self) -> str:
        """The hosts, as in `n[1-96]`."""
        return fold(self.hosts)


def merge(by_host: Mapping[str, Iterable[HostLine]]) -> list[Told]:
    """The lines of all hosts by their first time, those told once that differ only in name or addresses."""
    groups: dict[tuple[str, str], list[tuple[str, HostLine]]] = {}
    for host, lines in by_host.items():
        for line in lines:
            text = _CLIENT_PORT.sub(r"\1\2", line.text)
            key = _PROCESS.sub(r"\1\2", _ADDRESS.sub("\1", without_name(host, text)))
            groups.setdefault((line.source, key), []).append((host, line._replace(text=text)))
    return sorted(map(_told, groups.values()), key=lambda line: (line.first, line.source, line.text))


def with_normal(lines: Iterable[Told]) -> Iterator[Told]:
    """The lines, with those marked that daemons write when they start well.

    Without its state, slurmctld is well only at its first start; an earlier one in the same lines says that it is not.
    """
    found = tuple(lines)
    starts = {one.source: one.first for one in reversed(found) if re.match(r"slurm\w+ version \S+ started", one.text)}
    for one in found:
        normal = normal_at(one.text)
        is_later = normal == "the first start" and one.last > starts.get(one.source, 0) + FIRST_START
        yield one if is_later or not normal else one._replace(normal=normal)


def _told(members: Sequence[tuple[str, HostLine]]) -> Told:
    """The line of a group."""
    hosts = tuple(dict.fromkeys(host for host, _ in members))
    lines = [line for _, line in members]
    text = fold_texts((host, (line.text,)) for host, line in members)[0].texts[0] if hosts[1:] else lines[0].text
    first, last = min(line.first for line in lines), max(line.last for line in lines)
    return Told(hosts, lines[0].source, text, first, last, sum(line.number for line in lines))


def is_about(text: str, nodes: Collection[str], all_hosts: Collection[str], jobs: Collection[str] = ()) -> bool:
    """Whether a line of a controller's log is about some nodes, or about no node in particular.

    Args:
        all_hosts: all hosts of the cluster.
        jobs: ids of a job; a line that names it is about its nodes. Without, a line about jobs has to name a node.
    """
    named_jobs = jobs_in(text)
    if not named_jobs.isdisjoint(jobs):
        return True
    named = bool(named_jobs)
    for prefix, more, ranges, word in _NAME.findall(text):
        if ranges:
            stem = prefix + more
            of_list = [host for host in nodes if _is_in(host, stem, ranges)]
            if of_list:
                return True
            named = named or any(host.startswith(prefix) for host in all_hosts)
        elif word in nodes:
            return True
        else:
            named = named or word in all_hosts
    return not named


def _is_in(host: str, stem: str, ranges: str) -> bool:
    """Whether a host is in a list, given what is before the brackets and in them; no list is expanded."""
    number = host[len(stem) :]
    if not host.startswith(stem) or not number.isdecimal():
        return False
    for one in ranges.split(","):
        low, _, high = one.partition("-")
        if low.isdecimal() and int(low) <= int(number) <= int(high if high.isdecimal() else low):
            return True
    return False


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
    # by host that answered and by daemon, the file with its lines; empty for the journal alone
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

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
    """A job by its tasks' rows, told by `origin`; it may have run on hosts that have left the cluster."""
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


def gather(
    known: Inventory, transport: Transport, wanted: Answers, *, every_line: bool, also: Sequence[str] = ()
) -> Answers:
    """The answers of the hosts that the question names, of the controllers, and of slurmdbd's host.

    `also`: further nodes of which controllers' lines may be; these nodes are not asked.
    """
    cluster, targets = known.cluster, wanted.asked
    hosts = tuple(dict.fromkeys((*targets, *cluster.controllers, *cluster.database_hosts)))
    jobs = wanted.job.ids if wanted.job else ()
    all_hosts = frozenset(cluster.hosts)
    by_host: dict[str, list[HostLine]] = {}
    notes: list[tuple[str, str]] = []
    lost: dict[str, str] = {}
    files: dict[str, Mapping[str, str]] = {}
    about = tuple(dict.fromkeys((*targets, *also)))
    is_now = wanted.period.until >= time.time() - 1
    request = {"op": "logs", "nodes": list(about), "jobs": list(jobs), "all": every_line}

    def ask_one(host: str) -> Found:
        period = period_on(host in cluster.controllers, wanted, is_now=is_now)
        return lines_of(transport, host, {**request, **period._asdict()})

    for host, result in on_each(hosts, ask_one):
        if isinstance(result, SlurmfabError):
            lost[host] = result.reason if isinstance(result, HostError) else str(result)
            continue
        is_whole = host in targets or every_line
        by_host[host] = [line for line in result.lines if is_whole or is_about(line.text, about, all_hosts, jobs)]
        notes += result.notes
        files[host] = result.files
    lines = with_normal(merge({host: by_host[host] for host in hosts if host in by_host}))
    return replace(wanted, asked=hosts, lines=tuple(lines), notes=tuple(sorted(notes)), lost=lost, files=files)


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


class Found(NamedTuple):
    """What the logs of one host say."""

    lines: list[HostLine]
    notes: list[tuple[str, str]]
    files: Mapping[str, str]  # where each daemon logs


def lines_of(transport: Transport, host: str, request: Mapping[str, object]) -> Found:
    """The lines of one host, and what is to be said about them. Raises HostError if it does not answer."""
    before = time.time()
    value = answer_value(host, transport.call(host, request), "logs")
    ahead = value["now"] - time.time()
    notes = [(host, f"{note}.") for note in value["notes"]]
    if ahead > CLOCK_SECONDS or value["now"] < before - CLOCK_SECONDS:
        seconds = abs(value["now"] - (before + time.time()) / 2)
        way = "ahead of" if ahead > 0 else "behind"
        notes.append((host, f"its clock is {seconds:.0f} s {way} this machine's, and so are the times of its lines."))
    return Found([HostLine(*line) for line in value["lines"]], notes, value.get("files", {}))
