"""A deployment: ask the hosts, plan, look what differs, change just that, look again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from slurmfab import ids, job_scripts, moving, remarks, shared_state
from slurmfab.accounting import password as database_password
from slurmfab.accounting.slurmdbd import require_slurmdbd
from slurmfab.agent.resource import Outcome
from slurmfab.asking import claim, first_asked, gather, request_apply, require_claim
from slurmfab.errors import HostFailed, SlurmfabError
from slurmfab.facts import HostFacts
from slurmfab.fitness import judging
from slurmfab.people import numbers
from slurmfab.plan import PHASES, Phase, Plan, make_plan
from slurmfab.plans import drift
from slurmfab.promises.dangers import LOST_LIMITS
from slurmfab.promises.keeping import Promise
from slurmfab.report import Report, Step
from slurmfab.run import Run
from slurmfab.signature import stamp
from slurmfab.situation import Situation, pin
from slurmfab.ssh.fan_out import on_each

AnySituation = TypeVar("AnySituation", bound=Situation)


def deploy(run: Run) -> Report:
    """Make the hosts what the cluster file says, and keep the promise to the jobs that run meanwhile.

    Raises:
        DeployFailed: the controller could not go on.
        IdConflict: the hosts' UIDs and GIDs do not go together; nothing was changed.
        InputError: the cluster file asks for what the installed Slurm or the hosts cannot do; nothing was changed.
        JobsInTheWay: a change would hurt jobs, and nobody has agreed to that; nothing was changed.
    """
    under_promise(run, lambda promise: go_through(run, promise))
    return run.report()


def under_promise(run: Run, work: Callable[[Promise], None]) -> None:
    """Do work that changes hosts, and keep the promise to the jobs that run meanwhile.

    Raises:
        SlurmfabError: as the work does.
    """
    promise = Promise(run)
    try:
        work(promise)
        promise.settle()
    except SlurmfabError:
        promise.account()
        promise.abandon()
        raise
    except BaseException:
        promise.abandon()
        raise
    finally:
        run.progress.end()


def go_through(run: Run, promise: Promise) -> None:
    """Change what differs.

    Whatever differs in a preparing phase is seen to first, and the hosts are asked again, since the rest is planned on
    what they then say. From the first phase in which any host differs, all later ones are gone through: what a host
    lacks in one may well show in the next.
    """
    situation, steps = survey_until_safe(run, promise, lambda: survey(run, may_prepare=True))
    moving.announce(run, steps)
    remarks.tell(run, situation, steps)
    remarks.tell_of_other_hardware(run, situation)
    if differing(steps):
        shared_state.require(
            run.inventory.cluster,
            run.well(run.hosts),
            lambda host, file, dry: request_apply(run, host, [file], dry_run=dry)[0],
        )
    if any(phase.prepares for phase in differing(steps)):
        first = PHASES.index(differing(steps)[0])
        converge(run, situation, [phase for phase in PHASES[first:] if phase.prepares])
        moving.tell(run)
        situation, steps = survey_until_safe(run, promise, lambda: survey(run, may_prepare=True))
    if differing(steps):
        first = PHASES.index(differing(steps)[0])
        converge(run, situation, [phase for phase in PHASES[first:] if not phase.prepares])


def survey_until_safe(
    run: Run, promise: Promise, ask: Callable[[], tuple[AnySituation, list[Step]]]
) -> tuple[AnySituation, list[Step]]:
    """Ask the hosts until what differs may be changed at once: nobody else is at work, and no job would be hurt.

    Args:
        run: the run.
        promise: what it owes to jobs.
        ask: a survey.

    Returns:
        What the plan was made from, and all outcomes of the comparison.

    Raises:
        SlurmfabError: it may not be changed.
    """
    while True:
        situation, steps = ask()
        run.guard(steps)
        promise.refuse(situation, steps)
        if any(step.differs for step in steps) and not run.is_claimed and claim(run):
            continue
        if not promise.empty():
            return situation, steps


def look(run: Run) -> Report:
    """What `deploy` would do; the same road, without the last step. The steps of the report hold all outcomes."""
    situation, steps = survey(run, may_prepare=False)
    promise = Promise(run)
    promise.foresee(situation, steps)
    remarks.tell(run, situation, steps)
    run.steps = drift.told(situation, steps)
    promise.remind()
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
    facts = gather(run, run.well(first_asked(run)), may_prepare=may_prepare)
    situation = situate(run, facts)
    leave_out_without_packages(run, situation)
    plan = make_plan(situation, run.well(run.hosts))
    if may_prepare:
        run.keep(run.inventory)
    return situation, look_at(run, plan)


def differing(steps: Iterable[Step]) -> tuple[Phase, ...]:
    """The phases in which any host differs, in their order."""
    names = {step.phase for step in steps if step.differs}
    return tuple(phase for phase in PHASES if phase.name in names)


def situate(run: Run, facts: Mapping[str, HostFacts], scripts: job_scripts.Scripts | None = None) -> Situation:
    """What a plan is made from: the facts of the hosts that are fit, and the lock with what they add to it.

    Args:
        run: the run.
        facts: of the hosts that answered.
        scripts: those that nodes run around jobs; read from beside the cluster file when left out.
    """
    cluster = run.inventory.cluster
    password = database_password.read(cluster.database)
    scripts = job_scripts.read(cluster, run.inventory.path.parent) if scripts is None else scripts
    allowed = run.consent.allowed
    for host, reason in judging.left_out(cluster, run.inventory.lock, facts, allowed).items():
        run.lose(host, HostFailed(host, reason))
    run.require_controller()
    fit = {host: fact for host, fact in facts.items() if host not in run.lost}
    may_move = run.consent.move_ids
    before = run.inventory.lock.ids
    lock = pin(cluster, run.inventory.lock, fit, move_ids=may_move, may_lose=LOST_LIMITS in allowed)
    run.inventory = replace(run.inventory, lock=lock)
    numbers.refuse_partial(cluster, {*facts, *run.lost}, before, run.inventory.lock.ids)
    if may_move:
        ids.refuse_partial_move(run.hosts, cluster.hosts, before, run.inventory.lock.ids, fit)
    situation = Situation(cluster, run.inventory.lock, fit, stamp(), may_move, run.consent.prune, password, scripts)
    judging.refuse_unfit(situation, run.hosts, allowed)
    require_slurmdbd(run, situation)
    return situation


def leave_out_without_packages(run: Run, situation: Situation) -> None:
    """Go on without the hosts that lack packages which the cluster file's bundles have not, where it names any.

    Raises:
        InputError: a bundle that is needed is missing or damaged.
        DeployFailed: the controller is among these hosts.
    """
    if situation.cluster.bundle:
        from slurmfab.bundle import suiting  # noqa: PLC0415 - only clusters with a bundle pay for it

        suiting.leave_unsuited_out(run, situation)
        run.require_controller()


def with_packages(run: Run, situation: Situation, resources: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """The resources of a phase by host, once the packages in them were pushed to hosts that get them from a bundle."""
    if not situation.cluster.bundle:
        return resources
    from slurmfab.bundle import pushing  # noqa: PLC0415 - only clusters with a bundle pay for it

    return pushing.delivered(run, situation, resources)


def look_at(run: Run, plan: Plan) -> list[Step]:
    """Compare all resources of a plan on their hosts, changing nothing: one request per host."""

    def compare(host: str) -> tuple[Step, ...]:
        begun = time.monotonic()
        wanted = plan.of_host(host)
        outcomes = request_apply(run, host, [resource for _, resource in wanted], dry_run=True)
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
    require_claim(run)
    for phase in phases:
        alive = {host: fact for host, fact in situation.facts.items() if host not in run.lost}
        if len(alive) < len(situation.facts):
            situation = replace(situation, facts=alive)
        require_slurmdbd(run, situation)
        resources = {host: phase.resources(situation, host) for host in run.well(run.hosts)}
        resources = with_packages(run, situation, resources)
        hosts = [host for host in resources if resources[host]]
        first = [run.controller] if phase.controller_first and run.controller in hosts else []
        for group in (first, [host for host in hosts if host not in first]):
            converge_phase(run, phase, {host: resources[host] for host in group})


def converge_phase(run: Run, phase: Phase, resources: Mapping[str, tuple[Any, ...]]) -> None:
    """One phase on these hosts at once: one request per host."""

    def apply(host: str) -> Step:
        begun = time.monotonic()
        outcomes = request_apply(run, host, resources[host], dry_run=False)
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
            run.lose(host, HostFailed(host, f"{failed.id}: {failed.message}"))
    if any(step.phase == phase.name for step in run.steps):
        run.note()
    run.require_controller()
