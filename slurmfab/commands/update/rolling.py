"""The hosts of a cluster brought up to date, a few at a time, until one of them fails.

Compute nodes are drained, emptied, updated, rebooted where that is wanted and needed, proved by a job, and given back.
A node that somebody else had taken out of service is updated and stays as it was. An interrupted run leaves nodes that
it drained with a reason of their own, by which the next one goes on with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slurmfab.base.errors import HostError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm import platform
from slurmfab.commands.nodes import node_proof
from slurmfab.commands.nodes.batches import batches
from slurmfab.commands.nodes.drain import format_reason
from slurmfab.commands.nodes.reboot import boot_id
from slurmfab.commands.update.host_updates import HostUpdates, ask_updates, groups, may_reboot, slurms_own
from slurmfab.commands.update.plan import UpdatePlan
from slurmfab.core.engine import job_waiting
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.node_changes import change, work_on_each
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import request_apply
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.package_managers import kinds
from slurmfab.core.status.snapshot import Snapshot
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Outcome
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain
from slurmfab.on_hosts.agent.nodes.states import FOR_UPDATE, NodeState
from slurmfab.on_hosts.agent.services.units import MachineReboot
from slurmfab.on_hosts.agent.slurm.renewed_daemons import RenewedDaemons

POLL_SECONDS = 1.0
PROOF = "proof"  # name of the phase in reports


@dataclass(frozen=True)
class Rolling:
    """How hosts are updated."""

    at_once: int = 1
    wait_minutes: int = 0  # how long the nodes of a batch may keep their jobs; 0 for no limit
    reboot_minutes: int = 20  # how long a reboot may take
    only_security: bool = False  # whether only security fixes are installed
    reboots: bool = False  # whether compute nodes that need a reboot get one


def left_drained(seen: Snapshot, on_trial: Iterable[str]) -> tuple[str, ...]:
    """The nodes that an earlier update left drained, without new ones that are still on trial."""
    new = set(on_trial)
    return tuple(node.name for node in seen.nodes if node.name not in new and is_ours(node.state))


def is_ours(state: NodeState) -> bool:
    """Whether a node is out of service for an update alone."""
    return state.is_for_update or state.has_failed_acceptance


def roll(run: Run, plan: UpdatePlan, rolling: Rolling, pause: Callable[[float], None] = time.sleep) -> None:
    """Update the hosts of a plan: compute nodes first, then login hosts, then controllers and the database.

    Raises SlurmfabError if a host fails, another run is at work, or the controller does not answer.
    """
    before = set(run.failed_hosts)
    done: list[str] = []
    needing: dict[str, tuple[str, ...]] = {}
    for group in groups(run.inventory.cluster, run.remaining(plan.due)):
        size = rolling.at_once if group.name != "controllers and database" else 1
        for batch in batches(group.hosts, size):
            needing.update(update_batch(run, batch, plan, rolling, pause))
            done += batch
            failed = [host for host in run.failed_hosts if host not in before]
            if failed:
                print_reboots(run, needing)
                raise SlurmfabError(stopped(failed, run.remaining(host for host in plan.due if host not in done)))
    print_reboots(run, needing)


def stopped(failed: Iterable[str], left: tuple[str, ...]) -> str:
    """Why an update ends early, and how it goes on."""
    rest = f" Not begun: {fold(left)}." if left else ""
    return f"Stopped at {fold(failed)}.{rest} When that is repaired, the same command goes on."


def print_reboots(run: Run, needing: Mapping[str, tuple[str, ...]]) -> None:
    """Tell which hosts still need a reboot, and how they get one."""
    nodes = [host for host in needing if may_reboot(run.inventory.cluster, host)]
    others = [host for host in needing if host not in nodes]
    if nodes:
        run.progress.line(f"{fold(nodes)}: still to be rebooted: {FAB} update --reboot.")
    if others:
        run.progress.line(f"{fold(others)}: still to be rebooted, by hand when it suits the people there.")


def update_batch(
    run: Run, batch: tuple[str, ...], plan: UpdatePlan, rolling: Rolling, pause: Callable[[float], None]
) -> dict[str, tuple[str, ...]]:
    """Update hosts, excluding failed ones, still drained; those that need a reboot, with the reasons."""
    nodes = tuple(host for host in batch if host in run.inventory.cluster.compute_nodes)
    ours = drain_and_wait(run, nodes, rolling, pause) if nodes else ()
    work_on_each(run, run.remaining(batch), lambda host: update_host(run, host, plan.hosts[host], rolling))
    needing = reboot_needs(run, run.remaining(batch), rolling)
    if rolling.reboots:
        rebooting = tuple(host for host in needing if may_reboot(run.inventory.cluster, host))
        reboot_hosts(run, rebooting, rolling.reboot_minutes, pause)
        needing = {host: why for host, why in needing.items() if host not in rebooting}
    restarting = run.remaining(batch)
    work_on_each(run, restarting, lambda host: change(run, "restart", host, RenewedDaemons(host == run.controller)))
    prove(run, run.remaining(ours))
    return needing


def drain_and_wait(
    run: Run, nodes: tuple[str, ...], rolling: Rolling, pause: Callable[[float], None]
) -> tuple[str, ...]:
    """Drain nodes, and wait until no job is left, or exclude them; those drained for this update alone.

    Raises HostError if the controller does not answer; DeployFailed if Slurm does not drain them.
    """
    seen = job_waiting.nodes_and_jobs(run)
    known = tuple(node for node in nodes if node in seen.by_name)
    if not known:
        return ()
    for node in known:
        state = seen.by_name[node].state
        if not state.is_in_service and not is_ours(state):
            run.progress.line(f"{node}: {state.description}{format_reason(state)}. It is updated, and stays so.")
    change(run, "drain", run.controller, NodeDrain(known, FOR_UPDATE, stamp(), for_change=True))
    jobs = job_waiting.jobs_on(seen, known)
    if jobs:
        run.progress.line(f"Waiting for {job_waiting.format_jobs(jobs)} on {fold(known)}.")
    job_waiting.wait_until_empty(run, known, rolling.wait_minutes * 60.0, pause)
    now = job_waiting.nodes_and_jobs(run)
    new = {host for host, one in run.inventory.lock.hosts.items() if one.on_trial}
    return tuple(node for node in run.remaining(known) if is_ours(now.by_name[node].state) and node not in new)


def update_host(run: Run, host: str, updates: HostUpdates, rolling: Rolling) -> None:
    """Update a host's packages, uncompleted ones first, as there may be no others then; DeployFailed, HostError."""
    kind = kinds(platform.wanted(run.inventory.cluster, host)).updates
    if updates.unfinished:
        change(run, "update", host, kind((), slurms_own()))
        updates = ask_updates(run, host, only_security=rolling.only_security, fetches=False)
    if updates.packages:
        change(run, "update", host, kind(updates.versions, slurms_own()))


