"""What is known of a job, a node or a user: Slurm's records, lines of logs, and slurmfab's own runs, as values."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import expand
from slurmfab.commands.logs.asking import Told
from slurmfab.core.engine.record import Record
from slurmfab.core.status.snapshot import Node, Partition, fields_of, node_from, partition_from
from slurmfab.on_hosts.agent.accounting.user_limits import ASSOCIATION_FIELDS, QOS_FIELDS
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import bounded, mebibytes_of, moment_of, number_of, seconds_of
from slurmfab.on_hosts.agent.logs.evidence import EVENT_FIELDS, MEMORY_FIELDS, RECORD_FIELDS
from slurmfab.on_hosts.agent.logs.what_matters import jobs_in
from slurmfab.on_hosts.agent.nodes import lost_jobs
from slurmfab.on_hosts.agent.nodes.ended_jobs import Ended, late
from slurmfab.on_hosts.agent.nodes.states import records
from slurmfab.on_hosts.programs.user_tools.limits import Association, associations, rows, set_limits

WAITING = ("PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED")
LOG = "log"  # the origin of a job of which slurmctld's log alone tells
AT_WORK = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "RESIZING")
_RESERVATION = re.compile(
    r"^ReservationName=(\S+) StartTime=(\S+) EndTime=(\S+) Duration=\S+ Nodes=(\S+)", re.MULTILINE
)


@dataclass(frozen=True)
class Quote:
    """A line that a link of the chain rests on."""

    at: float  # when, in UTC; null for what a command shows of the present
    host: str  # where it stands
    place: str  # a file there, or the command that prints it
    line: str  # the line itself, or fields of it


@dataclass(frozen=True)
class Step:
    """A step of a job, from slurmdbd."""

    name: str  # such as `batch` or `0`
    state: str
    by: str  # the UID of who cancelled it
    code: str
    peak: int  # the most memory of a task of it, in MiB; 0 where that is not known


@dataclass(frozen=True)
class Attempt:
    """One time that a job was submitted or put back, until it ended or was put back again. Times are 0 for none."""

    id: str
    number: str
    user: str = ""
    account: str = ""
    qos: str = ""
    partition: str = ""
    state: str = ""
    by: str = ""  # the UID of who cancelled it
    code: str = ""
    reason: str = ""  # why it waits; for one that has started the last reason that slurmdbd keeps
    submitted: int = 0
    eligible: int = 0
    started: int = 0
    ended: int = 0
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    memory: str = ""  # as it was asked for
    limit: int = 0  # time limit in seconds; 0 for none
    tres: str = ""
    gres: Mapping[str, float] = field(
        default_factory=dict, hash=False
    )  # on each node, which tres has only where Slurm counts them
    dependency: str = ""
    licences: str = ""  # that it asks for, as slurmctld has it
    name: str = ""
    priority: int = 0  # of one that waits
    is_exclusive: bool = False  # whether one that waits wants nodes for itself alone
    submit_line: str = ""
    reservation: str = ""
    wanted_nodes: tuple[str, ...] = ()
    restarts: int = 0  # how often it was put back, as far as slurmctld knows it
    steps: tuple[Step, ...] = ()
    origin: str = ""  # `sacct`, `squeue`, or `LOG`
    is_forgotten: bool = False  # whether a crash lost it: only slurmdbd has it, as pending, or ended as a lost one

    @property
    def is_waiting(self) -> bool:
        """Whether it waits."""
        return self.state in WAITING and not self.ended

    @property
    def is_at_work(self) -> bool:
        """Whether it has nodes."""
        return self.state in AT_WORK

    def holds(self, moment: float, now: float) -> bool:
        """Whether it had resources at a moment."""
        return 0 < self.started <= moment < (self.ended or now + 1)


@dataclass(frozen=True)
class Event:
    """A time at which a node was out of service, from slurmdbd."""

    node: str
    begun: int
    ended: int  # 0 while it lasts
    state: str
    by: str
    reason: str


@dataclass(frozen=True)
class Reservation:
    """A reservation of the present, or one that a log tells of."""

    name: str
    start: float
    end: float
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """All that was found out."""

    controller: str
    now: float
    jobs: tuple[Attempt, ...] = ()  # of the question, oldest first
    others: tuple[Attempt, ...] = ()  # that shared the cluster with them
    events: tuple[Event, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    gres_of: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by node and `gres/NAME`
    nodes_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by partition
    rules_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of partitions, as scontrol prints them
    qos_of: Mapping[str, str] = field(default_factory=dict)  # of partitions
    reservations: tuple[Reservation, ...] = ()
    past_reservations: tuple[Reservation, ...] = ()  # that slurmdbd has of this time, those of the present included
    limits: str = ""  # what `scontrol show assoc_mgr` printed
    associations: tuple[Association, ...] = ()  # of the user, as slurmdbd has them
    qos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # limits by QOS and sacctmgr's name, likewise
    lines: tuple[Told, ...] = ()
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by host and daemon, where it logs
    runs: tuple[Record, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # login names by UID
    missing: tuple[tuple[str, str], ...] = ()  # what could not be asked, and why
    has_records: bool = False  # whether slurmdbd answered
    running: tuple[lost_jobs.Job, ...] = ()  # those of the question that slurmctld calls running
    boots: Mapping[str, float] = field(default_factory=dict)  # when nodes booted, in seconds since 1970
    lost: Mapping[str, str] = field(default_factory=dict)  # by number, why a job that is called running is not
    over: tuple[Ended, ...] = ()  # jobs that ended more than a minute ago and still hold nodes
    # what these wait for, with the repair, by number and node
    waits: Mapping[tuple[int, str], tuple[str, str]] = field(default_factory=dict)

    def quotes(self, lines: Iterable[Told], most: int = 3) -> tuple[Quote, ...]:
        """Lines of logs as quotes, the first ones."""
        return tuple(Quote(one.first, one.hostlist, self.place(one), one.text) for one in list(lines)[:most])

    def place(self, line: Told) -> str:
        """Where a line stands."""
        file = self.files.get(line.hosts[0], {}).get(line.source, "")
        return "journalctl -k" if line.source == "kernel" else file or f"journalctl -u {line.source}"

    def record(self, job: Attempt, *names: str) -> Quote:
        """What Slurm's record of a job says, as a quote; of a job without one the first line that names it."""
        if job.origin == LOG:
            lines = [line for line in self.lines if {job.id, job.number} & jobs_in(line.text)]
            return (*self.quotes(lines[:1]), Quote(0, self.controller, "slurmctld's log", f"JobId={job.id}"))[0]
        values = {
            "State": job.state + (f" by {job.by}" if job.by else ""), "ExitCode": job.code, "Reason": job.reason,
            "Submit": moment(job.submitted), "Eligible": moment(job.eligible), "Start": moment(job.started),
            "End": moment(job.ended), "NodeList": ",".join(job.nodes), "User": job.user, "QOS": job.qos,
            "AllocTRES": job.tres, "ReqMem": job.memory, "Account": job.account, "Dependency": job.dependency,
            "Gres": ",".join(f"{name}={amount:g}" for name, amount in job.gres.items()),
            "SubmitLine": job.submit_line, "Partition": job.partition, "Priority": str(job.priority or ""),
        }  # fmt: skip
        shown = " ".join(f"{name}={values[name]}" for name in names if values[name])
        command = f"sacct -j {job.id}" if job.origin == "sacct" else f"squeue --states=all -j {job.id}"
        return Quote(0, self.controller, command, f"JobID={job.id} {shown}".strip())

    def event(self, one: Event) -> Quote:
        """An event as a quote."""
        text = f"{one.node} State={one.state} Start={moment(one.begun)} End={moment(one.ended) or 'Unknown'}"
        return Quote(one.begun, self.controller, "sacctmgr show event", f"{text} User={one.by} Reason={one.reason}")

    def user(self, uid: str) -> str:
        """Who has a UID, for people."""
        return self.names.get(uid) or f"the user with UID {uid}"


