"""What hosts say of things that are as wanted, and that somebody should know all the same: told once a run."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab import gres_fitness
from slurmfab.agent.resource import OK
from slurmfab.agent.slurm_nodes import LEFT_DRAINED
from slurmfab.hostlist import fold
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.slurm import cgroups

NOT_FORGOTTEN = ("person-gone",)
"""Kinds of resources that --prune would see to."""


def tell(run: Run, steps: Iterable[Step]) -> None:
    """Say all remarks, folded over the hosts that make the same; on drained nodes the promise to jobs has its say.

    Args:
        run: whom to tell.
        steps: the outcomes of a survey.
    """
    found: dict[str, list[str]] = {}
    is_prunable = False
    for step in steps:
        for outcome in step.with_status(OK):
            if outcome.message and outcome.message != LEFT_DRAINED:
                found.setdefault(outcome.message, []).append(step.host)
                is_prunable |= outcome.id.partition(":")[0] in NOT_FORGOTTEN
    for words, hosts in found.items():
        run.progress.line(f"{fold(dict.fromkeys(hosts))}: {words}.")
    if is_prunable and not run.consent.prune:
        run.progress.line("fab deploy --prune removes such users; their files stay.")


def tell_cgroups(run: Run, situation: Situation) -> None:
    """Say which compute nodes have control groups that keep Slurm from holding jobs to their limits."""
    for line in cgroups.remarks(situation.cluster, situation.lock, situation.facts, situation.slurm_version):
        run.progress.line(line)


def tell_gpus(run: Run, situation: Situation) -> None:
    """Say what is odd about the GPUs of the hosts that the run is about."""
    found: dict[str, list[str]] = {}
    for host, words in gres_fitness.remarks(situation, run.hosts):
        found.setdefault(words, []).append(host)
    for words, hosts in found.items():
        run.progress.line(f"{fold(hosts)}: {words}.")
