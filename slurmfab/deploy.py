"""A deployment: ask the hosts, plan, look what differs, change just that, look again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slurmfab import shared_state
from slurmfab.agent.resource import Outcome, as_request
from slurmfab.errors import AgentFailed, DeployFailed, HostError, InputError, PythonMissing, SlurmfabError
from slurmfab.facts import HostFacts, from_answer
from slurmfab.fitness import unfit
from slurmfab.inventory import Inventory
from slurmfab.plan import PHASES, Phase, Plan, make_plan
from slurmfab.progress import Progress
from slurmfab.report import Report, Step, outcome_from
from slurmfab.signature import stamp, who
from slurmfab.situation import Situation, pin
from slurmfab.ssh.transport import Transport, on_each

CARED_FOR = {
    "users": ("slurm", "munge"),
    "packages": ("munge", "slurmctld", "slurmd", "slurm-client"),
    "services": ("slurmctld", "slurmd", "munge"),
}
"""What of a host's many users, packages and services a plan depends on."""


@dataclass
class Run:
    """One run over a cluster's hosts: what it knows, whom it lost, what it did.

    Args:
        command: what was asked for, such as `deploy`.
        inventory: the cluster file and its lock; `lock` in it grows as hosts answer.
        transport: the way to the hosts.
        progress: whom to tell.
        hosts: those that the run is about.
        keep: called with the inventory when the lock has changed, before anything is changed on a host.
    """

    command: str
    inventory: Inventory
    transport: Transport
    progress: Progress
    hosts: tuple[str, ...]
    keep: Callable[[Inventory], None] = lambda _: None
    lost: dict[str, HostError] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def controller(self) -> str:
        """The primary controller."""
        return self.inventory.cluster.controller

    def report(self) -> Report:
        """The run so far."""
        return Report(
            self.command,
            self.inventory.cluster.name,
            self.hosts,
            tuple(self.steps),
            dict(self.lost),
            time.monotonic() - self.begun,
        )

    def lose(self, host: str, error: SlurmfabError) -> None:
        """Go on without a host."""
        self.lost[host] = error if isinstance(error, HostError) else HostError(host, str(error))
        self.progress.host_lost(host, self.lost[host])

    def require_controller(self) -> None:
        """Stop if the controller is lost; asked when all hosts have ended what they were at, so that each has its say.

        Raises:
            DeployFailed: it is, and nothing may start without it.
        """
        if self.controller in self.lost:
            raise DeployFailed(f"{self.controller} is the controller, so nothing else was started.")

    def well(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Those of the hosts that are not lost."""
        return tuple(host for host in hosts if host not in self.lost)


def deploy(run: Run) -> Report:
    """Make the hosts what the cluster file says.

    Whatever differs in a preparing phase is seen to first, and the hosts are asked again, since the rest is planned on
    what they then say. From the first phase in which any host differs, all later ones are gone through: what a host
    lacks in one may well show in the next.

    Raises:
        DeployFailed: the controller could not go on.
        IdConflict: the hosts' UIDs and GIDs do not go together; nothing was changed.
        InputError: the cluster file asks for what the installed Slurm or the hosts cannot do; nothing was changed.
    """
    situation, steps = survey(run, may_prepare=True)
    if differing(steps):
        shared_state.require(
            run.inventory.cluster,
            run.well(run.hosts),
            lambda host, file, dry: request_apply(run.transport, host, [file], dry_run=dry)[0],
        )
    if any(phase.prepares for phase in differing(steps)):
        first = PHASES.index(differing(steps)[0])
        converge(run, situation, [phase for phase in PHASES[first:] if phase.prepares])
        situation, steps = survey(run, may_prepare=True)
    if differing(steps):
        first = PHASES.index(differing(steps)[0])
        converge(run, situation, [phase for phase in PHASES[first:] if not phase.prepares])
    run.progress.end()
    return run.report()


def look(run: Run) -> Report:
    """What `deploy` would do; the same road, without the last step. The steps of the report hold all outcomes."""
    _, run.steps = survey(run, may_prepare=False)
    run.progress.end()
    return run.report()


def survey(run: Run, *, may_prepare: bool) -> tuple[Situation, list[Step]]:
    """Ask the hosts, plan, and compare: two requests per host.

    Args:
        run: the run.
        may_prepare: whether a missing python3 may be installed, and the lock be written.

    Returns:
        What the plan was made from, and all outcomes of the comparison.
    """
    asked = tuple(dict.fromkeys((run.controller, *run.hosts)))
    facts = gather(run, run.well(asked), may_prepare=may_prepare)
    situation = situate(run, facts)
    plan = make_plan(situation, run.well(run.hosts))
    if may_prepare:
        run.keep(run.inventory)
    return situation, look_at(run, plan)


def differing(steps: Iterable[Step]) -> tuple[Phase, ...]:
    """The phases in which any host differs, in their order."""
    names = {step.phase for step in steps if step.differs}
    return tuple(phase for phase in PHASES if phase.name in names)


def gather(run: Run, hosts: tuple[str, ...], *, may_prepare: bool = True) -> dict[str, HostFacts]:
    """Ask hosts for their facts, all at once.

    Args:
        run: the run; hosts that do not answer are lost to it.
        hosts: whom to ask.
        may_prepare: whether a missing python3 may be installed.

    Returns:
        The facts of those that answered, by name, in the order of `hosts`.

    Raises:
        InputError: no host can be reached in the way that the user wrote, as with a private key that is missing.
        DeployFailed: the controller does not answer.
    """
    facts: dict[str, HostFacts] = {}

    def ask(host: str) -> HostFacts:
        try:
            return ask_facts(run.transport, host, with_secrets=host == run.controller)
        except PythonMissing:
            if not may_prepare:
                raise
        begun = time.monotonic()
        run.transport.install_python(host)
        run.steps.append(Step("python", host, (Outcome("packages:python3", "changed"),), time.monotonic() - begun))
        return ask_facts(run.transport, host, with_secrets=host == run.controller)

    run.progress.begin("asking", hosts)
    for host, answer in on_each(hosts, ask):
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            facts[host] = answer
            run.progress.host_done(host)
    run.require_controller()
    return {host: facts[host] for host in hosts if host in facts}


def ask_facts(transport: Transport, host: str, *, with_secrets: bool) -> HostFacts:
    """The facts of one host.

    Args:
        transport: the way to it.
        host: its name.
        with_secrets: whether the munge key comes along, which only the controller is asked for.

    Raises:
        HostError: it does not answer.
    """
    request = {"op": "facts", **CARED_FOR, "with_munge_key": with_secrets, "with_slurm_conf": with_secrets}
    before = time.time()
    lines = transport.call(host, request)
    after = time.time()
    answer = next((line["facts"] for line in lines if "facts" in line), None)
    if answer is None:
        raise AgentFailed(host, "the agent answered without facts; please report this.")
    return from_answer(host, answer, answer.get("clock", after) - (before + after) / 2)


def situate(run: Run, facts: Mapping[str, HostFacts]) -> Situation:
    """What a plan is made from: the facts of the hosts that are fit, and the lock with what they add to it."""
    cluster = run.inventory.cluster
    for host, reason in unfit(cluster, facts).items():
        run.lose(host, HostError(host, reason))
    run.require_controller()
    fit = {host: fact for host, fact in facts.items() if host not in run.lost}
    run.inventory = replace(run.inventory, lock=pin(cluster, run.inventory.lock, fit))
    situation = Situation(cluster, run.inventory.lock, fit, stamp())
    situation.refuse_other_cluster()
    situation.refuse_unknown_keys()
    situation.refuse_uneven_files(run.hosts)
    return situation


def look_at(run: Run, plan: Plan) -> list[Step]:
    """Compare all resources of a plan on their hosts, changing nothing: one request per host."""

    def compare(host: str) -> tuple[Step, ...]:
        begun = time.monotonic()
        wanted = plan.of_host(host)
        outcomes = request_apply(run.transport, host, [resource for _, resource in wanted], dry_run=True)
        by_phase: dict[str, list[Outcome]] = {}
        for (phase, _), outcome in zip(wanted, outcomes, strict=True):
            by_phase.setdefault(phase.name, []).append(outcome)
        seconds = time.monotonic() - begun
        return tuple(Step(name, host, tuple(outcomes), seconds) for name, outcomes in by_phase.items())

    steps: list[Step] = []
    run.progress.begin("comparing", plan.hosts)
    for host, answer in on_each(plan.hosts, compare):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            steps.extend(answer)
            run.progress.host_done(host)
    run.require_controller()
    order = {name: number for number, name in enumerate(plan.hosts)}
    return sorted(steps, key=lambda step: order[step.host])


def converge(run: Run, situation: Situation, phases: Iterable[Phase]) -> None:
    """Go through phases, each on all hosts that have a part in it; a host that fails is left out of the next."""
    for phase in phases:
        alive = {host: fact for host, fact in situation.facts.items() if host not in run.lost}
        if len(alive) < len(situation.facts):
            situation = replace(situation, facts=alive)
        resources = {host: phase.resources(situation, host) for host in run.well(run.hosts)}
        hosts = [host for host in resources if resources[host]]
        first = [run.controller] if phase.controller_first and run.controller in hosts else []
        for group in (first, [host for host in hosts if host not in first]):
            converge_phase(run, phase, {host: resources[host] for host in group})


def converge_phase(run: Run, phase: Phase, resources: Mapping[str, tuple[Any, ...]]) -> None:
    """One phase on these hosts at once: one request per host."""

    def apply(host: str) -> Step:
        begun = time.monotonic()
        outcomes = request_apply(run.transport, host, resources[host], dry_run=False)
        return Step(phase.name, host, tuple(outcomes), time.monotonic() - begun)

    run.progress.begin(phase.name, resources)
    for host, answer in on_each(resources, apply):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
            continue
        if answer.differs:
            run.steps.append(answer)
        run.progress.host_done(host, answer)
        if answer.has_failed:
            failed = answer.with_status("failed")[0]
            run.lose(host, HostError(host, f"{failed.id}: {failed.message}"))
    run.require_controller()


def request_apply(transport: Transport, host: str, resources: Iterable[Any], *, dry_run: bool) -> list[Outcome]:
    """What a host's agent makes of resources: an outcome for each, in their order."""
    wanted = [as_request(resource) for resource in resources]
    lines = transport.call(host, {"op": "apply", "dry_run": dry_run, "who": who(), "resources": wanted})
    outcomes = [outcome_from(line["outcome"]) for line in lines if "outcome" in line]
    if len(outcomes) != len(wanted):
        raise AgentFailed(host, f"the agent answered {len(outcomes)} of {len(wanted)} questions; please report this.")
    return outcomes
