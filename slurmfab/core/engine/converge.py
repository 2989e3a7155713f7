"""A deployment: ask the hosts for facts, plan, compare, change what differs, and compare again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.core.engine import drain_first, drift, id_migration, notices, planning, refused_files, shared_state
from slurmfab.core.engine.hearing import hear
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.phase_run import PhaseRun
from slurmfab.core.engine.planning import exclude_lying_authority, exclude_unfit_hosts, exclude_without_packages
from slurmfab.core.engine.report import Report, Step
from slurmfab.core.engine.requests import gather, hosts_to_ask, request_apply, require_claim, take_claim
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.plan import PHASES, Phase, Plan, as_word, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import Resource

AnyPlanInput = TypeVar("AnyPlanInput", bound=PlanInput)


def deploy(run: Run) -> Report:
    """Bring the hosts to the state in the cluster file, without harm to running jobs.

    Raises DeployFailed if the controller failed. Raises, with nothing changed, IdConflict between hosts, InputError if
    Slurm or hosts cannot do what is asked for, and JobsInTheWay unless the harm is allowed.
    """
    with_job_safety(run, lambda job_safety: converge_differences(run, job_safety))
    return run.report()


def with_job_safety(run: Run, work: Callable[[JobSafety], None]) -> None:
    """Do work that changes hosts, counting jobs before and after, and resume nodes that were drained for it."""
    job_safety = JobSafety(run)
    try:
        work(job_safety)
        job_safety.finish()
    except SlurmfabError:
        job_safety.count_jobs_again()
        job_safety.report_unfinished()
        raise
    except BaseException:
        job_safety.report_unfinished()
        raise
    finally:
        run.progress.end()


def converge_differences(run: Run, job_safety: JobSafety) -> None:
    """Change what differs on the hosts.

    Phases that prepare a host (packages, users, keys) come first. Then the hosts are asked again, since the other
    phases are planned on the new facts. All phases after the first one that differs are carried out, since a change in
    one phase can cause a difference in a later one.
    """
    plan_input, steps = survey_until_safe(run, job_safety, lambda: survey(run, may_prepare=True))
    tell_companions(run, steps)
    id_migration.print_planned(run, steps)
    steps = still(run, steps)
    notices.tell(run, plan_input, steps)
    other_hardware = drift.other_hardware(plan_input, run.hosts)
    run.set_other_hardware(tuple(step.host for step in other_hardware))
    notices.print_other_hardware(run, plan_input, other_hardware)
    if differing(steps):
        shared_state.require_shared(
            run.inventory.cluster,
            run.remaining(run.hosts),
            lambda host, file, dry: request_apply(run, host, [file], dry_run=dry)[0],
        )
        drain_first.drain_strangers(run, plan_input.conf_before.nodes)
    done: list[Phase] = []
    if any(phase.prepares for phase in differing(steps)):
        done += (phase for phase in chosen_phases(run, steps) if phase.prepares)
        converge(run, plan_input, done)
        id_migration.print_done(run)
        told = tuple(notices.counted_by_slurmd(plan_input))
        plan_input, steps = survey_until_safe(run, job_safety, lambda: survey(run, may_prepare=True))
        # A slurmd that has just been installed tells how it counts.
        notices.tell_folded(run, (one for one in notices.counted_by_slurmd(plan_input) if one not in told))
    if differing(steps):
        rest = [phase for phase in chosen_phases(run, steps) if not phase.prepares]
        done += rest
        converge(run, plan_input, rest)
    if run.only and run.steps:
        # What was changed may be why something differs in phases that were left out.
        facts = gather(run, run.remaining(hosts_to_ask(run)), may_prepare=False)
        plan_input = planning.of_run(run, facts)
        others = make_plan(plan_input, run.remaining(run.hosts), [phase for phase in PHASES if phase not in done])
        run.note_others(compare_hosts(run, others, may_change=False))


def chosen_phases(run: Run, steps: Iterable[Step]) -> tuple[Phase, ...]:
    """The phases that the run carries out, from the first one on in which any host differs."""
    first = PHASES.index(differing(steps)[0])
    return tuple(phase for phase in PHASES[first:] if run.takes(phase.name))


def tell_companions(run: Run, steps: Iterable[Step]) -> None:
    """Tell in which phases the run has something to do that `--only` does not name."""
    if only := run.only:
        also = [as_word(phase.name) for phase in differing(steps) if phase.name not in only.named]
        if also:
            run.progress.line(f"--only {','.join(only.words)} cannot be without {', '.join(also)}, where hosts differ.")


def survey_until_safe(
    run: Run, job_safety: JobSafety, ask: Callable[[], tuple[AnyPlanInput, list[Step]]]
) -> tuple[AnyPlanInput, list[Step]]:
    """Survey the hosts until the differences may be changed: no other run changes the cluster, and no job is harmed.

    Then the lock, completed by the facts, is saved. `job_safety`: refuses changes that harm jobs, or drains nodes
    first. Returns the plan's input, and all outcomes of the comparison. Raises SlurmfabError if the differences may not
    be changed.
    """
    while True:
        plan_input, steps = ask()
        run.hooks.check_survey(run, steps)
        job_safety.refuse(plan_input, steps)
        if any(step.differs for step in steps) and not run.claim.is_held and take_claim(run):
            continue
        if not job_safety.drain_first():
            run.save_lock()
            return plan_input, steps


def dry_run(run: Run) -> Report:
    """Report what `deploy` would do, and change nothing; the report's steps hold all outcomes."""
    plan_input, steps = survey(run, may_prepare=False)
    job_safety = JobSafety(run)
    job_safety.assess(plan_input, steps)
    tell_companions(run, steps)
    notices.tell(run, plan_input, steps)
    drifted = drift.with_drift(plan_input, steps)
    run.record_steps(*run.chosen(drifted))
    run.note_others((*run.others, *(step for step in drifted if not run.takes(step.phase))))
    job_safety.report_left_drained()
    run.progress.end()
    return run.report()


