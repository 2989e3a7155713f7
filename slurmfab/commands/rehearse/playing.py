"""Jobs on a twin, before and after a change: which are taken and run, which ran on, and what became of the others."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slurmfab.base.errors import HostError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import expand
from slurmfab.cluster.inventory.cluster import Partition
from slurmfab.cluster.slurm.conf_text import split_commas
from slurmfab.commands.rehearse.workload import TwinJob, Workload
from slurmfab.core.impact.job_tally import RUNS, WAITS, JobTally, tally
from slurmfab.core.status import snapshot
from slurmfab.core.status.snapshot import Job, Node
from slurmfab.hosts.session import Line, answer_value
from slurmfab.on_hosts.agent.client import commands

SHORT, LONG = "exec srun true", "exec sleep {}"
"""What jobs do: those that show how a kind fares, with a step on each of their nodes, and those that run on."""

DAY, DRAINED = 86400, 20
"""For how many seconds jobs run on: for longer than the change, or so that a command that waits for them can go on."""

FIRST_UID, MADE_UP = 1000, 60100  # of people, and of people whose UID is not known
SBATCH_SECONDS = 20  # sbatch tries again for minutes where slurmctld has too many jobs
OUTPUT = "/var/tmp/slurmfab-rehearsal-"  # noqa: S108 - on the twin; where jobs write, with user and number; in no private directory of a job
PATIENCE = 20.0  # seconds without any news after which short jobs are not waited for
REFUSED_PATIENCE = 3.0  # the same where all that are left wait for what no other job's end changes
SOON = 1.5  # seconds within which a job that an epilog has killed is known to have ended
POLL_SECONDS = 0.3
MOST_RUNNING = 12  # the most jobs that run during the change
LONG_MINUTES = 60  # from this time limit on, a job outlasts the change

ROOM = frozenset({"", "None", "Priority", "Resources", "NodesRequired", "BeginTime"})
"""Reasons of jobs that wait for others to end, or for slurmctld to look at them."""

NO_ANSWER = f"sbatch did not end within {SBATCH_SECONDS} s"
LANDINGS = ("partition", "account", "QOS", "time limit", "TRES")
"""What a job gets that it asks for, or leaves to Slurm, in the order of `commands.what_jobs_got`, before its nodes."""

AWAY = ("ReqNodeNotAvail", "Node", "Reservation")  # beginnings of reasons that end when nodes come back

_ID = re.compile(r"(\d+)(?:;\S+)?$")


@dataclass(frozen=True)
class Site:
    """A twin as jobs need it."""

    call: Callable[[str, Mapping[str, Any]], tuple[Line, ...]]  # asks the agent of a host
    controller: str  # the name of the host
    shell: Callable[..., str]  # runs a script as root there, or on the host that follows, and returns what it prints
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    login: str = ""  # the host where users submit jobs; empty for the controller

    def jobs(self, numbers: Iterable[str]) -> dict[str, Job]:
        """What slurmctld says of jobs, also of ended ones that it still knows, by number; HostError if silent."""
        request = {"op": "slurm", "parts": [], "numbers": list(numbers)}
        answer = answer_value(self.controller, self.call(self.controller, request), "slurm")
        with snapshot.readable(self.controller):
            if answer.get("trouble"):
                raise HostError(self.controller, f"slurmctld does not answer: {answer['trouble']}.")
            return {job.number: job for job in snapshot.jobs_from(answer.get("named", ()))}

    def errors(self) -> tuple[str, ...]:
        """The last errors that slurmctld wrote since its start."""
        lines = self.call(self.controller, {"op": "daemon-errors", "unit": "slurmctld"})
        return tuple(answer_value(self.controller, lines, "daemon_errors")["errors"])

    def submit(self, jobs: Iterable[tuple[TwinJob, str, tuple[str, ...]]]) -> list[str]:
        """Submit jobs, each as its user with what it does and further options; ids, or what sbatch said instead."""
        script = "".join(_line(number, *job) for number, job in enumerate(jobs))
        rows = [line.split("|", 2) for line in self.shell(f"cd /\n{script}wait\n", self.login).splitlines()]
        return [_number(text) if code == "0" else text for _, code, text in sorted(rows, key=lambda row: int(row[0]))]

    def landings(self, numbers: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What jobs got, as `LANDINGS` names it, by number; of those that slurmctld still knows."""
        shown = self.shell(shlex.join(commands.what_jobs_got(numbers))) if numbers else ""
        rows = [line.split("|") for line in shown.splitlines()]
        return {row[0]: tuple(row[1:-1]) for row in rows if len(row) == len(("number", *LANDINGS, "nodes", "end"))}

    def said_by(self, job: Job) -> str:
        """The last line that a job wrote, if any."""
        nodes = expand(job.node_list) if job.node_list else ()
        path = shlex.quote(f"{OUTPUT}{job.user}-{job.number}")
        return self.shell(f"tail -n 1 {path} 2>/dev/null", nodes[0]).strip() if nodes else ""

    def cancel(self, numbers: Iterable[str]) -> None:
        """Cancel jobs."""
        if found := tuple(numbers):
            self.shell(shlex.join(commands.cancel(found)))


