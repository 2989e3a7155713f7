"""What jobs used between two times, added up from the records in slurmdbd, for `fab usage`; changes nothing.

Only sums leave the host, and the few jobs that waited longest or held idle GPUs. Times are cut off where the window
begins and ends, by slurmdbd itself (`sacct --truncate`), which subtracts the time that a job was suspended in it: so
the sums are those of slurmdbd's own hourly ones, which sreport shows.
"""

from __future__ import annotations

import re
import time
from typing import Any, Container, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.differences import one_line
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed


class Record(NamedTuple):
    """A job's record, or one of a part of a job that was requeued or resized."""

    number: str  # of the job; a task of an array has its own
    job: str  # the id as squeue prints it
    # `user`, `account`, `partition`, `state`: as sacct prints them; the state is its first word.
    user: str
    account: str
    partition: str
    state: str
    # `eligible`, `start`, `end`: seconds since 1970; 0 for never.
    eligible: int
    start: int
    end: int
    whole: int  # seconds that it ran, also outside of the window
    clipped: int  # seconds that it ran within the window
    tres: Mapping[str, float]  # what it was given, or has asked for while it waits, by Slurm's name; memory in MiB
    cpu_used: float  # seconds of CPU time of all its processes
    memory: float  # MiB that the largest step used; 0 if Slurm has not seen any
    gpu_peak: float  # the highest share of a GPU that Slurm saw in use, in percent; -1 if it did not look

    @property
    def cpus(self) -> int:
        """How many CPUs it was given."""
        return int(self.tres.get("cpu", 0))

    @property
    def gpus(self) -> int:
        """How many GPUs it was given, as far as Slurm counts them."""
        return int(self.tres.get("gres/gpu", 0))


UNITS: Dict[str, float] = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}  # MiB by unit

MEMORY = ("mem", "gres/gpumem", "vmem")


def amounts(text: str, only: Container[str] = ()) -> Dict[str, float]:
    """The amounts in `cpu=4,mem=50M,gres/gpu:a100=2` (MiB, seconds), or of `only` these names."""
    found: Dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if only and name not in only:
            continue
        match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)([KMGTP]?)", value)
        if match and name in MEMORY:
            # Without a unit, memory in use is in bytes (sacct(1)).
            found[name] = float(match[1]) * UNITS[match[2]] if match[2] else float(match[1]) / 1024**2
        elif match:
            found[name] = float(match[1]) * (1024 ** "_KMGTP".index(match[2] or "_"))
        elif ":" in value:
            found[name] = seconds_of(value)
    return found


