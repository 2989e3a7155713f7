"""Jobs that a crash has lost: those that Slurm calls running where nothing of them runs, and open records of others.

After a blackout slurmctld reads its state of some seconds before. A job that it calls running there has no process on
its node, which has booted since, and keeps its cores until slurmd happens to register again at the right time. A job
that it had not written yet is unknown to it, and open in slurmdbd for ever.

What runs on a node is known by the node itself (its step daemons and prologs), or else by Slurm alone: nothing of a job
that started before its node booted can run there.
"""

from __future__ import annotations

import re
import time
from typing import Any, ClassVar, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import bounded, number_of
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import records, shown_nodes, state_of

YOUNG_SECONDS = 60
"""For so long after its start a job is not judged: its node may still prepare it."""

MARGIN = 2  # seconds by which a node's boot, a difference of two clocks in whole seconds, may be told too late

FIELDS, RUNNING, KNOWN = commands.RUNNING_FIELDS, commands.RUNNING_JOBS, commands.SUBMISSIONS
SETTLE_SECONDS = 2.0  # after which records are looked at again, as a job may have ended between two questions
SECONDS = 30.0  # time limit of each question


class Job(NamedTuple):
    """A job that Slurm calls running or suspended."""

    id: str  # as squeue shows it, such as `12_3`
    number: int  # its own number, by which step daemons have it
    user: str
    state: str
    is_batch: bool  # whether it has a script, which runs on the first of its nodes
    host: str  # that node; of other jobs the only node, and empty where they have several
    node_list: str  # all nodes as a hostlist
    start: Optional[float]  # in seconds since 1970
    may_requeue: bool

    @property
    def is_component(self) -> bool:
        """Whether it is part of a heterogeneous job, whose script is in the first one."""
        return "+" in self.id

    @property
    def waits_again(self) -> bool:
        """Whether its script begins anew once it is taken back."""
        return self.is_batch and self.may_requeue

    @property
    def ending(self) -> commands.Command:
        """What has it wait again, or else ends it."""
        return commands.requeue(str(self.number)) if self.waits_again else commands.cancel([str(self.number)])


class Lost(NamedTuple):
    """A job of which nothing runs where Slurm says."""

    job: Job
    booted: Optional[float] = None  # when its node booted, if that was after the job's start

    @property
    def name(self) -> str:
        """It with its node and since when Slurm calls it running: `job 12 of ann on n1 since 2026-11-28T18:55:27`."""
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(bounded(self.job.start or 0)))
        return "job %s of %s on %s since %s" % (self.job.id, self.job.user, self.job.node_list, since)

    @property
    def why(self) -> str:
        """How it is known."""
        if not self.booted:
            return "%s has no process of it" % self.job.host
        return "%s booted at %s and has no process of it" % (self.job.host, clock(self.booted))


class Looked(NamedTuple):
    """What a node tells of itself."""

    at: float  # when, in seconds since 1970 by the controller's clock
    jobs: Collection[int]  # the numbers of jobs of which something runs there


