"""Phases carried out on many hosts: each host goes on by itself, and waits only for the hosts that a phase needs."""

from __future__ import annotations

import queue
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from slurmfab.base.errors import DeployFailed, HostFailed, SlurmfabError
from slurmfab.core.engine import earlier_files, notices
from slurmfab.core.engine.node_changes import apply_proved_step
from slurmfab.core.engine.report import Step, apart
from slurmfab.core.engine.requests import apply_step
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.phase_order import PhaseOrder
from slurmfab.core.plan.phases import exports
from slurmfab.core.plan.phases.database import require_slurmdbd
from slurmfab.core.plan.plan import CONTROLLERS, DATABASE, SERVERS, Phase
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.fan_out import FAN_OUT, on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import Outcome, Resource
from slurmfab.on_hosts.agent.nodes.registered import SEE_LOG

QUIET_SECONDS = 10.0  # seconds without an answer after which the outcomes of hosts that are ahead of others are told
RECORD_SECONDS = 2.0  # least time between two writings of the record while hosts are at work

MOST = 16  # how many nodes are asked: with many, the first ones tell what is wrong with all


class PhaseRun:
    """Phases under way on the hosts of a run; one request per host and phase.

    Args:
        run: gains a step for each phase and host where anything differed, lost ones included; excludes hosts that fail.
        phases: the phases, in order.
    """

    def __init__(self, run: Run, plan_input: PlanInput, phases: Sequence[Phase], hosts: Iterable[str]) -> None:
        self.run = run
        hosts, cluster = tuple(hosts), plan_input.cluster
        if any(exports.has_some(plan_input, host) for host in plan_input.facts):
            plan_input = replace(plan_input, outside=frozenset(cluster.hosts) - frozenset(run.remaining(hosts)))
        self.at_first = self.plan_input = plan_input
        self.phases = tuple(phases)
        places = {CONTROLLERS: cluster.controllers, DATABASE: cluster.database_hosts, SERVERS: cluster.servers}
        self.packages = self.delivered(run.remaining(hosts))
        self.order = PhaseOrder(self.phases, run.remaining(hosts), places, run.controller)
        self.front = 0
        self.shown = -1
        self.pool = ThreadPoolExecutor(FAN_OUT, thread_name_prefix="host")
        self.at_work: dict[Future[Step], tuple[int, str]] = {}
        self.answered: queue.SimpleQueue[Future[Step]] = queue.SimpleQueue()
        self.parked: dict[int, dict[str, None]] = defaultdict(dict)
        self.begun: set[int] = set()
        self.ahead: dict[int, list[Step]] = defaultdict(list)
        self.done: dict[int, list[Step]] = defaultdict(list)
        self.late: dict[str, HostFailed] = {}
        self.completed: set[str] = set()
        self.failure: tuple[DeployFailed, str] | None = None
        self.recorded = time.monotonic()

    def carry_out(self) -> None:
        """Carry out all phases; hosts that others report as not as wanted are excluded at the end.

        Raises:
            DeployFailed: the controller failed, or slurmdbd's host while the new slurm.conf depends on it.
            SlurmfabError: another run is changing the cluster.
        """
        try:
            self.require_slurmdbd()
            for host in tuple(self.order.position):
                self.proceed(host)
            self.advance()
            while self.at_work:
                self.take_answer()
        finally:
            self.pool.shutdown(wait=False, cancel_futures=True)
        if self.failure:
            self.finish_phases(len(self.phases))
            error, phase = self.failure
            raise earlier_files.after_failure(self.run, self.at_first, phase, error) if phase else error
        waiting = sorted(host for hosts in self.parked.values() for host in hosts)
        assert not waiting, f"{waiting} wait for others although no host is at work"
        assert self.order.front == len(self.phases), f"the run ended before {self.phases[self.order.front].name}"
        for host, why in self.late.items():
            self.run.exclude(host, why)

    def delivered(self, hosts: Iterable[str]) -> dict[tuple[str, str], tuple[Resource, ...]]:
        """Send packages to the hosts that lack some; the resources that install them, by phase and host."""
        found = {}
        for phase in self.phases:
            if phase.installs:
                wanted = {host: phase.resources(self.plan_input, host) for host in hosts}
                for host, resources in self.run.packages.deliver(self.run, self.plan_input, wanted).items():
                    found[phase.name, host] = resources
        return found

    def resources(self, number: int, host: str) -> tuple[Resource, ...]:
        """What a host shall have in a phase."""
        phase = self.phases[number]
        known = self.packages.get((phase.name, host)) if phase.installs else None
        return phase.resources(self.plan_input, host) if known is None else known

    def proceed(self, host: str) -> None:
        """Let a host begin its next phase, or wait for the hosts that this phase needs."""
        while not self.failure and host in self.order.position:
            number = self.order.position[host]
            if number == len(self.phases):
                return
            resources = self.resources(number, host)
            if not resources:
                self.order.pass_phase(host)
                continue
            if not self.order.may_begin(number, host):
                self.parked[number][host] = None
                return
            name = self.phases[number].name
            if number not in self.begun:
                self.begun.add(number)
                self.run.progress.note(name)
            apply = apply_proved_step if self.phases[number].guards_logins else apply_step
            future = self.pool.submit(apply, self.run, name, host, resources)
            self.at_work[future] = number, host
            future.add_done_callback(self.answered.put)
            return

    def advance(self) -> None:
        """Complete the phases that all hosts have passed, and let those begin that waited for that."""
        while not self.failure:
            self.finish_phases(self.order.front)
            freed = [host for number in tuple(self.parked) for host in self.freed(number)]
            if self.failure or not freed:
                break
            for host in freed:
                self.proceed(host)
        self.show_front()

    def freed(self, number: int) -> list[str]:
        """The hosts that waited before a phase and wait no longer."""
        waiting = self.parked[number]
        controller = self.run.controller
        others = next((host for host in waiting if host != controller), None)
        found = list(waiting) if others and self.order.may_begin(number, others) else []
        if controller in waiting and self.order.may_begin(number, controller):
            found = list(dict.fromkeys((controller, *found)))
        for host in found:
            del waiting[host]
        return found

    def take_answer(self) -> None:
        """Wait for a host, note what came of its phase, and let hosts go on."""
        try:
            future = self.answered.get(timeout=QUIET_SECONDS)
        except queue.Empty:
            self.tell_ahead()
            return
        number, host = self.at_work.pop(future)
        try:
            self.take_step(number, host, future.result())
        except SlurmfabError as error:
            self.lose(number, host, error)
        self.proceed(host)
        self.advance()

    def take_step(self, number: int, host: str, step: Step) -> None:
        """Note a host's outcomes of a phase."""
        own, others = apart(step)
        others = quote_logs(self.run, others, {at for _, at in self.at_work.values()}) if others else others
        for one in (own, *others):
            self.done[number].append(one)
            if one.differs:
                self.run.record_steps(one)
            self.show(number, one)
            self.late |= {one.host: failure_of(one.fatal[0], one.host)} if one is not own else {}
        if time.monotonic() - self.recorded > RECORD_SECONDS:
            self.recorded = time.monotonic()
            self.run.update_record()
        if own.fatal:
            self.lose(number, host, failure_of(own.fatal[0], host))
        else:
            self.order.pass_phase(host)

    def lose(self, number: int, host: str, error: SlurmfabError) -> None:
        """Go on without a host, or end the run if nothing may be done without it."""
        self.run.exclude(host, error)
        self.order.leave(host)
        facts = {name: fact for name, fact in self.plan_input.facts.items() if name not in self.run.failed_hosts}
        self.plan_input = replace(self.plan_input, facts=facts)
        phase = self.phases[number].name
        try:
            self.run.require_controller()
        except DeployFailed as failed:
            self.failure = self.failure or (failed, phase)
        if not self.failure:
            if phase in earlier_files.AT_ONCE:
                self.complete(phase)
            self.require_slurmdbd()

    def require_slurmdbd(self) -> None:
        """End the run if slurmdbd's host failed and the new slurm.conf depends on it."""
        try:
            require_slurmdbd(self.plan_input, self.run.failed_hosts)
        except DeployFailed as failed:
            self.failure = self.failure or (failed, "")

    def finish_phases(self, end: int) -> None:
        """Tell what came of the phases before this number, and put earlier files back where a daemon did not start."""
        while self.front < end:
            number, self.front = self.front, self.front + 1
            self.show_phase(number)
            if number not in self.begun:
                continue
            notices.tell_after_change(self.run, self.done.pop(number, []))
            if any(step.phase == self.phases[number].name for step in self.run.steps):
                self.run.update_record()
            if not self.failure:
                self.complete(self.phases[number].name)

    def complete(self, phase: str) -> None:
        """Put earlier files back where a daemon did not start in a phase, once for each phase."""
        if phase in self.completed:
            return
        self.completed.add(phase)
        try:
            earlier_files.after_phase(self.run, self.at_first, phase)
        except DeployFailed as failed:
            self.failure = self.failure or (failed, "")

    def show(self, number: int, step: Step) -> None:
        """Show the outcomes of a host, or keep them until the phase is the one that is shown."""
        if number == self.shown:
            self.run.progress.host_done(step.host, step)
        else:
            self.ahead[number].append(step)

    def show_front(self) -> None:
        """Show the first phase that not all hosts have passed."""
        if self.front < len(self.phases):
            self.show_phase(self.front)

    def show_phase(self, number: int) -> None:
        """Show a phase, with the hosts that are at it and the outcomes of those that have passed it."""
        if number == self.shown or number not in self.begun:
            return
        self.shown = number
        kept = self.ahead.pop(number, [])
        there = [host for host, at in self.order.position.items() if at == number]
        self.run.progress.begin(self.phases[number].name, [*(step.host for step in kept), *there], is_noted=True)
        for step in kept:
            self.run.progress.host_done(step.host, step)

    def tell_ahead(self) -> None:
        """Tell the outcomes of hosts that are ahead of others, since these take long."""
        for number in sorted(self.ahead):
            self.run.progress.tell(self.ahead.pop(number))
        self.run.update_record()