def seconds_of(text: str) -> float:
    """A time such as `1-02:03:04`, `02:03.456` or `00:00:05` in seconds; 0 for another text."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{1,9})?)", text)
    if not match:
        return 0.0
    days, hours, minutes = (int(one or 0) for one in match.groups()[:3])
    return days * 86400 + hours * 3600 + minutes * 60 + float(match[4])


def gpu_types(tres: Mapping[str, float]) -> str:
    """The types of GPUs among TRES: `a100`, `a100+v100`, `gpu` for GPUs without a type, or empty for no GPUs."""
    types = sorted(name.partition(":")[2] for name, count in tres.items() if name.startswith("gres/gpu:") and count)
    return "+".join(types) or ("gpu" if tres.get("gres/gpu") else "")


IDLE_FIELDS = ("job", "user", "account", "partition", "gpus", "gpu_seconds", "evidence", "running")

MOST_LISTED = 50  # the most jobs that an answer lists of a kind
MOST_ASKED = 200  # the most running jobs whose nodes are asked; those with the most GPU seconds
STEPS_SECONDS = 60.0  # time limit of the question to the nodes
HARDLY_ANY = 0.01  # the part of one CPU's time below which a job's processes did not drive a GPU
GPU_USE, CPU_TIME = "gpuutil", "cputime"  # what tells that GPUs are idle


SEEN = ("cpu", "mem", "gres/gpuutil")  # what of the use of steps tells something here


class Evidence(NamedTuple):
    """What the steps of a job tell about its use."""

    memory: float  # MiB of the step that used most; 0 if Slurm has not seen any
    gpu_peak: float  # the highest share of a GPU that Slurm saw in use, in percent; -1 if it did not look
    cpu_used: float  # seconds of CPU time

    @classmethod
    def of(cls, steps: Iterable[Tuple[str, str]]) -> Evidence:
        """The evidence in TRESUsageInMax and TRESUsageInTot of each step."""
        memory, peak, cpu = 0.0, -1.0, 0.0
        for most, total in steps:
            highest, whole = amounts(most, SEEN), amounts(total, SEEN)
            memory = max(memory, highest.get("mem", 0.0), whole.get("mem", 0.0))
            peak = max(peak, highest.get("gres/gpuutil", -1.0), whole.get("gres/gpuutil", -1.0))
            cpu += whole.get("cpu", 0.0)
        return cls(memory, peak, cpu)


def idle_row(job: Record, cpu_used: float, gpu_peak: float, *, is_running: bool) -> List[Tuple[Any, ...]]:
    """The row of a job that held GPUs idle, else none, by seconds of CPU time and the peak (see `Evidence`)."""
    if gpu_peak > 0 or (gpu_peak < 0 and cpu_used > job.whole * HARDLY_ANY):
        return []
    evidence = CPU_TIME if gpu_peak < 0 else GPU_USE
    return [(job.job, job.user, job.account, job.partition, job.gpus, job.gpus * job.clipped, evidence, is_running)]


def largest_use(rows: List[Tuple[Any, ...]]) -> List[Tuple[Any, ...]]:
    """The rows of the jobs that held most."""
    return sorted(rows, key=lambda one: (-one[IDLE_FIELDS.index("gpu_seconds")], one[0]))[:MOST_LISTED]


def among_running(jobs: List[Record], context: Context) -> List[Tuple[Any, ...]]:
    """The rows of running jobs that hold GPUs idle, from what their nodes say; none if these do not answer."""
    known = (one for one in jobs if one.state == "RUNNING" and commands.is_job_id(one.number))
    asked = sorted(known, key=lambda one: -one.gpus * one.clipped)[:MOST_ASKED]
    if not asked:
        return []
    try:
        shown = context.run(commands.use_by_steps(one.number for one in asked), seconds=STEPS_SECONDS)
    except ResourceFailed:
        return []
    steps: Dict[str, Dict[str, Tuple[str, str]]] = {}
    for row in (line.split("|") for line in shown.stdout.decode(errors="replace").split("\n")):
        if len(row) == 3:  # noqa: PLR2004
            # A step is told again for each task of an array that is asked about.
            steps.setdefault(row[0].partition(".")[0], {})[row[0]] = (row[1], row[2])
    rows: List[Tuple[Any, ...]] = []
    for one in asked:
        if one.number in steps:
            evidence = Evidence.of(steps[one.number].values())
            rows += idle_row(one, evidence.cpu_used, evidence.gpu_peak, is_running=True)
    return rows


FIELDS = (
    "JobIDRaw", "Submit", "JobID", "User", "Account", "Partition", "State", "Eligible", "Start", "End", "ElapsedRaw",
    "AllocTRES", "ReqTRES", "TotalCPU", "TRESUsageInMax", "TRESUsageInTot",
)  # fmt: skip
"""Fields of a record, as named by sacct(1) of 22.05 to 26.05; none is a text of a user."""

SUMS = (
    "jobs", "cpu", "gpu", "cpu_asked", "cpu_used", "memory_asked", "memory_used", "gpu_seen", "gpu_idle", "waits",
    "waited", "longest",
)  # fmt: skip
"""What is added up for each user, account, partition and type of GPU: jobs that ran; seconds of CPUs and GPUs; those of
jobs that have ended, and what of them was used; MiB times seconds, likewise; GPU seconds of jobs whose GPUs Slurm
watched, and of those that it never saw busy; jobs that began, how many seconds they waited, and the longest wait."""

WAIT_FIELDS = ("job", "user", "account", "partition", "gpus", "seconds", "started")

ANSWER_SECONDS = 580.0
"""Time limit of all questions to slurmdbd together; an answer may take 600 s (`slurmfab.hosts.answer_bounds`)."""

HOUR, DAY = 3600, 86400
HOURLY_UP_TO = 3 * DAY
MOST_POINTS = 4000  # of a longer window, only the last points are told


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Ask slurmdbd, and add up.

    Args:
        request: `since` and `until`, see `moment`; `idle_seconds`: from which age on jobs can hold GPUs idle.

    Returns:
        `accounting`: whether Slurm keeps records; without, only the times are there as well. `since`, `until`: seconds
        since 1970, and as texts with the host's zone in `since_text` and `until_text`. `capacity`: the cluster's TRES
        times seconds. `tracked`: the TRES that are accounted. `groups`: user, account, partition, types of GPUs, and
        `SUMS`. `points`: begin, CPU and GPU seconds of each hour or day. `waits`: `WAIT_FIELDS`. `idle`:
        `IDLE_FIELDS`.

    Raises:
        ResourceFailed: slurmdbd does not answer, or the window is empty.
    """
    now = int(time.time())
    since, until = moment(request["since"], now), min(moment(request["until"], now), now)
    window = {"since": since, "until": until, "since_text": text_of(since), "until_text": text_of(until)}
    if since >= until:
        raise ResourceFailed("%s is not before %s" % (window["since_text"], window["until_text"]))
    deadline = time.monotonic() + ANSWER_SECONDS
    try:
        clipped = clipped_seconds(context, since, until, deadline)
    except ResourceFailed as error:
        if commands.NO_RECORDS in str(error):
            return {"accounting": False, **window}
        raise
    capacity, tracked = capacity_of(ask_events(context, since, until, deadline), since, until)
    added = Added(since, until, int(request["idle_seconds"]))
    for record in records(ask_records(context, commands.job_records(since, until, FIELDS), deadline), clipped):
        added.add(record)
    added.idle += among_running(added.running, context)
    return {"accounting": True, **window, "capacity": capacity, "tracked": sorted(tracked), **added.as_json()}


