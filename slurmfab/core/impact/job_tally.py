"""The jobs of a cluster before and after a change: how many ran and run, which ended by themselves, which were lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slurmfab.base.json_output import Key, shows
from slurmfab.core.status.snapshot import Job

RUNS = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})
"""The states of a job that has nodes and has not ended (squeue(1), JOB STATE CODES)."""

WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
"""The states of a job that waits; one that ran before has to start again."""

OWN_ENDS = frozenset({"COMPLETED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "PREEMPTED", "COMPLETING"})
"""The states of a job that ended by itself, as it could have at any time."""

OWN_FAILURES = {"FAILED": ("NonZeroExitCode",), "CANCELLED": ("",)}
"""End states that the job or its user caused if the reason is one of these; for other reasons, Slurm ended the job."""

NO_ANSWER = "slurmctld does not answer"  # why the number of jobs is unknown, in most cases

GONE, FORGOTTEN = "unknown", "ended"
"""States of a job that slurmctld should know but does not, and of one that it may have purged by now."""


@dataclass(frozen=True)
class JobEnd:
    """How a job ended that no longer runs or waits as before."""

    id: str  # as squeue shows it
    user: str  # its owner
    nodes: str  # the nodes on which it ran, as a hostlist; empty for a pending job
    state: str  # Slurm's state of its end, or its state now if it starts again
    reason: str = ""  # Slurm's reason; empty for none
    accepted: bool = False  # whether the user allowed the change that hurt it
    earlier: bool = False  # whether its processes were gone before the first change

    @property
    def description(self) -> str:
        """The job and its end: `12 (ann) on n1: NODE_FAIL, NodeDown`."""
        where = f" on {self.nodes}" if self.nodes else ""
        return f"{self.id} ({self.user}){where}: {self.fate}"

    @property
    def loss(self) -> str:
        """How it was lost, in a sentence."""
        if self.earlier:
            return (
                f"Lost before this run, since its processes were gone before the first change: job {self.description}."
            )
        return f"{'Lost (allowed)' if self.accepted else 'LOST'}: job {self.description}."

    @property
    def fate(self) -> str:
        """Its end in words."""
        if self.state == GONE:
            return "slurmctld no longer knows it"
        if self.state == FORGOTTEN:
            return "it has ended, and slurmctld no longer knows how"
        why = f", {self.reason}" if self.reason else ""
        if self.state in WAITS | RUNS:
            return f"it must start again from the beginning ({self.state}{why})"
        return f"{self.state}{why}"


@shows("before", "after", "ended", "lost", Key("unknown", "why_unknown", optional=True))
@dataclass(frozen=True)
class JobTally:
    """The jobs before and after a change."""

    before: int  # how many ran
    after: int | None  # how many run now; null where that is unknown
    ended: tuple[JobEnd, ...] = ()  # jobs that ran before and ended by themselves
    lost: tuple[JobEnd, ...] = ()  # jobs that ran or waited before, and were ended by Slurm or must start again
    unknown: str = NO_ANSWER  # why `after` is unknown, such as `slurmctld does not answer`

    @property
    def is_broken(self) -> bool:
        """Whether a job was lost that the user had not allowed to be lost, or nobody can say."""
        return self.after is None or any(not (job.accepted or job.earlier) for job in self.lost)

    @property
    def lines(self) -> tuple[str, ...]:
        """The tally as text, one sentence a line, lost jobs last."""
        if self.after is None:
            return (f"Jobs: {self.before} ran before; {self.unknown}, so the number of running jobs is unknown.",)
        counts = f"Jobs: {self.before} ran before, {self.after} {'runs' if self.after == 1 else 'run'} now."
        ended = (f"Ended by themselves: {'; '.join(job.description for job in self.ended)}.",) if self.ended else ()
        return (counts, *ended, *(job.loss for job in self.lost))

    @property
    def why_unknown(self) -> str | None:
        """Why `after` is null; left out where it is a number."""
        return self.unknown if self.after is None else None


def running(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Jobs that have nodes and have not ended."""
    return tuple(job for job in jobs if job.state in RUNS)


def missing(before: Iterable[Job], now: Iterable[Job]) -> tuple[Job, ...]:
    """Jobs that ran or waited before and do not go on; jobs that were ending already do not count.

    A job whose run time is shorter than before was started again.
    """
    present = {job.number: job for job in now}
    return tuple(job for job in before if job.state != "COMPLETING" and not goes_on(job, present.get(job.number)))


def goes_on(before: Job, now: Job | None) -> bool:
    """Whether a job goes on as before."""
    if now is None:
        return False
    if before.state not in RUNS:
        return True
    return now.state in RUNS and now.seconds >= before.seconds


def tally(
    before: Iterable[Job],
    now: Iterable[Job],
    ends: Mapping[str, Job],
    *,
    remembers: bool = True,
    accepted: frozenset[str] = frozenset(),
    earlier: frozenset[str] = frozenset(),
) -> JobTally:
    """Compare the jobs before and after a change.

    `ends`: what slurmctld says of `missing` ones. `remembers`: whether it must know all that ended since. `accepted`:
    ids that an allowed change hurts. `earlier`: ids whose processes were gone before.
    """
    jobs, present = tuple(before), tuple(now)
    ended, lost = [], []
    for job in missing(jobs, present):
        end = end_of(job, ends.get(job.number), remembers=remembers, accepted=job.number in accepted)
        if is_lost(end):
            lost.append(replace(end, earlier=job.number in earlier))
        elif job.state in RUNS:
            ended.append(end)
    return JobTally(len(running(jobs)), len(running(present)), tuple(ended), tuple(lost))


def end_of(job: Job, now: Job | None, *, remembers: bool, accepted: bool) -> JobEnd:
    """How a job ended.

    `job`: the job before the change. `now`: the job as slurmctld shows it now; `None` when it does not know it.
    `remembers`: whether slurmctld must still know it.
    """
    nodes = job.node_list if job.state in RUNS else ""
    if now is None:
        return JobEnd(job.id, job.user, nodes, GONE if remembers else FORGOTTEN, accepted=accepted)
    return JobEnd(job.id, job.user, nodes, now.state, now.reason, accepted)


def is_lost(end: JobEnd) -> bool:
    """Whether Slurm, and not the job or its user, ended the job."""
    if end.state in OWN_ENDS or end.state == FORGOTTEN:
        return False
    return end.reason not in OWN_FAILURES.get(end.state, ())
