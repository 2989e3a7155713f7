"""What hosts say of things that are as wanted, and that somebody should know all the same: told once a run."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.agent.resource import OK
from slurmfab.agent.slurm_nodes import LEFT_DRAINED
from slurmfab.fitness import gres
from slurmfab.hostlist import fold
from slurmfab.plans import drift, gpu_changes
from slurmfab.plans.other_hardware import GPUS
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.slurm import cgroups

NOT_FORGOTTEN = ("person-gone",)
"""Kinds of resources that --prune would see to."""


def tell(run: Run, situation: Situation, steps: Iterable[Step]) -> None:
    """Say all remarks.

    Args:
        run: whom to tell.
        situation: what the survey was planned on.
        steps: its outcomes.
    """
    tell_of_resources(run, steps)
    for line in cgroups.remarks(situation.cluster, situation.lock, situation.facts, situation.slurm_version):
        run.progress.line(line)
    tell_folded(run, gres.remarks(situation, run.hosts))


def tell_of_resources(run: Run, steps: Iterable[Step]) -> None:
    """Say what hosts remark on resources; on drained nodes the promise to jobs has its say."""
    found: list[tuple[str, str]] = []
    is_prunable = False
    for step in steps:
        for outcome in step.with_status(OK):
            if outcome.message and outcome.message != LEFT_DRAINED:
                found.append((step.host, outcome.message))
                is_prunable |= outcome.id.partition(":")[0] in NOT_FORGOTTEN
    tell_folded(run, found)
    if is_prunable and not run.consent.prune:
        run.progress.line("fab deploy --prune removes such users; their files stay.")


def tell_of_other_hardware(run: Run, situation: Situation) -> None:
    """Say, and note, which nodes have not the hardware that the lock holds, which a deployment leaves alone."""
    steps = drift.other_hardware(situation, run.hosts)
    run.other_hardware = tuple(step.host for step in steps)
    for step in steps:
        gpus = gpu_changes.changes(situation.host(step.host).gpus, situation.facts[step.host].gpus)
        words = [change.words for change in gpus]
        for outcome in step.outcomes:
            words += [
                f"{one.name} is {one.actual} instead of {one.wanted}" for one in outcome.changes if one.name != GPUS
            ]
            run.progress.line(f"{step.host}: other hardware: {'; '.join(words)}; {outcome.message}")


def tell_folded(run: Run, remarks: Iterable[tuple[str, str]]) -> None:
    """Say these remarks of hosts, folded over the hosts that make the same."""
    found: dict[str, list[str]] = {}
    for host, words in remarks:
        found.setdefault(words, []).append(host)
    for words, hosts in found.items():
        run.progress.line(f"{fold(dict.fromkeys(hosts))}: {words}.")