def clock(seconds: float) -> str:
    """A time of the day; of another day with its date."""
    there = time.localtime(bounded(seconds))
    is_today = time.localtime()[:3] == there[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", there)


def seconds_of(text: str) -> Optional[float]:
    """A time in seconds since 1970, as Slurm prints it with or without `commands.IN_SECONDS`; `None` for none."""
    told = number_of(text)
    return commands.moment(text) if told is None else float(told)


def jobs_in(shown: str) -> List[Job]:
    """The jobs that `RUNNING` printed."""
    found = []
    for line in shown.split("\n"):
        values = line.split("|")
        if len(values) != len(FIELDS) + 1 or not commands.is_job_id(values[1]) or number_of(values[0]) is None:
            continue
        number, ident, user, state, batch, host, nodes, start, requeue = values[:-1]
        is_single = bool(nodes) and not re.search(r"[\[,]", nodes)
        is_batch = batch not in ("", "0")
        place = host if is_batch and host not in ("", "n/a") else nodes if is_single else ""
        found.append(Job(ident, int(number), user, state, is_batch, place, nodes, seconds_of(start), requeue == "1"))
    return found


def lost(
    jobs: Iterable[Job], now: float, looked: Mapping[str, Looked], boots: Mapping[str, float], *, has_extern: bool
) -> List[Lost]:
    """The jobs that cannot be running.

    A job of several nodes is judged by the one with its script. What has no script, such as an allocation of salloc, is
    judged where each job has a step of its own, or its node has booted since; elsewhere nobody can tell.

    Args:
        jobs: that Slurm calls running.
        now: the controller's time.
        looked: what nodes told of themselves; it counts for jobs that had started before.
        boots: when nodes booted.
        has_extern: whether each job has a step of its own on each node (PrologFlags=Contain).
    """
    found = []
    for job in jobs:
        is_follower = job.is_component and not job.id.endswith("+0")
        if job.state not in ("RUNNING", "SUSPENDED") or job.start is None or not job.host or is_follower:
            continue
        booted = boots.get(job.host, 0.0)
        has_rebooted = booted > job.start + MARGIN
        seen = looked.get(job.host)
        if seen:
            if job.start > seen.at - YOUNG_SECONDS or job.number in seen.jobs:
                continue
            if not (job.is_batch or has_extern or has_rebooted):
                continue
        elif not has_rebooted or now - job.start < YOUNG_SECONDS:
            continue
        found.append(Lost(job, booted if has_rebooted else None))
    return found


def boots_in(nodes: Iterable[Mapping[str, str]]) -> Dict[str, float]:
    """When nodes booted, by name, of those that answer slurmctld now."""
    found = {}
    for one in nodes:
        booted = commands.moment(one.get("BootTime", ""))
        if booted and state_of(dict(one)).answers:
            found[one["NodeName"]] = booted
    return found


def by_slurm(context: Context) -> List[Lost]:
    """The lost jobs by what slurmctld alone knows; ResourceFailed if it does not answer."""
    jobs = jobs_in(context.must(RUNNING, seconds=SECONDS))
    boots = boots_in(records(shown_nodes(context, SECONDS))) if jobs else {}
    return lost(jobs, time.time(), {}, boots, has_extern=False)


class LostJobs(Resource):
    """No job is called running of which nothing runs: the script of a lost one waits again, from its beginning.

    `scontrol requeue` is the gentlest way: it is about this job alone, restarts no daemon, and works at any time.
    slurmctld itself takes such a job back only if slurmd registers more than BatchStartTimeout after its own start.
    """

    kind: ClassVar[str] = "lost-jobs"
    only_name: ClassVar[str] = "running"
    nodes: Tuple[Tuple[str, int, Tuple[int, ...]], ...]  # name, when it was looked at, and the jobs that it has
    has_extern: bool = False  # as in `lost`

    def wanted(self, context: Context) -> State:
        """What is to become of each lost job; nothing while slurmctld does not answer."""
        return {one.name: self.fate(one, context) for one in self.found(context)}

    def actual(self, context: Context) -> State:  # noqa: ARG002
        """Nothing of what is wanted is so: `wanted` names lost jobs alone."""
        return {}

    def found(self, context: Context) -> List[Lost]:
        """The lost jobs."""
        from slurmfab.on_hosts.agent.services.service import is_active  # the rest of this module is in `sstatus`, too

        if not is_active(context, "slurmctld") or context.starting & {"slurmctld", "munge"}:
            return []
        jobs = jobs_in(context.run(RUNNING, seconds=SECONDS).stdout.decode(errors="replace"))
        looked = self.looked()
        suspects = lost(jobs, time.time(), looked, {}, has_extern=True)
        if not suspects:
            return []
        boots = boots_in(records(shown_nodes(context, SECONDS)))
        return lost([one.job for one in suspects], time.time(), looked, boots, has_extern=self.has_extern)

    def looked(self) -> Dict[str, Looked]:
        """What nodes told, by name."""
        return {name: Looked(at, jobs) for name, at, jobs in self.nodes}

    def fate(self, one: Lost, context: Context) -> str:
        """What becomes of a lost job, in words."""
        way = self.in_the_way(one, context)
        if way:
            return "left to you, since %s" % way
        return "%s: %s" % ("in the queue again" if one.job.may_requeue else "ended, as it may not be requeued", one.why)

    def in_the_way(self, one: Lost, context: Context) -> str:
        """Why a lost job is left to a person, with the command; empty if it is not."""
        job = one.job
        if not job.is_batch:
            return (
                "it is an allocation without a script, and only its user knows whether they still sit there. "
                "To end it: scancel %s" % job.id
            )
        looked = self.looked()
        others = [name for name in context.must(commands.hostnames(job.node_list)).split() if name != job.host]
        left = [name for name in others if name not in looked or job.number in looked[name].jobs]
        if left or job.is_component:
            rest = "it may still run on %s" % ",".join(left) if left else "it has several parts"
            return "%s. To have it begin anew: scontrol requeue %d" % (rest, job.number)
        return ""

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Put lost jobs back into the queue, or end them; ResourceFailed for those that are left to a person."""
        left = []
        for one in self.found(context):
            why = self.in_the_way(one, context)
            if one.name not in differing or why:
                left += ["%s is left to you, since %s" % (one.name, why)] if why else []
                continue
            context.must(one.job.ending)
        if left:
            raise ResourceFailed("; ".join(left))


class Open(NamedTuple):
    """A record of a job that slurmdbd has as pending or running, and slurmctld does not know."""

    id: str  # as sacct shows it
    number: str  # its own number
    user: str
    state: str
    submitted: int  # in seconds since 1970; slurmctld lost it within seconds after that


def known_in(shown: str) -> List[Tuple[str, int]]:
    """Number and time of submission of each job that `KNOWN` printed."""
    rows = (line.split("|") for line in shown.split("\n") if line.count("|") > 1)
    return [(row[0], int(seconds_of(row[1]) or 0)) for row in rows]


def unknown(rows: Iterable[Sequence[str]], known: Collection[Tuple[str, int]], now: float) -> List[Open]:
    """The records, as `commands.open_records` has them, of jobs that slurmctld does not know, and that are not new."""
    found = []
    for number, ident, user, state, submitted, ended in rows:
        if ended.isdecimal() or (at := number_of(submitted)) is None or now - at < YOUNG_SECONDS:
            continue
        # A number is given again when slurmctld has forgotten that it gave it.
        if all(abs(there - at) > 1 for one, there in known if one == number):
            found.append(Open(ident, number, user, state.split(" ")[0], at))
    return found


def runaway(context: Context) -> List[Open]:
    """The records of lost jobs; none without accounting. Raises ResourceFailed if a daemon does not answer."""

    def look() -> List[Open]:
        table = commands.open_records()
        done = context.run(table.argv, seconds=SECONDS, env=table.env)
        if done.returncode:
            errors = done.stderr.decode(errors="replace").strip()
            if commands.NO_RECORDS in errors:
                return []
            raise ResourceFailed("slurmdbd does not answer: " + errors[-commands.SHOWN_BYTES :])
        rows = table.rows(done.stdout.decode(errors="replace"))
        return unknown(rows, known_in(context.must(KNOWN, seconds=SECONDS)), time.time()) if rows else []

    found = look()
    if found:
        time.sleep(SETTLE_SECONDS)
        found = [one for one in look() if one in found]
    return found


def close(context: Context, jobs: Iterable[Tuple[str, int]]) -> None:
    """End the records of lost jobs, given by number and time of submission, and say in each what became of its job.

    slurmdbd calls an ended one COMPLETED. Where a number was given again there is no comment, which could be about the
    other job.
    """
    context.must(commands.END_RUNAWAY_JOBS, seconds=300)
    for number, submitted in jobs:
        if commands.records_of([number], ("Submit",), "--allocations").ask(context, SECONDS) == [[str(submitted)]]:
            context.run(commands.comment_on(number), seconds=SECONDS)


def commented(rows: Iterable[Sequence[str]]) -> List[Open]:
    """The lost jobs whose records were ended, of rows that `commands.lost_records` has."""
    return [Open(ident, number, user, state, at) for number, ident, user, state, submitted, comment in rows
            if comment == commands.LOST and (at := number_of(submitted)) is not None]  # fmt: skip


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """The records of lost jobs as `records`, and as `left` those that are open at the end; for a controller.

    `close` of the request says whether their records are ended.
    """
    before = runaway(context)
    if request.get("close") and before:
        close(context, [(one.number, one.submitted) for one in before])
    left = runaway(context) if request.get("close") and before else before
    return {"records": [list(map(str, one)) for one in before], "left": [list(map(str, one)) for one in left]}