def _line(number: int, kind: TwinJob, does: str, more: tuple[str, ...]) -> str:
    words = ("timeout", str(SBATCH_SECONDS), "runuser", f"--user={kind.shape.user}", "--", "sbatch", "--parsable",
             f"--output={OUTPUT}%u-%A", "--chdir=/", *kind.options, *more, f"--wrap={does}")  # fmt: skip
    said = f"said=$({shlex.join(words)} 2>&1 </dev/null)"
    return f"{{ {said}; printf '%s|%s|%s\\n' {number} $? \"$(echo $said)\"; }} &\n"


def _number(text: str) -> str:
    found = _ID.search(text)
    return found[1] if found else text


def people_script(workload: Workload, others: Iterable[str] = ()) -> str:
    """A script for each host of a twin, which makes the users of the jobs, and others, who are not there."""
    names = sorted({**dict.fromkeys(others, 0), **{shape.user: shape.uid for shape in workload.shapes}}.items())
    numbers = {name: uid if uid >= FIRST_UID else made_up for made_up, (name, uid) in enumerate(names, MADE_UP)}
    return "".join(
        f"id {name} >/dev/null 2>&1 || useradd --no-create-home --non-unique --uid {uid} {name}\n"
        for name, uid in ((shlex.quote(name), uid) for name, uid in numbers.items())
    )


def groups_script(workload: Workload, partitions: Iterable[Partition]) -> str:
    """A script for each host of a twin, which makes the groups of partitions, with those who ran jobs there."""
    lines: dict[str, None] = {}
    for one in partitions:
        users = {shape.user for shape in workload.shapes if one.name in shape.partition.split(",")}
        for group in map(shlex.quote, split_commas(one.settings.get("AllowGroups") or "") - {"ALL", "root"}):
            lines[f"getent group {group} >/dev/null || groupadd {group}\n"] = None
            lines |= {f"usermod --append --groups {group} {shlex.quote(user)}\n": None for user in sorted(users)}
    return "".join(lines)


@dataclass(frozen=True)
class Fate:
    """How a short job of some kind fared."""

    job: TwinJob
    # `ended`; `room`: it waits for others to end, or for more nodes than a twin has; `waits`, `hangs`, `failed` or
    # `refused`
    state: str
    why: str = ""  # Slurm's reason, or what sbatch said
    # how a job of this kind with all that it asked for fared: `room`, `waits` or `refused`; `None` if that is no more
    whole: Fate | None = None
    landed: tuple[str, ...] = ()  # what it got, as `LANDINGS` names it, and its nodes; empty if that is not known


FATES = ("ended", "room", "waits", "hangs", "failed", "refused")
"""The states of `Fate`, from good to bad."""

WORDS = {
    "room": "wait for room",
    "waits": "wait",
    "hangs": "begin, but do not end",
    "failed": "fail",
    "refused": "are refused",
}


def probe(site: Site, jobs: Sequence[TwinJob]) -> tuple[Fate, ...]:
    """Submit a short job of each kind, and wait for all of them; what is left of them is cancelled.

    Where the twin has no nodes for all that a kind asks for, Slurm has to take that nevertheless, for the nodes that
    are in slurm.conf alone; a kind that Slurm takes in this size and not in the twin's is not found fault with.
    """
    fates = _short(site, jobs)
    wholes = dict(zip([one for one in jobs if one.whole], _in_full(site, jobs), strict=True))
    return tuple(_with_whole(one, wholes.get(one.job)) for one in fates)