def moment(seconds: float) -> str:
    """A time as it is shown in quotes; empty for none."""
    return datetime.fromtimestamp(bounded(seconds)).strftime("%Y-%m-%dT%H:%M:%S") if seconds else ""


def evidence(controller: str, answer: Mapping[str, Any], job: str = "") -> Evidence:
    """What a controller told; the jobs of the question are those of `job`, or all of its records."""
    partitions = fields_of(answer.get("partitions", ""), "PartitionName=")
    kept = list({one.number: one for one in (attempt(row, MEMORY_FIELDS) for row in answer["memory"])}.values())
    present = {one.number: one for one in kept}
    own = newest_merged(with_steps(answer["records"]), present)
    shown_nodes = list(records(answer.get("nodes", "")))
    if job:
        memory = [one for one in kept if job in (one.id, one.number) or is_task(one, job)]
        known = {one.number for one in own}
        own += [one for one in memory if one.number not in known]
        own = [one for one in own if job in (one.id, one.number) or is_task(one, job)]
    own = [replace(one, is_forgotten=is_forgotten(one, present, answer)) for one in own]
    numbers = {one.number for one in own}
    others = all_others([one for one in kept if one.number not in numbers], answer["others"], numbers)
    return Evidence(
        controller=controller,
        now=answer["now"],
        jobs=tuple(sorted(own, key=lambda one: (one.submitted, one.started or float("inf"), one.number))),
        others=others,
        events=tuple(event(row) for row in answer["events"] if row[0]),
        nodes={one["NodeName"]: node_from(one) for one in shown_nodes},
        gres_of={one["NodeName"]: gres_in(one.get("Gres", "")) for one in shown_nodes},
        partitions={one["PartitionName"]: partition_from(one) for one in partitions},
        nodes_of={one["PartitionName"]: nodes_in(one.get("Nodes", "")) for one in partitions},
        rules_of={one["PartitionName"]: one for one in partitions},
        qos_of={one["PartitionName"]: one["QoS"] for one in partitions if one.get("QoS", "N/A") != "N/A"},
        reservations=tuple(reservations(answer.get("reservations", ""))),
        past_reservations=tuple(
            Reservation(name, moment_of(start), moment_of(end), nodes_in(nodes))
            for name, start, end, nodes in answer.get("past_reservations", ())
        ),
        limits=answer.get("limits", ""),
        associations=associations(answer.get("associations", ""), ASSOCIATION_FIELDS),
        qos={row.pop("Name"): set_limits(row) for row in rows(answer.get("qos", ""), QOS_FIELDS)},
        missing=tuple((name, why) for name, why in answer["missing"]),
        has_records=not any(name == "slurmdbd" for name, _ in answer["missing"]),
        running=tuple(lost_jobs.Job(*row) for row in answer.get("running", ())),
        boots=answer.get("boots", {}),
        over=tuple(late(answer.get("completing", ""), answer["now"])),
    )


