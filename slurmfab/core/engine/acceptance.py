"""Jobs at the end of a deployment: one on each new node before Slurm starts users' jobs there, and then a user's."""

from __future__ import annotations

import time
from dataclasses import replace

from slurmfab.base.errors import HostError
from slurmfab.base.folding import fold_texts
from slurmfab.base.grouping import grouped
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock, with_host
from slurmfab.cluster.inventory.own_jobs import NOBODY, ordinary_users, partition_of_own_jobs, place_for
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.report import USER_JOBS, Step
from slurmfab.core.engine.requests import request_apply
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Outcome
from slurmfab.on_hosts.agent.nodes import user_jobs
from slurmfab.on_hosts.agent.nodes.acceptance import HOSTNAME, NodeAcceptance

TRIAL = "trial"  # name of the phase in reports
TO_TRY = f"{FAB} check-cluster --only jobs"
MOST_TRIED = 64  # how many nodes have a batch job of a user
MOST_USERS = 16  # how many users of the cluster file the controller is asked for


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


def prove_user_jobs(run: Run) -> None:
    """Run a batch job of an ordinary user on each node that the run may have changed; a step for each that fails.

    What ran before may fail after a change of a directory's owner, and neither daemons nor jobs of the slurm user show
    it. All nodes are tried if the controller was changed. A run without changes starts no job. Where none can run now,
    the user is told what was not tried.
    """
    cluster = run.inventory.cluster
    changed = {step.host for step in run.steps if step.with_status(CHANGED)}
    nodes = run.remaining(
        node for node in cluster.compute_nodes if node in run.hosts and changed & {node, cluster.controller}
    )[:MOST_TRIED]
    everybody = ordinary_users(cluster)
    users = [
        (user, grouped((place.options, node) for node in nodes if (place := place_for(cluster, user, (node,)))))
        for user in dict.fromkeys((*everybody[:MOST_USERS], *everybody[-1:]))
    ]
    if not nodes or not users:
        return
    run.progress.begin(USER_JOBS, nodes)
    begun = time.monotonic()
    request = {"op": "user-jobs", "users": [[user, [*rows.items()]] for user, rows in users]}
    try:
        told = answer_value(run.controller, run.transport.call(run.controller, request), "user_jobs")
    except HostError as error:
        run.progress.line(f"No batch job of a user was run: {error}")
        return
    if told["user"] not in everybody:
        return
    not_run = []
    for node in nodes:
        end = user_jobs.End(*told["ends"].get(node, (user_jobs.RAN,)))
        known, output = output_of(run, node, told["user"], end.path) if end.path else (True, "")
        if end.how == user_jobs.FAILED and known:
            step = Step(
                USER_JOBS,
                node,
                (Outcome(f"user-job:{node}", FAILED, message=f"{end.told(output)}. To try again: {TO_TRY}."),),
                time.monotonic() - begun,
            )
            run.record_steps(step)
            run.progress.host_done(node, step)
            continue
        run.progress.host_done(node)
        # Whoever is nobody may be refused for good.
        is_news = end.how == user_jobs.WAITED or (end.how == user_jobs.REFUSED and told["user"] != NOBODY)
        if is_news:
            not_run.append((node, (end.text,)))
    for group in fold_texts(not_run):
        why = ", ".join(group.texts)
        run.progress.line(f"{group.hostlist}: no batch job of a user was tried there ({why}); later: {TO_TRY}.")


def output_of(run: Run, node: str, user: str, path: str) -> tuple[bool, str]:
    """Whether a node knows a user, and the output of a job there, which is removed; empty where it tells none."""
    request = {"op": "user-jobs", "user": user, "path": path}
    try:
        told = answer_value(node, run.transport.call(node, request), "user_jobs")
    except HostError:
        return True, ""
    return bool(told["user"]), told["output"]