def _short(site: Site, jobs: Sequence[TwinJob]) -> tuple[Fate, ...]:
    """How a short job of each kind fared."""
    told = site.submit((job, SHORT, (*_minutes(job), *_task(job))) for job in jobs)
    numbers = [text for text in told if text.isdecimal()]
    seen = _until_settled(site, numbers)
    landed = site.landings(numbers)
    site.cancel(number for number, job in seen.items() if job.state in RUNS | WAITS)
    return tuple(
        replace(_fate(site, job, seen.get(text)), landed=landed.get(text, ()))
        if text.isdecimal()
        else Fate(job, "refused", text or NO_ANSWER)
        for job, text in zip(jobs, told, strict=True)
    )


def _in_full(site: Site, jobs: Sequence[TwinJob]) -> Iterator[Fate]:
    """Yield how a job with all that a kind asks for fared, for kinds that the twin's nodes have not enough for."""
    wholes = [replace(job, shape=job.whole, whole=None) for job in jobs if job.whole]
    told = site.submit((job, SHORT, _minutes(job)) for job in wholes) if wholes else []
    numbers = [text for text in told if text.isdecimal()]
    seen = _until_settled(site, numbers, REFUSED_PATIENCE)
    site.cancel(numbers)
    for job, text in zip(wholes, told, strict=True):
        reason = seen[text].reason if text in seen and seen[text].state in WAITS else ""
        if not text.isdecimal():
            yield Fate(job, "refused", text or NO_ANSWER)
        elif reason in ROOM or reason.startswith(AWAY):
            yield Fate(job, "room")
        else:
            yield Fate(job, "waits", reason)


def _with_whole(one: Fate, whole: Fate | None) -> Fate:
    if whole and whole.state == "room" and one.state in {"waits", "refused"}:
        return Fate(one.job, "room", one.why, whole)
    return replace(one, whole=whole)


def _minutes(job: TwinJob) -> tuple[str, ...]:
    return (f"--time={job.shape.minutes}",) if job.shape.minutes else ()


def _task(job: TwinJob) -> tuple[str, ...]:
    """The last task of an array as large as those of the kind, if it had any."""
    return (f"--array={job.shape.array - 1}",) if job.shape.array > 1 else ()


def _until_settled(site: Site, numbers: Sequence[str], patience: float = PATIENCE) -> dict[str, Job]:
    """The jobs when all have ended, or nothing has become of them for a while."""
    seen: dict[str, Job] = {}
    since = site.clock()
    while numbers:
        now = site.jobs(numbers)
        if _states(now) != _states(seen):
            since = site.clock()
        seen = now
        left = [job for job in now.values() if job.state in RUNS | WAITS | {"COMPLETING"}]
        blocked = all(job.state in WAITS and job.reason not in ROOM and not job.reason.startswith(AWAY) for job in left)
        if not left or site.clock() - since > (REFUSED_PATIENCE if blocked else patience):
            break
        site.pause(POLL_SECONDS)
    return seen


def _states(jobs: Mapping[str, Job]) -> dict[str, tuple[str, str]]:
    return {number: (job.state, job.reason) for number, job in jobs.items()}


def _fate(site: Site, kind: TwinJob, job: Job | None) -> Fate:
    """How it fared, from what slurmctld says of it; a job that it has forgotten has ended."""
    if job is None or job.state == "COMPLETED":
        return Fate(kind, "ended")
    if job.state in WAITS:
        return Fate(kind, "room" if job.reason in ROOM else "waits", job.reason)
    if job.state in RUNS | {"COMPLETING"}:
        return Fate(kind, "hangs", job.reason or job.state)
    return Fate(kind, "failed", ", ".join(filter(None, (job.state, job.reason, site.said_by(job)))))


@dataclass(frozen=True)
class Before:
    """The jobs of a twin just before the change."""

    fates: tuple[Fate, ...] = ()  # how short jobs of each kind fared
    jobs: tuple[Job, ...] = field(default=(), repr=False)  # those that run or wait now
    errors: tuple[str, ...] = ()  # that slurmctld wrote


