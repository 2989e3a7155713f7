"""The steps of an upgrade on the hosts, each of which can be begun again after it was cut off anywhere.

What is left to do follows from what hosts have and run; see `slurmfab.commands.upgrade.making`. A daemon that a step
stops is started by a guard on its host if the run ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from slurmfab.base.errors import DeployFailed, HostError
from slurmfab.base.hostlist import fold
from slurmfab.commands.nodes import node_proof
from slurmfab.commands.upgrade import conversion
from slurmfab.commands.upgrade.changes import IMPATIENT, SUBJECT, Changes, directories
from slurmfab.commands.upgrade.plan import UpgradePlan, UpgradeStep
from slurmfab.core.engine import drain_first, job_waiting
from slurmfab.core.engine.drain_first import DrainTarget
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.node_changes import change, work_on_each
from slurmfab.core.engine.report import Step, apart
from slurmfab.core.engine.requests import apply_step
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.phases.daemons import READY_SECONDS
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.client.commands import PRIMARY_ANSWERS, SHOW_SLURMD
from slurmfab.on_hosts.agent.core.resource import CHANGED, Outcome, Resource
from slurmfab.on_hosts.agent.nodes.registered import SlurmNodes
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause
from slurmfab.on_hosts.agent.upgrade.renewed_daemon import RenewedDaemon

ANSWERS = {"slurmd": SHOW_SLURMD}  # programs that succeed once a daemon works
STATES = ("RUNNING", "PENDING")  # the states of jobs that are counted in a line

JOB_PHASE, WAY_ON = "job", "Repair it, then run the same command again, which goes on with what is left."


@dataclass(frozen=True)
class Stages:
    """The steps of one upgrade."""

    run: Run  # the run; a host that fails is excluded
    plan: UpgradePlan  # what is to be done
    plan_input: PlanInput  # facts and wanted state, with the cluster file as the upgrade leaves it
    safety: JobSafety  # knows the jobs of before
    at_once: str  # how many nodes are upgraded at a time: a number, or a percentage
    drain: bool  # whether nodes are empty of jobs before

    @cached_property
    def changes(self) -> Changes:
        """What the steps change on hosts."""
        there = self.plan_input
        state = there.state_before or there.cluster.state_directory
        series, options = str(self.plan.target.series), (self.at_once, self.drain)
        return Changes(there.cluster, self.plan.hosts, series, state, there.slurm_keys, *options)

    def packages(self, step: UpgradeStep, host: str) -> tuple[Resource, ...]:
        """The new packages of a host, and Slurm's directories, which their scripts change; nothing if it has them."""
        wanted = self.changes.packages(step, host)
        return (*wanted, *directories(self.plan_input, host)) if wanted else ()

    def slurmdbd(self, step: UpgradeStep) -> None:
        """The new slurmdbd, which converts its database; slurmctld goes on meanwhile.

        Where slurmdbd's host runs jobs as well, its slurmd stops with the exchange of the packages; slurmctld does,
        too, so that it takes no node for lost while the database is converted. Raises SlurmfabError if a host fails, or
        slurmdbd ends.
        """
        self.pause_slurmctld(step)
        for host in self.run.remaining(step.hosts):
            change(self.run, "packages", host, *self.packages(step, host))
            change(self.run, "slurmdbd", host, RenewedDaemon("slurmdbd"))
            conversion.wait(self.run, host)
            change(self.run, "slurmdbd", host, *IMPATIENT)
        self.require(step.hosts)

    def pause_slurmctld(self, step: UpgradeStep) -> None:
        """Stop slurmctld where a step needs that, on backup controllers first, and copy its state."""
        hosts = self.run.remaining(self.changes.pauses(step))
        for host in hosts:
            change(self.run, "slurmctld stop", host, SlurmctldPause())
        if hosts:
            change(self.run, "state", self.run.controller, self.changes.state_copy())

    def controllers(self, step: UpgradeStep) -> None:
        """The new slurmctld on all controllers, away for its packages and state alone; SlurmfabError if it fails."""
        primary = self.run.controller
        order = sorted(self.run.remaining(step.hosts), key=lambda host: host == primary)
        for host in order:
            if wanted := self.packages(step, host):
                change(self.run, "packages", host, *wanted)
        self.pause_slurmctld(step)
        for host in reversed([host for host in order if "slurmctld" in step.daemons.get(host, ())]):
            answers = PRIMARY_ANSWERS if host == primary else ()
            change(self.run, "slurmctld", host, RenewedDaemon("slurmctld", answers))
        for host in order:
            if "slurmd" in step.daemons.get(host, ()):
                change(self.run, "slurmd", host, RenewedDaemon("slurmd", SHOW_SLURMD))
        self.require(step.hosts)
        self.tell_jobs()

    def tell_jobs(self) -> None:
        """Compare the jobs with those of before, and tell; DeployFailed if slurmctld is silent or has lost jobs."""
        now = self.safety.snapshot_after()
        if isinstance(now, str):
            raise DeployFailed(f"{self.run.controller}: {now}. {WAY_ON}")
        known = {job.number for job in now.jobs}
        lost = [job for job in self.safety.jobs_before.values() if job.number not in known]
        ended = self.safety.final_states(lost)
        gone = [job.number for job in lost if job.number not in ended]
        if gone:
            raise DeployFailed(
                f"{self.run.controller}: slurmctld no longer knows jobs {', '.join(sorted(gone)[:20])}. The state of "
                f"before is in {self.changes.state_copy().name()}; see docs/upgrade.md."
            )
        counts = [f"{sum(1 for job in now.jobs if job.state == state)} {state.lower()}" for state in STATES]
        self.run.progress.line(f"slurmctld {self.changes.series} answers and knows all jobs: {', '.join(counts)}.")

    def nodes(self, step: UpgradeStep) -> None:
        """The new slurmd, some nodes at a time; SlurmfabError if one does not return, later ones stay as they are."""
        hosts = self.run.remaining(step.hosts)
        done = 0
        for some in self.changes.batches(hosts):
            if self.drain:
                self.drain_nodes(some)
            work_on_each(self.run, some, lambda host: self.renew_node(step, host))
            self.prove_nodes(self.run.remaining(some))
            failed = [host for host in some if host in self.run.failed_hosts]
            if failed:
                left = hosts[hosts.index(some[-1]) + 1 :]
                rest = f"{fold(left)} stay as they are. " if left else ""
                reason = self.run.failed_hosts[failed[0]].reason
                raise DeployFailed(f"{fold(failed)} did not come back: {reason.rstrip('.')}. {rest}{WAY_ON}")
            done += len(some)
            self.run.progress.line(f"{fold(some)}: upgraded; {done} of {len(hosts)} nodes are done.")

    def drain_nodes(self, some: tuple[str, ...]) -> None:
        """Wait until the last job of these nodes has ended; SlurmfabError if Slurm does not drain or answer."""
        slurm = job_waiting.nodes_and_jobs(self.run)
        drain_first.drain_and_wait(self.run, DrainTarget(some, (), SUBJECT), slurm)

    def renew_node(self, step: UpgradeStep, host: str) -> None:
        """The new packages of a node, then its daemons."""
        wanted = self.packages(step, host)
        daemons = [RenewedDaemon(unit, ANSWERS.get(unit, ())) for unit in step.daemons.get(host, ())]
        change(self.run, "nodes", host, *wanted, *daemons)

    def prove_nodes(self, some: tuple[str, ...]) -> None:
        """Wait until nodes have registered, and run a job on each; those where that fails are excluded."""
        run = self.run
        nodes = tuple(host for host in some if self.plan_input.is_compute_node(host))
        if not nodes:
            return
        run.progress.begin("registration", nodes)
        step = apply_step(run, "registration", run.controller, (SlurmNodes(nodes, READY_SECONDS),))
        own, others = apart(step)
        for outcome in own.fatal:
            raise DeployFailed(f"{run.controller}: {outcome.id}: {outcome.message}")
        for one in others:
            run.record_steps(one)
            run.exclude(one.host, HostError(one.host, one.fatal[0].message if one.fatal else "it did not register"))
        left = run.remaining(nodes)
        (self.give_back if self.drain else self.run_jobs)(left)

    def give_back(self, nodes: tuple[str, ...]) -> None:
        """Give drained nodes back after a job has run on each; those where it fails stay drained, and are excluded."""
        run = self.run
        if not nodes:
            return
        run.progress.begin(JOB_PHASE, nodes)
        wanted = node_proof.give_back(run.inventory.cluster, run.inventory.lock, nodes)
        run.record_steps(apply_step(run, JOB_PHASE, run.controller, (wanted,)))
        there = job_waiting.nodes_and_jobs(run).by_name
        for node in nodes:
            state = there[node].state
            if state.is_in_service or state.is_set_by_person:
                run.progress.host_done(node)
            else:
                run.exclude(node, HostError(node, f"a job on it failed, so that it stays drained: {state.reason}"))

    def run_jobs(self, nodes: tuple[str, ...]) -> None:
        """Run a job of the slurm user on each node that has room for one."""
        run, in_service = self.run, self.in_service(nodes)
        run.progress.begin(JOB_PHASE, in_service)
        for node in node_proof.run_jobs(run, in_service, lambda node, why: run.exclude(node, HostError(node, why))):
            done = Step(JOB_PHASE, node, (Outcome(f"job:{node}", CHANGED),), 0.0)
            run.record_steps(done)
            run.progress.host_done(node, done)

    def in_service(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the nodes on which jobs may begin: not those that a person has drained."""
        slurm = job_waiting.nodes_and_jobs(self.run)
        there = slurm.by_name
        return tuple(node for node in nodes if node in there and there[node].state.is_in_service)

    def others(self, step: UpgradeStep) -> None:
        """Slurm's new commands on other hosts, and other services that use its files; DeployFailed if a host fails."""
        for host in self.run.remaining(step.hosts):
            daemons = map(RenewedDaemon, step.daemons.get(host, ()))
            change(self.run, "others", host, *self.packages(step, host), *daemons)

    def require(self, hosts: Iterable[str]) -> None:
        """Stop if a host that all others depend on has failed. Raises DeployFailed if one has."""
        failed = [host for host in hosts if host in self.run.failed_hosts]
        if failed:
            raise DeployFailed(f"{fold(failed)} did not get the new Slurm, so nothing else was begun. {WAY_ON}")