def is_forgotten(one: Attempt, present: Mapping[str, Attempt], answer: Mapping[str, Any]) -> bool:
    """Whether slurmctld does not know a job that slurmdbd has as pending or running, or that was ended as lost.

    A number is given again, so the time of submission counts as well.
    """
    is_over = one.origin != "sacct" or one.ended or one.state not in (*WAITING, *AT_WORK)
    if one.is_forgotten:
        return True
    if is_over or "slurmctld" in dict(answer["missing"]):
        return False
    known = present.get(one.number)
    is_known = known is not None and abs(known.submitted - one.submitted) <= 1
    return not is_known and answer["now"] - one.submitted > lost_jobs.YOUNG_SECONDS


def all_others(present: Iterable[Attempt], rows: Iterable[Sequence[str]], own: Container[str]) -> tuple[Attempt, ...]:
    """The jobs that are not of the question: those that slurmctld has, and those that slurmdbd has."""
    found = {(one.number, one.submitted, one.started): one for one in present}
    for one in (attempt(row, RECORD_FIELDS) for row in rows):
        key = (one.number, one.submitted, one.started)
        # slurmdbd has the end of a job whose nodes are not free yet, and no priority of one that waits.
        is_newer = key in found and found[key].state in ("COMPLETING", *WAITING)
        if one.number not in own and not is_newer:
            found[key] = one
    return tuple(found.values())


def is_task(one: Attempt, job: str) -> bool:
    """Whether it is of what was asked about: a task of an array, those that wait, or a part of a heterogeneous job."""
    if one.id.partition("+")[0] == job:
        return True
    array, _, task = job.partition("_")
    own, _, tasks = one.id.partition("_")
    if own != array or not tasks:
        return False
    there = ranges_in(tasks)
    return not task or any(low <= last and first <= high for low, high in ranges_in(task) for first, last in there)