def moment(text: str, now: int) -> int:
    """Seconds since 1970 of a time in the host's zone, `-3600` (from the last full hour), or now (empty)."""
    if not text:
        return now
    if text.startswith("-"):
        local = time.localtime(now - int(text[1:]))
        return int(time.mktime((*local[:4], 0, 0, *local[6:])))
    try:
        return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError) as error:
        raise ResourceFailed("%s is no time" % ascii(text[:40])) from error


def text_of(when: int) -> str:
    """A time in the host's zone, as `2026-11-01T00:00:00+0100`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when))


def ask_records(context: Context, table: commands.Table, deadline: float) -> Iterator[List[str]]:
    """The rows that sacct prints; ResourceFailed if it fails, has other fields, or misses the deadline."""
    return table.each(context.must(table.argv, seconds=max(deadline - time.monotonic(), 1), env=table.env))


def clipped_seconds(context: Context, since: int, until: int, deadline: float) -> Dict[Tuple[str, str], int]:
    """How long each job ran within the window, by the number and the submit time of its record."""
    fields = ("JobIDRaw", "Submit", "ElapsedRaw")
    table = commands.job_records(since, until, fields, "--allocations", "--truncate")
    return {(row[0], row[1]): int(row[2]) for row in ask_records(context, table, deadline)}


def ask_events(context: Context, since: int, until: int, deadline: float) -> Iterator[List[str]]:
    """Rows of start, end and TRES of the cluster; ResourceFailed if sacctmgr fails or misses the deadline."""
    window = ("event=cluster", "start=uts%d" % since, "end=uts%d" % until)
    command = commands.accounts("event", ("TimeStart", "TimeEnd", "TRES"), *window)
    shown = context.must(command, seconds=max(deadline - time.monotonic(), 1), env=commands.IN_SECONDS)
    return (line.split("|") for line in shown.splitlines())


def capacity_of(events: Iterable[List[str]], since: int, until: int) -> Tuple[Dict[str, int], Iterable[str]]:
    """The cluster's CPU and GPU seconds in the window, and which TRES it accounts for."""
    capacity: Dict[str, int] = {"cpu": 0, "gres/gpu": 0}
    tracked: Dict[str, None] = {}
    for begin, end, tres in (row for row in events if len(row) == 3):  # noqa: PLR2004
        seconds = max(min(number(end) or until, until) - max(number(begin), since), 0)
        found = amounts(tres)
        tracked.update(dict.fromkeys(found))
        for name in capacity:
            capacity[name] += int(found.get(name, 0)) * seconds
    return capacity, tracked


