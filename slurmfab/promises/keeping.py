"""What a run owes to the jobs of its cluster: none is hurt that nobody has agreed to hurt, and all are counted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from slurmfab.agent.resource import OK
from slurmfab.errors import AgentFailed, HostError, JobsInTheWay
from slurmfab.hostlist import fold
from slurmfab.phases.daemons import renewal, runs_slurmctld
from slurmfab.promises import emptying
from slurmfab.promises.dangers import dangers, refusal
from slurmfab.promises.emptying import Emptying
from slurmfab.promises.forecast import Forecast, labelled
from slurmfab.promises.needs import Need
from slurmfab.promises.tally import Tally, missing, running, tally
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.status import snapshot
from slurmfab.status.snapshot import Job, Snapshot, job_from

PARTS = ("nodes", "jobs")
ANSWER_SECONDS = 30.0
"""How long slurmctld may take to answer after a change: it reads the state of all jobs when it starts."""

ENDING_SECONDS = 10.0
"""How long to wait for the word on a job that is ending; KillWait and an epilog may take longer."""

POLL_SECONDS = 0.5
TAKES_CONSENT = ("deploy", "rollback")
"""The commands to which one can say `--drain-first` and `--allow`."""

MIN_JOB_AGE = 300
"""For how many seconds slurmctld knows of ended jobs where slurm.conf does not say (slurm.conf(5), MinJobAge)."""


class Promise:
    """What one run owes to the jobs of its cluster, from the first look at them to the last.

    A run without differences asks Slurm nothing.

    Args:
        run: the run; gains `forecast`, `jobs` and `left_drained`.
        pause: waits for that many seconds.
    """

    def __init__(self, run: Run, pause: Callable[[float], None] = time.sleep) -> None:
        self.run = run
        self.pause = pause
        self.before: dict[str, Job] = {}
        self.since: float | None = None
        self.remembered = float(MIN_JOB_AGE)
        self.count = 0
        self.emptied: Emptying | None = None
        self.situation: Situation | None = None
        self.seen = Snapshot()
        self.differs = False

    def foresee(self, situation: Situation, steps: Iterable[Step]) -> None:
        """Find out what a plan's changes would do to jobs, and which nodes a run that was cut off has left drained.

        Args:
            situation: what the plan was made from.
            steps: its comparison.
        """
        compared = tuple(steps)
        self.situation, self.differs = situation, any(step.differs for step in compared)
        knows = (self.differs or is_remarked(compared)) and may_know_jobs(situation)
        self.seen = self.look() if knows else Snapshot()
        self.run.left_drained = emptying.still_drained(self.seen)
        self.run.forecast = Forecast()
        if self.differs:
            labels = labelled(situation.differences, situation.slurm_version)
            found = dangers(situation.differences, situation.slurm_version, self.seen.jobs)
            self.run.forecast = Forecast(labels, renewal(situation, self.run.well(self.run.hosts)), found)

    def refuse(self, situation: Situation, steps: Iterable[Step]) -> None:
        """Stop before anything is changed that would hurt jobs without anybody's consent.

        Args:
            situation: what the plan was made from.
            steps: its comparison.

        Raises:
            JobsInTheWay: with the dangers, the jobs, and what to say to have it all the same.
        """
        self.foresee(situation, steps)
        self.refuse_blindness()
        words = refusal(self.run.forecast.dangers, self.run.consent)
        if words:
            self.run.is_refused = True
            aside = "" if self.run.command in TAKES_CONSENT else " Say that to fab deploy, and then this command again."
            done = "Nothing more was changed." if self.run.steps else "Nothing was changed."
            raise JobsInTheWay(f"{words}\n{done}{aside}")

    def refuse_blindness(self) -> None:
        """Stop where a slurmctld answers and does not say which jobs there are, if the change would hurt any.

        Raises:
            HostError: with what it says instead.
        """
        hurtful = [str(one.difference) for one in self.run.forecast.labels if one.need in (Need.DRAINED, Need.NO_JOBS)]
        if self.seen.is_up and self.seen.trouble and hurtful:
            words = f"nobody knows which jobs this would hurt: {'; '.join(hurtful)}. Nothing was changed."
            raise HostError(self.run.controller, f"{snapshot.silence(self.seen)} So {words}")

    def empty(self) -> bool:
        """Drain what was not refused only because it is to be drained first, and wait for the jobs there.

        Returns:
            Whether any were waited for, so that the hosts have to be asked again.

        Raises:
            SlurmfabError: Slurm does not drain, or said nothing for too long.
        """
        assert self.situation is not None, "somebody has looked"
        consent = self.run.consent
        needed = emptying.needed(self.run.forecast.dangers, consent.allowed, self.seen) if consent.drain_first else None
        if needed and needed.is_needed:
            self.emptied = needed
            emptying.empty(self.run, needed, self.seen, self.pause)
            return True
        if self.differs and self.seen.is_up:
            self.remember(self.situation, self.seen)
        return False

    def remember(self, situation: Situation, seen: Snapshot) -> None:
        """Take these jobs for those that must be there after the change; what an earlier look had counts as well."""
        if self.since is None:
            self.since = time.monotonic()
            self.remembered = float(min_job_age(situation))
            self.count = len(running(seen.jobs))
        self.before = {**{job.number: job for job in seen.jobs}, **self.before}

    def settle(self) -> None:
        """Count the jobs again, and give back what was drained; called when all is as wanted."""
        self.account()
        was_drained = bool(self.emptied and self.emptied.nodes)
        if self.situation and (was_drained or (self.run.consent.drain_first and self.run.left_drained)):
            emptying.give_back(self.run, self.run.well(self.situation.compute_nodes))
            self.run.left_drained = tuple(node for node in self.run.left_drained if node in self.run.lost)
        self.emptied = None
        self.remind()

    def remind(self) -> None:
        """Say which nodes a run that was cut off has left drained."""
        if self.run.left_drained and self.run.command != "resume":
            self.run.progress.line(left_words(self.run.left_drained))

    def abandon(self) -> None:
        """Say what became of the jobs and what stays drained, when the run ends early."""
        for line in self.run.jobs.lines if self.run.jobs else ():
            self.run.progress.line(line)
        if self.emptied:
            self.run.progress.line(emptying.way_back(self.emptied, self.seen))
        else:
            self.remind()

    def account(self) -> None:
        """Count the jobs again, if changes were begun while a slurmctld knew of jobs."""
        if self.since is None or self.run.jobs is not None:
            return
        if self.situation and not dict(self.situation.files)["slurm.conf"]:
            return  # a rollback to before the first deployment leaves no slurmctld that could be asked
        now = self.look_again()
        if now is None:
            self.run.jobs = Tally(self.count, None)
            return
        accepted = frozenset(job.number for danger in self.run.forecast.dangers for job in danger.jobs)
        remembers = time.monotonic() - self.since < self.remembered
        try:
            told = self.told(missing(self.before.values(), now.jobs))
        except HostError:
            told, remembers = {}, False
        counted = tally(self.before.values(), now.jobs, told, remembers=remembers, accepted=accepted)
        self.run.jobs = replace(counted, before=self.count)

    def look_again(self) -> Snapshot | None:
        """Slurm after the change, `None` when it does not answer within some time."""
        begun = time.monotonic()
        while self.run.controller not in self.run.lost:
            with contextlib.suppress(HostError):
                seen = self.look()
                if seen.is_up and not seen.trouble:
                    return seen
            if time.monotonic() - begun > ANSWER_SECONDS:
                break
            self.pause(POLL_SECONDS)
        return None

    def told(self, jobs: Iterable[Job]) -> dict[str, Job]:
        """What slurmctld says of jobs that do not go on, by number; those that are just ending are waited for."""
        numbers = [job.number for job in jobs]
        begun = time.monotonic()
        while numbers:
            request = {"op": "slurm", "parts": [], "numbers": numbers}
            lines = self.run.transport.call(self.run.controller, request)
            answer = next((line["slurm"] for line in lines if "slurm" in line), None)
            if answer is None:
                raise AgentFailed(self.run.controller, "the agent answered without a word of jobs; please report this.")
            found = {job.number: job for job in map(job_from, answer.get("named", "").splitlines()) if job}
            is_ending = any(job.state == "COMPLETING" for job in found.values())
            if not is_ending or time.monotonic() - begun > ENDING_SECONDS:
                return found
            self.pause(POLL_SECONDS)
        return {}

    def look(self) -> Snapshot:
        """Slurm now."""
        return snapshot.ask(self.run.transport, self.run.controller, PARTS)


def may_know_jobs(situation: Situation) -> bool:
    """Whether a slurmctld may be there that knows of jobs: one runs, or a controller did not say."""
    if not situation.controller_facts.slurm_conf:
        return False
    controllers = situation.cluster.controllers
    return any(name not in situation.facts or runs_slurmctld(situation, name) for name in controllers)


def is_remarked(steps: Iterable[Step]) -> bool:
    """Whether a comparison found nodes that a run which was cut off has left drained."""
    controller = (outcome for step in steps if step.phase == "nodes" for outcome in step.outcomes)
    return any(outcome.status == OK and outcome.message for outcome in controller)


def min_job_age(situation: Situation) -> int:
    """For how many seconds slurmctld knows of ended jobs."""
    said = situation.setting_before("MinJobAge")
    return int(said) if said.isdigit() else MIN_JOB_AGE


def left_words(nodes: tuple[str, ...]) -> str:
    """What to say of nodes that a run which was cut off has left drained."""
    names = fold(nodes)
    return (
        f"{names}: still drained for a change, by a deployment that did not come so far as to give that back. "
        f"fab deploy --drain-first goes on with it; fab resume {names} takes the drain back."
    )
