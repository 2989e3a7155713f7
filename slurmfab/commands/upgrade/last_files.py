"""The last step of an upgrade: what a deployment will change when all hosts have the new Slurm, compared beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.commands.upgrade.changes import with_directories
from slurmfab.commands.upgrade.plan import HostVersions, UpgradePlan, UpgradeStep, upstream
from slurmfab.core.engine import plan_text, planning
from slurmfab.core.engine.converge import compare_host
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.core.impact.disruptive_changes import format_disruption
from slurmfab.core.impact.forecast import Forecast
from slurmfab.core.plan.plan import Plan, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import OK, Resource
from slurmfab.on_hosts.agent.services.units import UnitsLoaded
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles


def with_files(run: Run, plan: UpgradePlan, facts: Mapping[str, HostFacts], final: SlurmPackages) -> UpgradePlan:
    """A plan with the last step, to the final key `slurm`, or the reasons for which it would be refused."""
    cluster = run.inventory.cluster.with_slurm(final)
    inventory = replace(run.inventory, cluster=cluster)
    there = {host: after(fact, plan.hosts[host]) for host, fact in facts.items() if host in plan.hosts}
    try:
        local = planning.read_local_input(inventory)
        plan_input = planning.make_plan_input(inventory, there, local, run.options.approvals)
        planning.refuse_unfit(inventory, plan_input, hosts=run.hosts, failed=run.failed_hosts, allowed=())
    except SlurmfabError as error:
        return replace(plan, refusals=(f"The deployment at the end would be refused: {error}",))
    steps_before = tuple(with_directories(step, plan_input) for step in plan.steps)
    earlier = {(host, one) for step in steps_before for host, ids in step.changes.items() for one in ids}
    wanted = unjudged(make_plan(plan_input, there))
    steps = compared(run, wanted, earlier)
    forecast = forecast_of(run, plan_input, steps)
    if forecast.disruptions:
        lines = "\n".join(line for one in forecast.disruptions for line in format_disruption(one, "deploy"))
        return replace(plan, refusals=(f"The deployment at the end would be refused:\n{lines}",))
    lost = {host: str(error).removeprefix(f"{host}: ") for host, error in run.failed_hosts.items() if host in there}
    told = fold_lines(
        (host, f"was lost while the upgrade was planned: {why.rstrip('.')}") for host, why in lost.items()
    )
    return replace(
        plan,
        steps=(*steps_before, *as_step(steps, wanted, forecast)),
        warnings=(*plan.warnings, *(f"{line}. It keeps its Slurm; upgrade it when it answers." for line in told)),
        silent={**plan.silent, **lost},
    )


def after(fact: HostFacts, versions: HostVersions) -> HostFacts:
    """The facts of a host with its new packages, by versions that are read when no dpkg runs any more."""
    new = upstream(next(iter(versions.offered.values()), "")) or versions.slurm
    there = {**versions.installed, **versions.offered}
    return replace(
        fact,
        slurm_versions=dict.fromkeys(fact.slurm_versions or versions.programs, new),
        packages={name: there.get(name, version) for name, version in fact.packages.items()},
    )


def unjudged(plan: Plan) -> Plan:
    """A plan whose new files the installed Slurm does not judge: it is an older one."""

    def judged_later(planned: Resource) -> Resource:
        if isinstance(planned, SlurmFiles):
            return SlurmFiles(planned.directory, planned.files, planned.node, planned.beside, kept=planned.kept)
        return planned

    phases = tuple(
        replace(one, resources={host: tuple(map(judged_later, some)) for host, some in one.resources.items()})
        for one in plan.phases
    )
    return replace(plan, phases=phases)


def compared(run: Run, plan: Plan, earlier: set[tuple[str, str]]) -> list[Step]:
    """What differs on the hosts, without what earlier steps change."""
    found: list[Step] = []
    run.progress.begin("comparing", plan.hosts)
    for host, answer in on_each(plan.hosts, lambda host: compare_host(run, host, plan.of_host(host))):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
            continue
        run.progress.host_done(host)
        for step in answer:
            left = tuple(one for one in step.outcomes if one.status != OK and (host, one.id) not in earlier)
            found += [replace(step, outcomes=left)] if left else []
    run.require_controller()
    order = {host: number for number, host in enumerate(plan.hosts)}
    return sorted(found, key=lambda step: order[step.host])


def forecast_of(run: Run, plan_input: PlanInput, steps: Sequence[Step]) -> Forecast:
    """What the differences require of Slurm's daemons, and which jobs they would harm."""
    before = run.job_impact
    safety = JobSafety(run)
    safety.assess(plan_input, steps)
    forecast = run.job_impact.forecast
    run.set_job_impact(before)
    return forecast


def as_step(steps: Sequence[Step], plan: Plan, forecast: Forecast) -> tuple[UpgradeStep, ...]:
    """The last step; none where nothing differs."""
    changes: dict[str, tuple[str, ...]] = {}
    for step in steps:
        ids = [one.id for one in step.outcomes]
        # systemd has to read what such a phase writes, which no comparison shows before it is written.
        ids += [one.id for phase, one in plan.of_host(step.host)
                if phase.name == step.phase and isinstance(one, UnitsLoaded) and one.id not in ids]  # fmt: skip
        changes[step.host] = (*changes.get(step.host, ()), *ids)
    if not changes:
        return ()
    why = f"brings these differences to the hosts, as {FAB} deploy would, when all have the new Slurm"
    lines = (*plan_text.slurm_part(forecast), *plan_text.details(steps))
    return (UpgradeStep("files", tuple(changes), {}, {}, why, changes, lines),)


def refuse_more(plan: UpgradePlan, steps: Sequence[Step]) -> None:
    """Refuse, by InputError, differences of a survey that the last step of a plan does not name."""
    known = {(host, one) for step in plan.steps for host, ids in step.changes.items() for one in ids}
    more: dict[str, list[str]] = {}
    for step in steps:
        for outcome in step.outcomes:
            if outcome.status != OK and (step.host, outcome.id) not in known:
                more.setdefault(outcome.id, []).append(step.host)
    if more:
        told = "; ".join(f"{one} on {fold(dict.fromkeys(hosts))}" for one, hosts in more.items())
        raise InputError(
            f"All hosts have the new Slurm. But the deployment at the end would change what the plan did not show: "
            f"{told}. It was not begun. To see it, and to go on: {FAB} upgrade."
        )
