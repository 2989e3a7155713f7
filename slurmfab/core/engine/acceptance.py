"""Acceptance of new nodes: a test job runs on each before Slurm starts users' jobs there."""

from __future__ import annotations

import time
from dataclasses import replace

from slurmfab.base.errors import HostError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock, with_host
from slurmfab.cluster.inventory.own_jobs import partition_of_own_jobs
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import request_apply
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Outcome
from slurmfab.on_hosts.agent.nodes.acceptance import HOSTNAME, NodeAcceptance

TRIAL = "trial"  # name of the phase in reports


def accept_new_nodes(run: Run) -> None:
    """Run a test job on each new node; nodes that pass go into service, the others stay drained and are excluded.

    New nodes that the run is not about, or that are excluded, stay on trial. `run`: the run, after its deployment;
    gains a step for each new node, and the lock is saved. Raises HostError if the controller does not answer.
    """
    trying = run.remaining(on_trial(run.inventory.lock, run.hosts))
    if not trying:
        return
    run.progress.begin(TRIAL, trying)
    begun = time.monotonic()
    cluster = run.inventory.cluster
    partitions = () if cluster.own_partition else tuple(partition_of_own_jobs(cluster, (node,)) for node in trying)
    works = tuple(work(cluster, run.inventory.lock, node) for node in trying)
    wanted = NodeAcceptance(trying, stamp(), partitions=partitions, works=works)
    request_apply(run, run.controller, [wanted], dry_run=False)
    # Each node is compared by itself, so that the outcome of one does not depend on the others.
    questions = [NodeAcceptance((node,), stamp()) for node in trying]
    verdicts = request_apply(run, run.controller, questions, dry_run=True)
    lock = run.inventory.lock
    for node, verdict in zip(trying, verdicts, strict=True):
        outcome = outcome_of(node, verdict)
        step = Step(TRIAL, node, (outcome,), time.monotonic() - begun)
        run.record_steps(step)
        run.progress.host_done(node, step)
        if outcome.status == FAILED:
            run.exclude(node, HostError(node, f"{outcome.id}: {outcome.message}"))
        else:
            lock = with_host(lock, node, replace(lock.hosts[node], on_trial=False))
    run.update_lock(lock)
    run.save_lock()


def work(cluster: Cluster, lock: Lock, node: str) -> tuple[str, ...]:
    """srun's options and the command of a node's test job; with `mig`, it gets an instance of each kind."""
    if not cluster.mig_of(node):
        return (HOSTNAME,)
    kinds = dict.fromkeys(gpu.type for gpu in lock.hosts[node].gpus)
    return (f"--gres={','.join(f'gpu:{kind}:1' for kind in kinds)}", HOSTNAME)


def on_trial(lock: Lock, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts that are new nodes and have not passed their test job."""
    return tuple(host for host in hosts if host in lock.hosts and lock.hosts[host].on_trial)


def outcome_of(node: str, verdict: Outcome) -> Outcome:
    """The outcome of a node's trial, from comparing it with the wanted state after its test job."""
    name = f"{TRIAL}:{node}"
    if verdict.status == "ok":
        return Outcome(name, CHANGED)
    texts = [change.actual for change in verdict.changes if change.name == node]
    found = texts[0] if texts else verdict.message
    advice = f"Repair the node, then run {FAB} deploy to test it again; to remove it: {FAB} remove-node {node}."
    return Outcome(name, FAILED, message=f"left drained, since its test job failed: {found}. {advice}")
