"""New nodes let in: a job runs on each before Slurm gives it any of its users'."""

from __future__ import annotations

import time
from dataclasses import replace

from slurmfab.agent.node_trial import NodeTrial
from slurmfab.agent.resource import CHANGED, FAILED, Outcome
from slurmfab.asking import request_apply
from slurmfab.errors import HostError
from slurmfab.lock import Lock, with_host
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.signature import stamp

TRIAL = "trial"
"""How reports call it."""


def admit(run: Run) -> None:
    """Try the nodes that are on trial, and take the mark off those that pass; the others are left drained and lost.

    Nodes that the run is not about, or has lost, stay as they are.

    Args:
        run: after a deployment.

    Raises:
        HostError: the controller does not answer.
    """
    trying = run.well(on_trial(run.inventory.lock, run.hosts))
    if not trying:
        return
    run.progress.begin(TRIAL, trying)
    begun = time.monotonic()
    request_apply(run, run.controller, [NodeTrial(trying, stamp())], dry_run=False)
    # Asked again one by one, for one that does not pass is no matter of the others.
    questions = [NodeTrial((node,), stamp()) for node in trying]
    verdicts = request_apply(run, run.controller, questions, dry_run=True)
    lock = run.inventory.lock
    for node, verdict in zip(trying, verdicts, strict=True):
        outcome = judged(node, verdict)
        step = Step(TRIAL, node, (outcome,), time.monotonic() - begun)
        run.steps.append(step)
        run.progress.host_done(node, step)
        if outcome.status == FAILED:
            run.lose(node, HostError(node, f"{outcome.id}: {outcome.message}"))
        else:
            lock = with_host(lock, node, replace(lock.hosts[node], on_trial=False))
    run.inventory = replace(run.inventory, lock=lock)
    run.keep(run.inventory)


def on_trial(lock: Lock, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the hosts that have joined and not been let in yet."""
    return tuple(host for host in hosts if host in lock.hosts and lock.hosts[host].on_trial)


def judged(node: str, verdict: Outcome) -> Outcome:
    """What became of a node, from what was found after its trial."""
    name = f"{TRIAL}:{node}"
    if verdict.status == "ok":
        return Outcome(name, CHANGED)
    words = [change.actual for change in verdict.changes if change.name == node]
    found = words[0] if words else verdict.message
    advice = "Mend that there, then fab deploy tries it again; fab remove-node takes it out."
    return Outcome(name, FAILED, message=f"left drained, since it did not pass: {found}. {advice}")
