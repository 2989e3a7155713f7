"""The jobs of a cluster around a change: how many ran before and run now, how others ended, and which were lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slurmfab.status.snapshot import Job

RUNS = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})
"""The states of a job that has nodes and has not ended (squeue(1), JOB STATE CODES)."""

WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
"""The states of a job that waits; one that ran before has to start again."""

OWN_ENDS = frozenset({"COMPLETED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "PREEMPTED", "COMPLETING"})
"""The states of a job that ended as it could have at any time."""

OWN_FAILURES = {"FAILED": ("NonZeroExitCode",), "CANCELLED": ("",)}
"""States that are a job's or its user's own doing if the reason is one of these; by any other, Slurm ended it."""

GONE, FORGOTTEN = "unknown", "ended"
"""The states of a job that slurmctld should know of and does not, and of one that it may have forgotten by now."""


@dataclass(frozen=True)
class JobEnd:
    """What has become of a job that does not run, or wait, as it did before.

    Args:
        id: as squeue shows it.
        user: whose it is.
        nodes: where it ran, as a hostlist; empty where it waited.
        state: Slurm's word for its end, or where it has to start again for its state now.
        reason: Slurm's word for why, empty for none.
        accepted: whether the danger that hit it was accepted by name beforehand.
    """

    id: str
    user: str
    nodes: str
    state: str
    reason: str = ""
    accepted: bool = False

    @property
    def words(self) -> str:
        """The job, and its end: `12 (ann) on n1: NODE_FAIL, NodeDown`."""
        where = f" on {self.nodes}" if self.nodes else ""
        return f"{self.id} ({self.user}){where}: {self.fate}"

    @property
    def fate(self) -> str:
        """Its end in words."""
        if self.state == GONE:
            return "slurmctld does not know it any more"
        if self.state == FORGOTTEN:
            return "it has ended, and slurmctld has forgotten how"
        why = f", {self.reason}" if self.reason else ""
        if self.state in WAITS | RUNS:
            return f"it has to start again from its beginning ({self.state}{why})"
        return f"{self.state}{why}"


@dataclass(frozen=True)
class Tally:
    """The jobs before a change and after it.

    Args:
        before: how many ran.
        after: how many run now; `None` when slurmctld does not say.
        ended: those that ran before and came to their own end meanwhile.
        lost: those that ran or waited before, and were ended or have to start again.
    """

    before: int
    after: int | None
    ended: tuple[JobEnd, ...] = ()
    lost: tuple[JobEnd, ...] = ()

    @property
    def is_broken(self) -> bool:
        """Whether the promise was broken, or nobody can say: a job is lost that nobody had agreed to lose."""
        return self.after is None or any(not job.accepted for job in self.lost)

    @property
    def lines(self) -> tuple[str, ...]:
        """The whole in words, one sentence a line, the losses last."""
        if self.after is None:
            return (f"Jobs: {self.before} ran before; slurmctld does not answer, so nobody knows how many run now.",)
        counts = f"Jobs: {self.before} ran before, {self.after} {'runs' if self.after == 1 else 'run'} now."
        ended = (f"Ended meanwhile: {'; '.join(job.words for job in self.ended)}.",) if self.ended else ()
        lost = (f"{'Lost, as was accepted' if job.accepted else 'LOST'}: job {job.words}." for job in self.lost)
        return (counts, *ended, *lost)

    def as_json(self) -> dict[str, Any]:
        """The whole as JSON values; docs/plans.md says what each key holds."""
        return {
            "before": self.before,
            "after": self.after,
            "ended": [asdict(job) for job in self.ended],
            "lost": [asdict(job) for job in self.lost],
        }


def running(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Those of the jobs that have nodes and have not ended."""
    return tuple(job for job in jobs if job.state in RUNS)


def missing(before: Iterable[Job], now: Iterable[Job]) -> tuple[Job, ...]:
    """Those that ran or waited before and do not go on as they did; one that was ending already is none of them.

    A job that has run for a shorter time than before has been started anew.
    """
    present = {job.number: job for job in now}
    return tuple(job for job in before if job.state != "COMPLETING" and not goes_on(job, present.get(job.number)))


def goes_on(before: Job, now: Job | None) -> bool:
    """Whether a job goes on as it did."""
    if now is None:
        return False
    if before.state not in RUNS:
        return True
    return now.state in RUNS and now.seconds >= before.seconds


def tally(
    before: Iterable[Job],
    now: Iterable[Job],
    told: Mapping[str, Job],
    *,
    remembers: bool = True,
    accepted: frozenset[str] = frozenset(),
) -> Tally:
    """Compare the jobs before and after a change.

    Args:
        before: all that ran or waited.
        now: the same, after it.
        told: what slurmctld says of those that are `missing`, by number.
        remembers: whether it must know all jobs that have ended since.
        accepted: the numbers of jobs that a danger hurts which was accepted by name.
    """
    jobs, present = tuple(before), tuple(now)
    ended, lost = [], []
    for job in missing(jobs, present):
        end = end_of(job, told.get(job.number), remembers=remembers, accepted=job.number in accepted)
        if is_lost(end):
            lost.append(end)
        elif job.state in RUNS:
            ended.append(end)
    return Tally(len(running(jobs)), len(running(present)), tuple(ended), tuple(lost))


def end_of(job: Job, told: Job | None, *, remembers: bool, accepted: bool) -> JobEnd:
    """What has become of a job.

    Args:
        job: as it was.
        told: as slurmctld tells of it now, `None` when it does not know it.
        remembers: whether it must know it.
        accepted: whether its loss was agreed to.
    """
    nodes = job.node_list if job.state in RUNS else ""
    if told is None:
        return JobEnd(job.id, job.user, nodes, GONE if remembers else FORGOTTEN, accepted=accepted)
    return JobEnd(job.id, job.user, nodes, told.state, told.reason, accepted)


def is_lost(end: JobEnd) -> bool:
    """Whether a job did not come to its own end."""
    if end.state in OWN_ENDS or end.state == FORGOTTEN:
        return False
    return end.reason not in OWN_FAILURES.get(end.state, ())
