"""`fab accept-hardware`: compute nodes keep the hardware that they have now, instead of that in the lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from slurmfab.base.errors import HostFailed, JobsInTheWay
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.nodes.drain import compute_nodes
from slurmfab.core.engine import commands, job_waiting, requests, session
from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.node_changes import change
from slurmfab.core.engine.run import JobImpact, Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.impact.disruptive_changes import require_known
from slurmfab.core.impact.hardware_changes import differences
from slurmfab.core.status.snapshot import Job
from slurmfab.on_hosts.agent.core.resource import Change
from slurmfab.on_hosts.agent.nodes.drain import NewNodeDrain

DRAIN_REASON = "its hardware has changed"


def accept_hardware(cluster: str, hosts: str, approvals: Approvals, *, asks: bool, output: Output) -> int:
    """Put the present hardware of nodes into the lock and slurm.conf, and prove each without jobs by a test job.

    Nodes whose jobs would not survive that are left out and named. Raises InputError for hosts that are no compute
    nodes, and, with nothing changed or drained, for what the cluster file or a host rules out.
    """
    require_known(approvals)
    known = loading.load_named(cluster)
    names = compute_nodes(known, hosts)
    run = session.start(known, "", output, RunOptions("accept-hardware", approvals, asks=asks))
    return session.perform(run, output, lambda begun: carry_out(begun, names))


def carry_out(run: Run, names: tuple[str, ...]) -> None:
    """Judge a deployment with the new hardware first; then drain these nodes, and deploy."""
    facts = requests.gather(run, run.remaining(requests.hosts_to_ask(run)), may_prepare=False)
    found = dict(changes(run, facts, names))
    if same := [name for name in names if name in facts and name not in found]:
        run.progress.line(f"{fold(same)}: the hardware is as in the lock.")
    if not found:
        return
    before, now = run.inventory.lock, job_waiting.nodes_and_jobs(run)
    jobs = {name: there for name in found if (there := job_waiting.jobs_on(now, [name]))}
    # A node with jobs gets no test job, and whoever has drained one resumes it.
    free = [name for name in found if name not in jobs and not now.by_name[name].state.is_set_by_person]
    run.update_lock(forgotten(run.inventory, found, free))
    left: Mapping[str, tuple[Job, ...]] = {}
    try:
        judge(run)
    except JobsInTheWay:
        run.set_job_impact(JobImpact())
        left, found = jobs, {name: how for name, how in found.items() if name not in jobs}
        run.update_lock(forgotten(replace(run.inventory, lock=before), found, free))
        if found:
            judge(run)
    if found:
        told = "\n".join(f"{name}: {one.name}: {one.wanted} -> {one.actual}" for name in found for one in found[name])
        run.confirm(told, f"Accept this hardware of {fold([*found])}?")
        if drained := run.remaining(free):
            change(run, "drain", run.controller, NewNodeDrain(drained, DRAIN_REASON, stamp(), takes_over=True))
        commands.deploy_and_accept(run)
    # They are part of the deployment, with the hardware that the lock has.
    for name, there in left.items():
        why = f"its jobs do not survive this, so its hardware is left as it is: {job_waiting.format_jobs(there)}"
        run.exclude(name, HostFailed(name, f"{why}. Try again when they have ended ({FAB} drain {name} --wait)."))


def judge(run: Run) -> None:
    """Raise what a deployment would be refused for; nothing is changed."""
    JobSafety(run).refuse(*deployment.survey(run, may_prepare=False))


def forgotten(known: Inventory, names: Iterable[str], tried: Collection[str]) -> Lock:
    """The lock without the hardware of some nodes, which the next survey fills in, and with those on trial."""
    lock = known.lock
    for name in names:
        old = lock.hosts[name]
        gpus = old.gpus if known.cluster.mig_of(name) else ()  # those are divided, and not found
        lock = locks.with_host(lock, name, replace(old, hardware=None, kernel=None, gpus=gpus, on_trial=name in tried))
    return lock


def changes(run: Run, facts: Mapping[str, HostFacts], names: tuple[str, ...]) -> Iterator[tuple[str, list[Change]]]:
    """Yield each of these nodes that has other hardware than in the lock, and how it differs."""
    cluster = run.inventory.cluster
    for name in names:
        old, fact = run.inventory.lock.hosts.get(name), facts.get(name)
        if old and fact:
            gpus = fact.gpus if cluster.mig_of(name) is None else None  # otherwise they are divided
            if differing := differences(old, fact.hardware, gpus, cluster.memory_margin):
                yield name, differing