def failure_of(failed: Outcome, host: str) -> HostFailed:
    """The error of a host on which a resource failed."""
    return HostFailed(host, f"{failed.id}: {failed.message}")


def quote_logs(run: Run, steps: tuple[Step, ...], busy: Container[str]) -> tuple[Step, ...]:
    """The steps of nodes that are not ready, with slurmd's errors in place of its log; busy hosts are not asked."""
    asked = [step.host for step in steps if any(SEE_LOG in one.message for one in step.outcomes)]
    free = [host for host in run.remaining(tuple(asked)) if host not in busy][:MOST]
    found = dict(on_each(free, lambda host: errors_of(run, host))) if free else {}
    said = {host: words for host, words in found.items() if isinstance(words, str) and words}
    return tuple(quoted(step, said[step.host]) if step.host in said else step for step in steps)


def errors_of(run: Run, host: str) -> str:
    """The errors that the slurmd of a host wrote since its start; empty for none, or if the host is silent."""
    try:
        answer = run.transport.call(host, {"op": "daemon-errors", "unit": "slurmd"})
        return " | ".join(answer_value(host, answer, "daemon_errors")["errors"]).rstrip(".")
    except SlurmfabError:
        return ""


def quoted(step: Step, words: str) -> Step:
    """A step whose failures quote slurmd."""
    told = f"The log of its slurmd says: {words}"
    return replace(
        step, outcomes=tuple(replace(one, message=one.message.replace(SEE_LOG, told)) for one in step.outcomes)
    )