def ranges_in(tasks: str) -> list[tuple[int, int]]:
    """The first and the last of the tasks in each part of a text such as `3` or `[2-5,9%2]`."""
    found = re.findall(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", tasks.partition("%")[0])
    return [(int(low), int(high or low)) for low, high in found]


def attempt(row: Sequence[str], names: Sequence[str]) -> Attempt:
    """A job from a row of squeue or sacct."""
    got = dict(zip(names, row, strict=True))
    is_record = names is RECORD_FIELDS
    state, _, by = got["State"].partition(" by ")
    started = moment_of(got.get("Start", got.get("StartTime", "")))
    state = state.split(" ")[0].rstrip("+")
    is_waiting = state in WAITING
    nodes = () if is_waiting and not is_record else nodes_in(got["NodeList"])
    return Attempt(
        id=got["JobID"] if is_record else got["JobArrayID"],
        number=got["JobIDRaw"] if is_record else got["JobID"],
        user=got["User"] if is_record else got["UserName"],
        account=none_empty(got["Account"]),
        qos=none_empty(got["QOS"]),
        partition=none_empty(got["Partition"]),
        state=state,
        by=by,
        code=got["ExitCode"] if is_record else commands.exit_code(got["exit_code"]),
        reason=none_empty(got["Reason"]),
        submitted=moment_of(got["Submit"] if is_record else got["SubmitTime"]),
        eligible=moment_of(got["Eligible"] if is_record else got["EligibleTime"]),
        started=0 if is_waiting or not none_empty(got["NodeList"]) else started,
        ended=0 if state in (*AT_WORK, "PENDING") else moment_of(got.get("End", got.get("EndTime", ""))),
        nodes=nodes,
        cpus=number_of(got["NCPUS"] if is_record else got["NumCPUs"]) or 0,
        memory=got["ReqMem"] if is_record else got["MinMemory"],
        limit=seconds_of(got["Timelimit"] if is_record else got["TimeLimit"]) or 0,
        tres=got["AllocTRES"] if is_record else none_empty(got["tres-alloc"]),
        gres=gres_on_each(got, len(nodes)),
        dependency=none_empty(got.get("Dependency", "")),
        submit_line=got.get("SubmitLine", ""),
        reservation=none_empty(got.get("Reservation", "")),
        wanted_nodes=nodes_in(got.get("ReqNodes", "")),
        restarts=number_of(got.get("restartcnt", "")) or 0,
        licences=none_empty(got.get("Licenses", "")),
        name=got["JobName"] if is_record else got["Name"],
        priority=number_of(got.get("PriorityLong", "")) or 0,
        is_exclusive=got.get("OverSubscribe") == "NO",
        origin="sacct" if is_record else "squeue",
        is_forgotten=got.get("AdminComment") == commands.LOST,
    )


def with_steps(told: Iterable[Sequence[str]]) -> list[Attempt]:
    """The jobs in the rows of sacct, each with its steps, which follow it."""
    found: list[Attempt] = []
    steps: list[list[Step]] = []
    for row in told:
        _, dot, name = row[0].partition(".")
        if dot and found:
            got = dict(zip(RECORD_FIELDS, row, strict=True))
            peak = mebibytes_of(got["MaxRSS"] or "0") or 0
            state, _, by = got["State"].partition(" by ")
            steps[-1].append(Step(name, state.split(" ")[0], by, got["ExitCode"], peak))
        elif not dot:
            found.append(attempt(row, RECORD_FIELDS))
            steps.append([])
    return [replace(one, steps=tuple(own)) for one, own in zip(found, steps, strict=True)]


def newest_merged(own: Sequence[Attempt], present: Mapping[str, Attempt]) -> list[Attempt]:
    """Attempts, of each job the last with what slurmctld knows of it now, and a new one that is not on record yet."""
    last = {one.number: place for place, one in enumerate(own)}
    goes_on = [(own[place], present[number]) for number, place in last.items() if number in present]
    new = [
        replace(now, submit_line=old.submit_line, memory=old.memory)
        for old, now in goes_on
        if old.ended and old.state not in (*WAITING, *AT_WORK) and (now.is_waiting or now.state == "RUNNING")
    ]
    return [merged(one, present.get(one.number)) if last[one.number] == at else one for at, one in enumerate(own)] + new


def merged(record: Attempt, present: Attempt | None) -> Attempt:
    """A record, with what slurmctld alone knows of a job that it still has.

    Where slurmdbd hears of the end of a job before its beginning, its record is incomplete for some seconds.
    """
    if present is None:
        return record
    known = replace(
        record,
        id=present.id if "+" in present.id else record.id,
        qos=present.qos if record.qos in ("", "Unknown") else record.qos,
        partition=record.partition or present.partition,
        memory=record.memory if mebibytes_of(record.memory.rstrip("nc")) else present.memory,
        cpus=record.cpus or present.cpus,
        reason=record.reason or ("" if record.started else present.reason),
        eligible=record.eligible or present.eligible,
        gres=present.gres,
        dependency=present.dependency,
        reservation=present.reservation,
        wanted_nodes=present.wanted_nodes,
        restarts=present.restarts,
        licences=present.licences,
        priority=present.priority,
        is_exclusive=present.is_exclusive,
    )
    if record.state not in (*WAITING, *AT_WORK):
        return known
    return replace(
        known,
        state=present.state,
        reason=present.reason,
        started=present.started,
        ended=present.ended,
        eligible=present.eligible,
        code=present.code,
        nodes=present.nodes or record.nodes,
        tres=present.tres or record.tres,
    )


def event(row: Sequence[str]) -> Event:
    """An event from a row of sacctmgr."""
    got = dict(zip(EVENT_FIELDS, row, strict=True))
    by = re.sub(r"\(\d+\)$", "", got["User"])
    return Event(got["NodeName"], moment_of(got["Start"]), moment_of(got["End"]), got["State"], by, got["Reason"])


def reservations(shown: str) -> Iterable[Reservation]:
    """The reservations that scontrol printed."""
    for name, start, end, nodes in _RESERVATION.findall(shown):
        begun, until = commands.moment(start), commands.moment(end)
        yield Reservation(name, begun or 0, until or 0, nodes_in(nodes))


def nodes_in(text: str) -> tuple[str, ...]:
    """The nodes of a hostlist of Slurm's; none for its words for none."""
    if text in ("", "(null)", "None assigned", "n/a", "None"):
        return ()
    try:
        return expand(text)
    except HostlistError:
        return ()


def gres_in(text: str) -> dict[str, float]:
    """The generic resources of a node, with and without their types, as `gpu:a100:4(S:0-1)` has them.

    >>> gres_in("gpu:a100:4(S:0-1),tape:1")
    {'gres/gpu': 4.0, 'gres/gpu:a100': 4.0, 'gres/tape': 1.0}
    """
    found: dict[str, float] = {}
    for name, kind, amount in re.findall(r"([a-z_][\w-]*):(?:([^:,()]*[^:,()\d][^:,()]*):)?(\d+)", text):
        for key in filter(None, (f"gres/{name}", kind and f"gres/{name}:{kind}")):
            found[key] = found.get(key, 0.0) + float(amount)
    return found


def gres_on_each(got: Mapping[str, str], nodes: int) -> dict[str, float]:
    """The generic resources that a job asked for, on each of its nodes; of those for each task, one task's.

    >>> gres_on_each({"tres-per-node": "gres:gpu:2", "tres-per-job": "gres/gpu:a100:4"}, 2)
    {'gres/gpu': 2.0, 'gres/gpu:a100': 2.0}
    """
    found: dict[str, float] = {}
    for name in ("tres-per-node", "tres-per-job", "tres-per-task"):
        parts = [one[len("gres/") :] for one in got.get(name, "").split(",") if one.startswith(("gres/", "gres:"))]
        for key, amount in gres_in(",".join(parts)).items():
            found[key] = max(found.get(key, 0.0), amount / (max(1, nodes) if name == "tres-per-job" else 1))
    return found


def none_empty(text: str) -> str:
    """A value; empty for Slurm's words for none."""
    return "" if text in ("(null)", "None", "N/A", "Unknown", "n/a", "None assigned") else text