def records(rows: Iterable[List[str]], clipped: Mapping[Tuple[str, str], int]) -> Iterator[Record]:
    """The records in sacct's rows, each with the rows of its steps behind it."""
    job: List[str] = []
    steps: List[List[str]] = []
    for row in rows:
        if "." in row[0]:
            steps.append(row)
            continue
        if job and (job[0], job[1]) in clipped:
            yield record(job, steps, clipped[job[0], job[1]])
        job, steps = row, []
    if job and (job[0], job[1]) in clipped:
        yield record(job, steps, clipped[job[0], job[1]])


def record(job: List[str], steps: List[List[str]], clipped: int) -> Record:
    """The record in a job's row and those of its steps."""
    values = dict(zip(FIELDS, job))  # noqa: B905 - Python 3.9
    evidence = Evidence.of((row[-2], row[-1]) for row in steps)
    return Record(
        number=values["JobIDRaw"],
        job=values["JobID"],
        user=values["User"],
        account=one_line(values["Account"]),
        partition=values["Partition"],
        state=values["State"].partition(" ")[0],
        eligible=number(values["Eligible"]),
        start=number(values["Start"]),
        end=number(values["End"]),
        whole=number(values["ElapsedRaw"]),
        clipped=clipped,
        tres=amounts(values["AllocTRES"] or values["ReqTRES"]),
        cpu_used=seconds_of(values["TotalCPU"]),
        memory=evidence.memory,
        gpu_peak=evidence.gpu_peak,
    )


def number(text: str) -> int:
    """A number; 0 for `None` and `Unknown`."""
    return int(text) if re.fullmatch(r"\d{1,12}", text) else 0