def reboot_needs(run: Run, hosts: tuple[str, ...], rolling: Rolling) -> dict[str, tuple[str, ...]]:
    """The hosts that need a reboot now, with the reasons; those that do not answer are excluded from the run."""
    found = {}
    for host, answer in on_each(
        hosts, lambda host: ask_updates(run, host, only_security=rolling.only_security, fetches=False)
    ):
        if not isinstance(answer, HostUpdates):
            run.exclude(host, answer)
        elif answer.reboot_reasons:
            found[host] = answer.reboot_reasons
    return found


def reboot_hosts(run: Run, hosts: tuple[str, ...], minutes: int, pause: Callable[[float], None]) -> None:
    """Reboot machines, and wait until each answers again; one that does not within `minutes` is excluded.

    Their nodes are drained, and stay so until a job has proved them: a reboot through Slurm would give them back.
    """
    if not hosts:
        return
    begun = time.monotonic()
    boots = {host: boot for host, boot in on_each(hosts, lambda host: boot_id(run, host)) if isinstance(boot, str)}
    for host in hosts:
        if host not in boots:
            run.exclude(host, HostError(host, "it does not answer, so its return from a reboot could not be seen."))
    work_on_each(run, tuple(boots), lambda host: change(run, "reboot", host, MachineReboot()))
    waiting = run.remaining(boots)
    run.progress.begin("rebooting", waiting)
    while waiting:
        pause(POLL_SECONDS)
        answers = dict(on_each(waiting, lambda host: boot_id(run, host)))
        back = [host for host, boot in answers.items() if isinstance(boot, str) and boot != boots[host]]
        for host in back:
            run.progress.host_done(host)
        waiting = tuple(host for host in waiting if host not in back)
        if waiting and time.monotonic() - begun > minutes * 60:
            for host in waiting:
                reason = f"it is not back {minutes} min after its reboot began. Look at its console. It stays drained."
                run.exclude(host, HostError(host, reason))
            return


def prove(run: Run, nodes: tuple[str, ...]) -> None:
    """Run a job on each node that this update drained, and give those back where it ran; HostError."""
    if not nodes:
        return
    run.progress.begin(PROOF, nodes)
    begun = time.monotonic()
    wanted = node_proof.give_back(run.inventory.cluster, run.inventory.lock, nodes)
    (outcome,) = request_apply(run, run.controller, [wanted], dry_run=False)
    seen = job_waiting.nodes_and_jobs(run)
    for node in nodes:
        state = seen.by_name[node].state
        is_back = state.is_in_service
        why = "" if is_back else f"it is {state.description}{format_reason(state)}"
        verdict = Outcome(f"{PROOF}:{node}", CHANGED if is_back else FAILED, message=why)
        step = Step(PROOF, node, (verdict,), time.monotonic() - begun)
        run.record_steps(step)
        run.progress.host_done(node, step)
        if not is_back:
            text = f"left drained, since its job failed after the update: {why or outcome.message}. Repair it, then run"
            run.exclude(node, HostError(node, f"{text} the same command again."))
