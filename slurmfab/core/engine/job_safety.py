"""Safety of jobs during a run: harm is refused unless allowed, and jobs are counted before and after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from slurmfab.base.errors import HostError, JobsInTheWay, SlurmfabError, Unreachable
from slurmfab.base.hostlist import fold, shell_word
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.core.engine import drain_first
from slurmfab.core.engine.drain_first import DrainTarget
from slurmfab.core.engine.job_waiting import NODES_AND_JOBS, jobs_by_node
from slurmfab.core.engine.progress import first_sentence
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import JobImpact, Run
from slurmfab.core.impact.approvals import task_that_allows
from slurmfab.core.impact.disruptive_changes import disruptions, harm, refusal
from slurmfab.core.impact.forecast import Forecast, labelled
from slurmfab.core.impact.job_tally import NO_ANSWER, JobTally, missing, running, tally
from slurmfab.core.impact.restart_requirements import Requirement
from slurmfab.core.plan import lost_accounts, mig
from slurmfab.core.plan.phases import accounts
from slurmfab.core.plan.phases.daemons import renewal, runs_slurmctld
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status import snapshot
from slurmfab.core.status.snapshot import Job, Snapshot, jobs_from
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import OK
from slurmfab.on_hosts.agent.nodes.lost_jobs import YOUNG_SECONDS
from slurmfab.on_hosts.agent.services.service import RUNS

ANSWER_SECONDS = 30.0
"""Seconds that slurmctld may take to answer after a change: it reads the state of all jobs when it starts."""

FAILED_ANSWER_SECONDS = 10.0
"""The same where a step failed on the controller, so that slurmctld may not have been started at all."""

ENDING_SECONDS = 10.0
"""Seconds to wait for the final state of jobs that are completing; KillWait and an epilog may take longer."""

POLL_SECONDS = 0.5
MIN_JOB_AGE = 300  # default of MinJobAge: seconds for which slurmctld keeps ended jobs (slurm.conf(5))


RESTARTING = frozenset(Requirement) - {Requirement.NOTHING, Requirement.RECONFIGURE}
"""What requires more than a reconfigure."""


class JobSafety:
    """Keeps the jobs of a cluster safe during one run.

    A run without differences sends no request to Slurm. `run`: the run; gains the impact on jobs. `pause`: waits for
    that many seconds.
    """

    def __init__(self, run: Run, pause: Callable[[float], None] = time.sleep) -> None:
        self.run = run
        self.pause = pause
        self.plan_input: PlanInput | None = None
        self.differs = False
        self.slurm = Snapshot()
        self.drained: DrainTarget | None = None
        self.jobs_before: dict[str, Job] = {}
        self.running_before = 0
        self.counted_at: float | None = None
        self.min_job_age = MIN_JOB_AGE
        self.agreed: set[str] = set()
        self.dead: frozenset[str] = frozenset()

    @property
    def impact(self) -> JobImpact:
        """The impact on jobs that the run's report shows."""
        return self.run.job_impact

    @impact.setter
    def impact(self, impact: JobImpact) -> None:
        """Replace the impact in the run."""
        self.run.set_job_impact(impact)

    def assess(self, plan_input: PlanInput, steps: Iterable[Step]) -> None:
        """Find out what the plan's differences would do to jobs, and which nodes an interrupted run left drained."""
        compared = tuple(steps)
        self.plan_input, self.differs = plan_input, any(step.differs for step in compared)
        asks_slurm = (self.differs or has_left_drained(compared)) and may_have_jobs(plan_input)
        self.slurm = self.snapshot() if asks_slurm else Snapshot()
        forecast = Forecast()
        if self.differs:
            labels = labelled(plan_input.differences, plan_input.oldest_slurm)
            found = (
                *disruptions(plan_input.differences, plan_input.oldest_slurm, self.slurm.jobs),
                *mig.disruptions(plan_input, self.slurm.jobs),
                *lost_accounts.disruptions(plan_input, self.slurm.jobs, self.accounts_now(plan_input)),
            )
            forecast = Forecast(labels, renewal(plan_input, self.run.remaining(self.run.hosts)), found)
        left_drained = tuple(node for node in drain_first.still_drained(self.slurm) if not plan_input.is_on_trial(node))
        self.impact = replace(self.impact, forecast=forecast, left_drained=left_drained)

    def accounts_now(self, plan_input: PlanInput) -> list[tuple[str, str]]:
        """Accounts and users in slurmdbd, in pairs, where they decide which jobs may run; HostError if it is silent."""
        cluster = plan_input.cluster
        hosts = [host for host in cluster.database_hosts if host in plan_input.facts]
        is_asked = self.slurm.jobs and lost_accounts.begins(plan_input) and lost_accounts.has_database(plan_input)
        if not is_asked or not hosts:
            return []
        request = {
            "op": "accounts", "cluster": cluster.name, "conf": accounts.private_conf(plan_input),
            "qos_keys": [], "keys": [],
        }  # fmt: skip
        told = answer_value(hosts[0], self.run.transport.call(hosts[0], request), "accounts")
        return [(account, user) for account, user, _ in told["associations"] if user]

    def refuse(self, plan_input: PlanInput, steps: Iterable[Step]) -> None:
        """Stop the run before its changes, if these would harm jobs and the user did not allow that.

        `steps`: the comparison of the plan with the hosts. Raises JobsInTheWay if the message names the changes, the
        jobs, and the options that allow the changes. Raises HostError if the jobs on the cluster are unknown.
        """
        self.assess(plan_input, steps)
        self.refuse_unknown_jobs()
        elsewhere = task_that_allows(self.run.options.command)
        text = refusal(self.impact.forecast.disruptions, self.run.options.approvals, elsewhere)
        if text:
            self.impact = replace(self.impact, is_refused=True)
            again = " Then run this command again." if elsewhere else ""
            done = "Nothing more was changed." if self.run.steps else "Nothing was changed."
            raise JobsInTheWay(f"{text}\n{done}{again}")
        self.confirm()

    def confirm(self) -> None:
        """Ask before a deployment that restarts daemons under running jobs, or hurts jobs as it was allowed to.

        Later surveys of the run ask only about what is new. Raises SlurmfabError if the user did not say yes.
        """
        forecast = self.impact.forecast
        count = len(running(self.slurm.jobs))
        restarts = bool(count) and any(label.need in RESTARTING for label in forecast.labels)
        about = {*(one.name for one in forecast.disruptions), *(["restarts"] if restarts else [])}
        if self.run.options.command != "deploy" or about <= self.agreed:
            return
        jobs = f"{count} job{'s run and go' if count != 1 else ' runs and goes'} on meanwhile."
        lines = [f"{forecast.renewal} {jobs}"] if restarts else []
        for disruption in forecast.disruptions:
            lines += harm(disruption)
        if self.run.options.approvals.drain_first and any(one.drains for one in forecast.disruptions):
            lines.append("The nodes of these jobs are drained, and the jobs waited for, before anything changes.")
        self.run.confirm("\n".join(lines), "Deploy?")
        self.agreed |= about

    def refuse_unknown_jobs(self) -> None:
        """Stop if slurmctld runs but does not list its jobs, and the changes could harm some.

        Raises HostError if the message has slurmctld's error.
        """
        harmful = [
            str(label.difference)
            for label in self.impact.forecast.labels
            if label.need in (Requirement.DRAINED, Requirement.NO_JOBS)
        ]
        if self.slurm.is_up and self.slurm.trouble and harmful:
            unknown = f"So the jobs that these changes would harm are unknown: {'; '.join(harmful)}."
            raise HostError(self.run.controller, f"{snapshot.no_answer(self.slurm)} {unknown} Nothing was changed.")

    def drain_first(self) -> bool:
        """With `--drain-first`: drain the nodes and partitions whose jobs would be harmed, and wait for these jobs.

        Where there is nothing to drain, the jobs are counted, since the changes follow. Returns whether there was
        anything to drain. Then the hosts have to be asked again, since time has passed. Raises SlurmfabError if Slurm
        does not drain the nodes, or does not answer for too long.
        """
        assert self.plan_input is not None, "`assess` comes first"
        approvals = self.run.options.approvals
        if approvals.drain_first:
            target = drain_first.target_of(self.impact.forecast.disruptions, approvals.allowed, self.slurm)
            if target.is_needed:
                self.drained = target
                drain_first.drain_and_wait(self.run, target, self.slurm, self.pause)
                return True
        if self.differs and self.slurm.is_up:
            self.count_jobs(self.plan_input, self.slurm)
        return False

    def count_jobs(self, plan_input: PlanInput, slurm: Snapshot) -> None:
        """Note the jobs that must still be there after the changes; a second call adds jobs that are new since then."""
        if self.counted_at is None:
            self.counted_at = time.monotonic()
            self.min_job_age = min_job_age(plan_input)
            self.running_before = len(running(slurm.jobs))
            self.dead = self.without_processes(plan_input, slurm)
        self.jobs_before = {**{job.number: job for job in slurm.jobs}, **self.jobs_before}

    def without_processes(self, plan_input: PlanInput, slurm: Snapshot) -> frozenset[str]:
        """The jobs that run by Slurm's account only: their nodes have no process of them.

        slurmctld learns of their end when a slurmd starts that is down, and so it seems to come of the run that starts
        it; others this run itself puts back into the queue (`LostJobs`).
        `plan_input`: the plan's input, with the facts before the first change. `slurm`: Slurm before the first change.
        Returns their ids; of hosts that do not answer, none.
        """
        by_node = jobs_by_node(slurm)
        silent = [
            node
            for node in self.run.remaining(self.run.hosts)
            if by_node.get(node) and node in plan_input.facts
            if plan_input.facts[node].services.get("slurmd") not in (None, *RUNS)
        ]

        def steps_on(node: str) -> tuple[str, ...]:
            return tuple(
                answer_value(node, self.run.transport.call(node, {"op": "job-processes"}), "job_processes")["steps"]
            )

        gone = {
            job.number
            for job in running(slurm.jobs)
            if job.nodes and all(is_without(plan_input.facts.get(node), job) for node in job.nodes)
        }
        for node, steps in on_each(silent, steps_on):
            if not isinstance(steps, SlurmfabError):
                there = {step.partition(".")[0] for step in steps}
                gone |= {job.number for job in running(by_node[node])} - there
        return frozenset(gone)

    def finish(self) -> None:
        """Count the jobs again and resume what was drained; called when all changes are done."""
        self.count_jobs_again()
        was_drained = bool(self.drained and self.drained.nodes)
        resumes_others = self.run.options.approvals.drain_first and self.impact.left_drained
        if self.plan_input and (was_drained or resumes_others):
            done = [node for node in self.plan_input.compute_nodes if not self.plan_input.is_on_trial(node)]
            drain_first.resume_drained(self.run, self.run.remaining(done))
            left = tuple(node for node in self.impact.left_drained if node in self.run.failed_hosts)
            self.impact = replace(self.impact, left_drained=left)
        self.drained = None
        self.report_left_drained()

    def report_left_drained(self) -> None:
        """Print which nodes an interrupted run left drained."""
        if self.impact.left_drained and self.run.options.command != "resume":
            names = fold(self.impact.left_drained)
            self.run.progress.line(
                f"{names}: still drained by a deployment that was interrupted. To continue it: {FAB} deploy "
                f"--drain-first; to resume the nodes: {FAB} resume {shell_word(self.impact.left_drained)}."
            )

    def report_unfinished(self) -> None:
        """Print what became of the jobs and what is still drained, when the run ends early."""
        for line in self.impact.tally.lines if self.impact.tally else ():
            self.run.progress.line(line)
        if self.drained:
            self.run.progress.line(drain_first.format_still_drained(self.drained, self.slurm))
        else:
            self.report_left_drained()

    def count_jobs_again(self) -> None:
        """Compare the jobs with those before the changes, if these were counted."""
        if self.counted_at is None or self.impact.tally is not None:
            return
        if self.plan_input and not dict(self.plan_input.files)["slurm.conf"]:
            return  # a rollback to the state before the first deployment removes slurmctld
        now = self.snapshot_after()
        if isinstance(now, str):
            self.impact = replace(self.impact, tally=JobTally(self.running_before, None, unknown=now))
            return
        allowed = frozenset(job.number for one in self.impact.forecast.disruptions for job in one.jobs)
        remembers = time.monotonic() - self.counted_at < self.min_job_age
        try:
            ends = self.final_states(missing(self.jobs_before.values(), now.jobs))
        except HostError:
            ends, remembers = {}, False
        counted = tally(self.jobs_before.values(), now.jobs, ends, remembers=remembers, accepted=allowed,
                        earlier=self.dead)  # fmt: skip
        self.impact = replace(self.impact, tally=replace(counted, before=self.running_before))

    def snapshot_after(self) -> Snapshot | str:
        """Slurm after the changes, or why it is unknown.

        A controller on which a step failed is asked like any other, since its slurmctld may well answer; only one that
        was lost is not asked.
        """
        controller = self.run.controller
        excluded = self.run.failed_hosts.get(controller)
        if isinstance(excluded, Unreachable):
            return f"{controller} cannot be reached"
        patience = FAILED_ANSWER_SECONDS if excluded else ANSWER_SECONDS
        begun = time.monotonic()
        while True:
            try:
                now = self.snapshot()
                if now.is_up and not now.trouble:
                    return now
                unknown = f"slurmctld answers, but not about jobs ({now.trouble})" if now.is_up else NO_ANSWER
            except HostError as error:
                unknown = f"{controller} cannot be asked ({first_sentence(error.reason)})"
            if time.monotonic() - begun > patience:
                return unknown
            self.pause(POLL_SECONDS)

    def final_states(self, jobs: Iterable[Job]) -> dict[str, Job]:
        """The jobs now, by id, after up to `ENDING_SECONDS` for completing ones; HostError if silent."""
        numbers = [job.number for job in jobs]
        begun = time.monotonic()
        while numbers:
            request = {"op": "slurm", "parts": [], "numbers": numbers}
            lines = self.run.transport.call(self.run.controller, request)
            answer = answer_value(self.run.controller, lines, "slurm")
            with snapshot.readable(self.run.controller):
                found = {job.number: job for job in jobs_from(answer.get("named", ()))}
            is_completing = any(job.state == "COMPLETING" for job in found.values())
            if not is_completing or time.monotonic() - begun > ENDING_SECONDS:
                return found
            self.pause(POLL_SECONDS)
        return {}

    def snapshot(self) -> Snapshot:
        """Slurm now: its nodes and jobs."""
        return snapshot.ask(self.run.transport, self.run.controller, NODES_AND_JOBS)


def is_without(host: HostFacts | None, job: Job) -> bool:
    """Whether a host had no process of a job that had begun well before it was asked."""
    if host is None or not host.slurm_use.looked:
        return False
    asked = time.time() - (host.slurm_use.looked - host.clock_offset)
    return job.seconds > asked + YOUNG_SECONDS and int(job.number) not in host.slurm_use.jobs


def may_have_jobs(plan_input: PlanInput) -> bool:
    """Whether a slurmctld may have jobs: one is running, or a controller did not answer."""
    if not plan_input.controller_facts.slurm_conf:
        return False
    controllers = plan_input.cluster.controllers
    return any(name not in plan_input.facts or runs_slurmctld(plan_input, name) for name in controllers)


def has_left_drained(steps: Iterable[Step]) -> bool:
    """Whether a comparison found nodes that an interrupted run left drained."""
    outcomes = (outcome for step in steps if step.phase == "nodes" for outcome in step.outcomes)
    return any(outcome.status == OK and outcome.message for outcome in outcomes)


def min_job_age(plan_input: PlanInput) -> int:
    """Seconds for which slurmctld keeps ended jobs."""
    value = plan_input.setting_before("MinJobAge")
    return int(value) if value.isdecimal() else MIN_JOB_AGE