def begin(site: Site, kinds: Sequence[TwinJob], nodes: Sequence[Node], seconds: int = DAY) -> Before:
    """See how each kind fares, then have some of them run for so long, and some wait for these.

    slurmctld reads its files anew first, since it writes some errors then which it does not write at its start.
    """
    site.shell(shlex.join(commands.RECONFIGURE))
    fates = probe(site, kinds)
    long = LONG.format(seconds)
    told = site.submit(_long([fate.job for fate in fates if fate.state == "ended"], nodes, long))
    numbers = [text for text in told if text.isdecimal()]
    if numbers:
        more = [fate.job for fate in fates if fate.state == "ended"][:1]
        after = (f"--dependency=afterany:{numbers[0]}",)
        numbers += [text for text in site.submit((job, long, after) for job in more) if text.isdecimal()]
    return Before(fates, tuple(_until_running(site, numbers).values()), site.errors())


def _long(kinds: Sequence[TwinJob], nodes: Sequence[Node], does: str) -> Iterable[tuple[TwinJob, str, tuple[str, ...]]]:
    """Jobs that run for long and leave half of each node free, so that others can run there; the last is an array."""
    load = dict.fromkeys((node.name for node in nodes), 0)
    found: list[tuple[TwinJob, str, tuple[str, ...]]] = []
    for kind in sorted(kinds, key=lambda one: 0 < one.shape.minutes < LONG_MINUTES):
        wanted = {*kind.shape.partition.split(",")}
        there = [one for one in nodes if wanted & {*one.partitions} and one.state.is_in_service]
        free = [one.name for one in there if load[one.name] + kind.shape.cpus <= max(one.cpus // 2, 1)
                and kind.shape.memory <= one.memory // 2]  # fmt: skip
        if len(free) < kind.shape.nodes or len(found) >= MOST_RUNNING:
            continue
        chosen = sorted(free, key=lambda name: load[name])[: kind.shape.nodes]
        load.update((name, load[name] + kind.shape.cpus) for name in chosen)
        found.append((kind, does, (*_minutes(kind), f"--nodelist={','.join(chosen)}")))
    return (*found, *((kind, does, (*_minutes(kind), "--array=1-3")) for kind, _, _ in found[:1]))


def _until_running(site: Site, numbers: Sequence[str]) -> dict[str, Job]:
    """The jobs when none of them is about to begin."""
    deadline = site.clock() + PATIENCE
    while True:
        seen = site.jobs(numbers) if numbers else {}
        starting = any(job.state == "CONFIGURING" or (job.state == "PENDING" and job.reason in {"", "None"})
                       for job in seen.values())  # fmt: skip
        if not starting or site.clock() > deadline:
            return seen
        site.pause(POLL_SECONDS)


@dataclass(frozen=True)
class Outcome:
    """What a change did to the jobs of a twin."""

    unplayed: tuple[str, ...]  # sentences about kinds that the twin did not take or run before the change, either
    tally: JobTally | None  # the jobs that ran or waited during the change; `None` if slurmctld does not answer
    worse: tuple[str, ...]  # a sentence for each way in which jobs of some kinds fare worse than before
    errors: tuple[str, ...] = ()  # that slurmctld writes, and did not write before the change
    moved: tuple[str, ...] = ()  # a sentence for each way in which jobs of some kinds get something else than before

    @property
    def lines(self) -> tuple[str, ...]:
        """Text, a sentence a line, the worst first."""
        counts = self.tally.lines if self.tally else ("slurmctld of the twin does not answer after the change.",)
        return (*self.worse, *counts, *self.unplayed)


def end(site: Site, before: Before) -> Outcome:
    """What became of the jobs after the change; then short jobs of each kind again, and no job is left."""
    kinds = [fate.job for fate in before.fates]
    try:
        now = site.jobs(job.number for job in before.jobs)
        counted = tally(before.jobs, _present(now), now)
        ended = (*_ended_by_another(site, kinds, _present(now)),)
        site.cancel(one for one, job in now.items() if job.state in RUNS | WAITS)
        _until_settled(site, [*now])
        after = probe(site, kinds)
        told = outcome(before, counted, after, site.errors())
        return replace(told, moved=(*ended, *told.moved))
    except HostError:
        return outcome(before, None, ())


def _ended_by_another(site: Site, kinds: Sequence[TwinJob], jobs: Sequence[Job]) -> Iterator[str]:
    """Yield a sentence if a running job ends because another one of its user ends on its node; all others end first."""
    pairs = [(job, kind) for job in jobs if job.state in RUNS and job.nodes for kind in kinds if _is_beside(kind, job)]
    if not pairs:
        return
    job, kind = pairs[0]
    site.cancel(one.number for one in jobs if one != job)
    told = site.submit([(kind, SHORT, (*_minutes(kind), f"--nodelist={job.nodes[0]}"))])
    other = [text for text in told if text.isdecimal()]
    _until_settled(site, other)
    site.cancel(other)
    deadline = site.clock() + SOON
    while other and site.clock() < deadline:
        now = site.jobs([job.number]).get(job.number, job)
        if now.state not in RUNS:
            yield (
                f"A job of {job.user} on {job.nodes[0]} ended ({now.state}) when another one of {job.user} ended "
                "there: does an epilog end all processes of a user?"
            )
            return
        site.pause(POLL_SECONDS)


def _is_beside(kind: TwinJob, job: Job) -> bool:
    """Whether a job of a kind may run on the node of a running one of the same user, which is no task of an array."""
    one = kind.shape
    return (
        "_" not in job.id
        and (one.user, one.nodes) == (job.user, 1)
        and not {*one.partition.split(",")}.isdisjoint(job.partitions)
    )


def _present(now: Mapping[str, Job]) -> tuple[Job, ...]:
    return tuple(job for job in now.values() if job.state in RUNS | WAITS)


def outcome(before: Before, counted: JobTally | None, after: Sequence[Fate], errors: Iterable[str] = ()) -> Outcome:
    """What the change did, from how each kind fared before and after it."""
    pairs = list(zip(before.fates, after, strict=True)) if after else []
    worse = [*filter(None, (_what_is_worse(old, new) for old, new in pairs))]
    known = {*map(_without_numbers, before.errors)}
    unplayed = [old for old in before.fates if old.state not in {"ended", "room"} and not old.job.is_plain]
    return Outcome(
        _sentences(unplayed, "already before the change"),
        counted,
        _sentences(worse, "after the change"),
        tuple(one for one in errors if _without_numbers(one) not in known),
        _alike((new.job, _moved(old, new)) for old, new in pairs if _moved(old, new)),
    )


def _moved(old: Fate, new: Fate) -> str:
    """What else than before a job of a kind gets, in words.

    Of several partitions it may get any; and what it is allocated depends on its nodes.
    """
    if not (old.landed and new.landed):
        return ""
    *then, nodes_then = old.landed
    *now, nodes_now = new.landed
    left_out = {"partition" if "," in new.job.shape.partition else "", "TRES" if nodes_then != nodes_now else ""}
    others = [f"{name} {one} in place of {other}" for name, one, other in zip(LANDINGS, now, then, strict=True)
              if one != other and name not in left_out]  # fmt: skip
    return f"get {', '.join(others)}" if others else ""


def _without_numbers(line: str) -> str:
    return re.sub(r"\d+", "", line)


def _what_is_worse(old: Fate, new: Fate) -> Fate | None:
    """How a kind fares worse than before, in the twin's size or in its own; `None` if it does not."""
    if _is_worse(old, new):
        return new
    return new.whole if old.whole and new.whole and _is_worse(old.whole, new.whole) else None


def _is_worse(old: Fate, new: Fate) -> bool:
    """Whether a kind fares worse; one that waited for room may as well."""
    return FATES.index(new.state) > max(FATES.index(old.state), FATES.index("room") * (new.state == "room"))


def _sentences(fates: Iterable[Fate], when: str) -> tuple[str, ...]:
    """One sentence for each state and reason."""
    return _alike((one.job, f"{WORDS[one.state]} {when}{': ' * bool(one.why)}{one.why}") for one in fates)


def _alike(told: Iterable[tuple[TwinJob, str]]) -> tuple[str, ...]:
    """One sentence for each thing that is told of some kinds of jobs."""
    groups = grouped(((job.is_plain, text), job) for job, text in told)
    return tuple(
        f"{_kinds(jobs)} {text.rstrip('.')}. Such as those of {jobs[0].title}." for (_, text), jobs in groups.items()
    )


def _kinds(jobs: Sequence[TwinJob]) -> str:
    """How many kinds, and whether there were such jobs."""
    if jobs[0].is_plain:
        return f"Jobs of {len(jobs)} user{'s' * (len(jobs) > 1)} that name no partition, account, memory and time limit"
    kinds = f"Jobs of {len(jobs)} kind{'s' * (len(jobs) > 1)}"
    if not jobs[0].is_recorded:
        return f"{kinds} made from the cluster file"
    return f"{kinds} of last week's ({sum(job.shape.jobs for job in jobs)} jobs)"