class Added:
    """The sums since then (seconds since 1970), and the jobs to list; from `idle_seconds` on, GPUs can be held idle."""

    def __init__(self, since: int, until: int, idle_seconds: int) -> None:
        self.since, self.until, self.idle_seconds = since, until, idle_seconds
        self.groups: Dict[Tuple[str, str, str, str], Dict[str, int]] = {}
        self.points: Dict[int, List[float]] = {begin: [0.0, 0.0] for begin in grid(since, until)}
        self.begins = sorted(self.points)
        self.waits: List[Tuple[Any, ...]] = []
        self.idle: List[Tuple[Any, ...]] = []
        self.running: List[Record] = []

    def add(self, one: Record) -> None:
        """Count a record."""
        key = (one.user, one.account, one.partition, gpu_types(one.tres))
        sums = self.groups.setdefault(key, dict.fromkeys(SUMS, 0))
        self.add_wait(one, sums)
        if not one.start:
            return
        sums["jobs"] += 1
        sums["cpu"] += one.cpus * one.clipped
        sums["gpu"] += one.gpus * one.clipped
        self.add_points(one)
        if one.end:
            add_efficiency(one, sums)
        if one.gpus and one.whole >= self.idle_seconds:
            if one.end:
                self.idle += idle_row(one, one.cpu_used, one.gpu_peak, is_running=False)
                if len(self.idle) > 2 * MOST_LISTED:
                    self.idle = largest_use(self.idle)
            else:
                self.running.append(one)

    def add_wait(self, one: Record, sums: Dict[str, int]) -> None:
        """Count how long a job waited that began in the window, or that still waits."""
        if not one.eligible or (one.start or self.until) < one.eligible:
            return
        if self.since <= one.start < self.until:
            waited = one.start - one.eligible
            sums["waits"] += 1
            sums["waited"] += waited
            sums["longest"] = max(sums["longest"], waited)
        elif not one.start and one.state == "PENDING":
            waited = self.until - one.eligible
        else:
            return
        entry = (one.job, one.user, one.account, one.partition, one.gpus, waited, bool(one.start))
        self.waits.append(entry)
        if len(self.waits) > 2 * MOST_LISTED:
            self.waits = longest(self.waits)

    def add_points(self, one: Record) -> None:
        """Count a job in each hour or day in which it ran; the time that it was suspended is shared among them."""
        begin, end = max(one.start, self.since), min(one.end or self.until, self.until)
        if end <= begin or not self.begins:
            return
        share = one.clipped / (end - begin)
        step = self.begins[1] - self.begins[0] if len(self.begins) > 1 else self.until - self.begins[0]
        first = max(min(int((begin - self.begins[0]) // max(step, 1)) - 1, len(self.begins) - 1), 0)
        for place in range(first, len(self.begins)):
            low = self.begins[place]
            high = self.begins[place + 1] if place + 1 < len(self.begins) else self.until
            if low >= end:
                break
            seconds = max(min(end, high) - max(begin, low), 0) * share
            self.points[low][0] += seconds * one.cpus
            self.points[low][1] += seconds * one.gpus

    def as_json(self) -> Dict[str, Any]:
        """What `read` returns of it."""
        return {
            "groups": [[*key, list(sums.values())] for key, sums in sorted(self.groups.items()) if any(sums.values())],
            "points": [[low, *map(round, self.points[low])] for low in self.begins[-MOST_POINTS:]],
            "waits": [list(one) for one in longest(self.waits)],
            "idle": [list(one) for one in largest_use(self.idle)],
        }


def add_efficiency(one: Record, sums: Dict[str, int]) -> None:
    """Count what a job that has ended was given, and what of that it used; for its part within the window."""
    part = one.clipped / one.whole if one.whole else 0.0
    if one.cpu_used:
        sums["cpu_asked"] += one.cpus * one.clipped
        sums["cpu_used"] += round(one.cpu_used * part)
    if one.memory and one.tres.get("mem"):
        sums["memory_asked"] += round(one.tres["mem"] * one.clipped)
        sums["memory_used"] += round(one.memory * one.clipped)
    if one.gpus and one.gpu_peak >= 0:
        sums["gpu_seen"] += one.gpus * one.clipped
        sums["gpu_idle"] += one.gpus * one.clipped * (one.gpu_peak == 0)


def longest(waits: List[Tuple[Any, ...]]) -> List[Tuple[Any, ...]]:
    """The jobs that waited longest."""
    return sorted(waits, key=lambda one: (-one[WAIT_FIELDS.index("seconds")], one[0]))[:MOST_LISTED]


def grid(since: int, until: int) -> List[int]:
    """Where hours begin, in a window of up to three days, or else days, in the host's zone; the first is cut off."""
    step = HOUR if until - since <= HOURLY_UP_TO else DAY
    begins = [since]
    local = time.localtime(since)
    following = int(time.mktime((*local[:3], local[3] if step == HOUR else 0, 0, 0, *local[6:])))
    while True:
        following += step
        if step == DAY:  # a day with a change of the clock has another length
            shown = time.localtime(following + HOUR * 12)
            following = int(time.mktime((*shown[:3], 0, 0, 0, 0, 0, -1)))
        if following >= until:
            return begins
        if following > begins[-1]:
            begins.append(following)
