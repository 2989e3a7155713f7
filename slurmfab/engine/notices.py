"""Notices about hosts that need no change, or that a deployment does not change; printed once in a run."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.agent.core.resource import CHANGED, OK, Outcome
from slurmfab.agent.nodes.registered import LEFT_DRAINED
from slurmfab.engine.report import Step
from slurmfab.engine.run import Run
from slurmfab.folding import fold_lines
from slurmfab.impact import gpu_changes
from slurmfab.impact.hardware_changes import GPUS
from slurmfab.plan import address_remarks
from slurmfab.plan.phases import slurm_source
from slurmfab.plan.plan_input import PlanInput
from slurmfab.plan.preflight import gres
from slurmfab.plan.preflight.cgroups import cgroup_notices
from slurmfab.plan.slurm_series import of_others
from slurmfab.program_name import FAB
from slurmfab.slurm import mixed

PRUNABLE = ("person-gone",)
"""Kinds of resources that --prune removes, and whose remarks are printed also after a change."""

KEEPING = ("export-files", "in-effect")
"""Kinds of resources with remarks about what stays: for other hosts, or until the next boot."""


def tell(run: Run, plan_input: PlanInput, steps: Iterable[Step]) -> None:
    """Print all notices that a survey gives rise to.

    Args:
        run: the run, whose progress prints them.
        plan_input: what the survey was planned from.
        steps: the outcomes of the survey.
    """
    tell_of_resources(run, steps)
    if others := of_others(plan_input):
        ours = plan_input.controller_facts.slurm_version
        run.progress.line(mixed.notice(others, plan_input.cluster.controller, ours))
    for line in cgroup_notices(plan_input.cluster, plan_input.lock, plan_input.facts, plan_input.slurm_version):
        run.progress.line(line)
    tell_folded(run, gres.remarks(plan_input, run.hosts))
    tell_folded(run, slurm_source.unwanted_versions(plan_input))
    tell_folded(run, address_remarks.missing(plan_input, run.hosts))


def tell_of_resources(run: Run, steps: Iterable[Step]) -> None:
    """Print the messages of resources that are as wanted; `JobSafety` reports nodes that are still drained."""
    messages: list[tuple[str, str]] = []
    is_prunable = False
    for step in steps:
        for outcome in step.with_status(OK):
            if outcome.message and outcome.message != LEFT_DRAINED:
                messages.append((step.host, outcome.message))
                is_prunable |= outcome.id.partition(":")[0] in PRUNABLE
    tell_folded(run, messages)
    if is_prunable and not run.options.approvals.prune:
        run.progress.line(f"{FAB} deploy --prune removes such users; their files stay.")


def tell_after_change(run: Run, steps: Iterable[Step]) -> None:
    """Print the remarks that came of a change: what was left as it was, and what stays of users who were removed.

    Args:
        run: the run, whose progress prints them.
        steps: the outcomes of a phase that was carried out.
    """
    tell_folded(
        run,
        [
            (step.host, outcome.message)
            for step in steps
            for outcome in step.outcomes
            if outcome.message and (is_left(outcome) or is_removal(outcome) or keeps_something(outcome))
        ],
    )


def is_left(outcome: Outcome) -> bool:
    """Whether a resource differs and was left as it was."""
    return outcome.status == OK and bool(outcome.changes)


def is_removal(outcome: Outcome) -> bool:
    """Whether a user was removed."""
    return outcome.status == CHANGED and outcome.id.partition(":")[0] in PRUNABLE


def keeps_something(outcome: Outcome) -> bool:
    """Whether something stays that only the change showed: for hosts that have no part in the run, or until a boot."""
    return outcome.status in (OK, CHANGED) and outcome.id.partition(":")[0] in KEEPING


def print_other_hardware(run: Run, plan_input: PlanInput, steps: Iterable[Step]) -> None:
    """Print which nodes have other hardware than the lock, which no deployment changes.

    Args:
        run: the run.
        plan_input: the plan's input.
        steps: a step for each of these nodes; see `drift.other_hardware`.
    """
    lines = []
    for step in steps:
        gpus = gpu_changes.changes(plan_input.host(step.host).gpus, plan_input.facts[step.host].gpus)
        descriptions = [change.description for change in gpus]
        for outcome in step.outcomes:
            descriptions += [
                f"{one.name} is {one.actual} instead of {one.wanted}" for one in outcome.changes if one.name != GPUS
            ]
            lines.append((step.host, f"other hardware: {'; '.join(descriptions)}; {outcome.message}"))
    for line in fold_lines(lines):
        run.progress.line(line)


def tell_folded(run: Run, notices: Iterable[tuple[str, str]]) -> None:
    """Print notices, pairs of a host and a text without its full stop, folded over the hosts with the same text."""
    for line in fold_lines(notices):
        run.progress.line(f"{line}.")