def survey(run: Run, *, may_prepare: bool) -> tuple[PlanInput, list[Step]]:
    """Ask the hosts for facts, plan, and compare: two requests per host; `may_prepare` may install python3.

    Raises DeployFailed without the controller, IdConflict between hosts, InputError for what cannot be.
    """
    facts = gather(run, run.remaining(hosts_to_ask(run)), may_prepare=may_prepare)
    plan_input = exclude_unfit_hosts(run, facts)
    if run.takes("packages"):
        exclude_without_packages(run, plan_input)
    steps = compare_hosts(run, make_plan(plan_input, run.remaining(run.hosts)))
    exclude_lying_authority(run, plan_input, steps)
    if run.widens(steps):
        return survey(run, may_prepare=may_prepare)
    run.note_others(step for step in steps if not run.takes(step.phase))
    return plan_input, run.chosen(steps)


def differing(steps: Iterable[Step]) -> tuple[Phase, ...]:
    """The phases in which any host differs, in the order of a deployment."""
    names = {step.phase for step in steps if step.differs}
    return tuple(phase for phase in PHASES if phase.name in names)


def compare_hosts(run: Run, plan: Plan, *, may_change: bool = True) -> list[Step]:
    """Compare all resources of a plan with their hosts, and change nothing: one request per host.

    Args:
        run: excludes hosts that do not answer.
        plan: what each host shall have.
        may_change: whether the run is about to change what differs.

    Returns:
        A step for each host and phase, with all outcomes, in the order of the plan's hosts.

    Raises:
        DeployFailed: the controller does not answer.
        InputError: the installed Slurm refuses the new files.
    """

    steps: list[Step] = []
    run.progress.begin("comparing", plan.hosts)
    for host, answer in on_each(plan.hosts, lambda host: compare_host(run, host, plan.of_host(host))):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            steps.extend(answer)
            run.progress.host_done(host)
    chosen = run.chosen(steps) if may_change else []
    run.note_survey(chosen)
    run.require_controller()
    refused_files.refuse_unparsable(run, chosen)
    hear(run, lambda: refused_files.refuse_unknown(still(run, chosen)), plan.hosts)
    steps = still(run, steps)
    order = {name: number for number, name in enumerate(plan.hosts)}
    return sorted(steps, key=lambda step: order[step.host])


def still(run: Run, steps: Iterable[Step]) -> list[Step]:
    """Those of some steps whose host is not excluded."""
    return [step for step in steps if step.host not in run.failed_hosts]


def compare_host(run: Run, host: str, wanted: Sequence[tuple[Phase, Resource]]) -> tuple[Step, ...]:
    """Compare the resources of one host, in one request; a step for each phase, HostError without an answer."""
    begun = time.monotonic()
    outcomes = request_apply(run, host, [resource for _, resource in wanted], dry_run=True)
    by_phase = grouped((phase.name, outcome) for (phase, _), outcome in zip(wanted, outcomes, strict=True))
    seconds = time.monotonic() - begun
    steps = (Step(name, host, tuple(outcomes), seconds, run.at(begun)) for name, outcomes in by_phase.items())
    return tuple(drift.left_out(step) if step.differs else step for step in steps)


def converge(run: Run, plan_input: PlanInput, phases: Iterable[Phase], hosts: tuple[str, ...] | None = None) -> None:
    """Carry out phases on hosts (all by default), each at its own pace; failed hosts are excluded.

    A node that slurmctld reports as not ready gets the later phases as well, since its host answers. Raises
    DeployFailed of the controller, or a needed slurmdbd; SlurmfabError if another run changes the cluster.
    """
    require_claim(run)
    wanted = tuple(phases)
    PhaseRun(run, plan_input, wanted, run.hosts if hosts is None else hosts).carry_out()
