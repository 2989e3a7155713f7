"""Checks of nodes: their state in Slurm, and whether their hardware matches the lock and slurm.conf."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping

import pytest

from slurmfab.base.hostlist import expand
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import Hardware
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.slurm_settings import slurmd_parameters
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.applies import DoesNotApply, Drifted, Seen, foundation
from slurmfab.commands.checks.daemons import age_of, last_errors
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.results import REPAIR
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.wanted import counts, deploy, gpu_count
from slurmfab.core.impact.drift_kinds import OTHER_HARDWARE, acceptance
from slurmfab.core.impact.hardware_changes import ECORES, differences
from slurmfab.core.status.selection import gpus_of
from slurmfab.on_hosts.agent.facts.hardware import EFFICIENCY
from slurmfab.on_hosts.agent.nodes import ended_jobs
from slurmfab.on_hosts.agent.nodes.states import flags

CORES = re.compile("core|CPUs")
"""What is in Slurm's reason where a node has too few processors, such as `Low socket*core*thread count, Low CPUs`."""

REGROUPED = frozenset({"l3cache_as_socket", "numa_node_as_socket"})
"""Words of SlurmdParameters with which slurmd has other sockets."""

UNCOUNTED = f"It has efficiency cores, which slurmd counts only with slurm_conf: {{SlurmdParameters: {ECORES}}}. "

MOST_NAMED = 3  # how many jobs are named that have ended and hold their node

REGISTERS = 30.0  # within so many seconds of slurmctld's start nodes register with it, which it asks all to do


@foundation
def test_node_takes_jobs(node: CheckedHost, slurm: Slurm) -> None:
    """the node is in service in Slurm"""
    record = when_registered(slurm, node.name)
    complaint = node_state.complaint(node.name, record, acceptance(node.name))
    if complaint and node_state.has_less(record):
        if CORES.search(record.get("Reason", "")) and node.file(EFFICIENCY).exists:
            cause = complaint.partition(REPAIR)[0]
            complaint = f"{cause}{UNCOUNTED}{REPAIR}{deploy(node.name)}, which takes slurmd's count"
        raise Drifted(OTHER_HARDWARE, complaint, node_state.sign(record))
    if complaint:
        raise Seen(node_state.sign(record), with_errors(node, complaint))


def when_registered(slurm: Slurm, name: str) -> Mapping[str, str]:
    """Slurm's record of a node, which may be about to register with a slurmctld that has just started."""
    young = age_of(slurm.controller, "slurmctld")
    deadline = time.monotonic() + (0 if young is None else REGISTERS - young)
    while "UNKNOWN" in flags((record := slurm.node(name)).get("State", "")) and time.monotonic() < deadline:
        time.sleep(1)
    return record


def with_errors(node: CheckedHost, complaint: str) -> str:
    """A complaint with the last errors of the node's own slurmd, which Slurm's reason does not tell."""
    errors = last_errors(node, "slurmd")
    cause, mark, repair = complaint.partition(REPAIR)
    told = f" Its slurmd.log says: {' | '.join(errors)}." if errors else ""
    return f"{cause}{told}{mark}{repair}"


def test_ended_jobs_are_gone(node: CheckedHost, slurm: Slurm) -> None:
    """no job holds the node for more than a minute after its end"""
    jobs = [one for one in slurm.ended_as_found if node.name in expand(one.node_list)]
    if not jobs:
        return
    found = ended_jobs.waits((one.number for one in jobs), node.ask(ended_jobs.LOOK))
    # One of them may have ended while its node was asked.
    left = {one.number for one in slurm.ended_jobs()}
    again = ended_jobs.ASKED_AGAIN_SECONDS
    told = [
        (one, wait)
        for one in jobs
        if one.number in left and not ((wait := found[one.number]).is_over and one.seconds < again)
    ]
    named = "; ".join(f"{one.text}, still holds the node: {wait.text}" for one, wait in told[:MOST_NAMED])
    more = f"; and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    assert not told, f"{named}{more}. Repair: {'; '.join(dict.fromkeys(wait.repair for _, wait in told[:MOST_NAMED]))}"


def test_hardware_is_the_locks(node: CheckedHost, lock: Lock, cluster: Cluster, slurm: Slurm) -> None:
    """the node's hardware matches the lock"""
    hardware_in(lock, node.name)
    now = hardware_of(node.ask("slurmd -C"))
    known = lock.hosts[node.name]
    if REGROUPED & {*slurmd_parameters(cluster.slurm_conf)}:  # of which `slurmd -C` knows nothing
        known = dataclasses.replace(known, hardware=known.kernel or known.hardware)
    promised = int(slurm.node_as_found(node.name).get("RealMemory", "0"))
    has_less = now.RealMemory < promised
    found = differences(known, now, None, cluster.memory_margin)
    gone = [
        f"{change.name} is {change.actual} instead of {change.wanted}"
        for change in found
        if change.name != "RealMemory" or not has_less
    ]
    gone += [f"the node has {now.RealMemory} MiB of memory, but slurm.conf says {promised}"] if has_less else []
    if gone:
        raise Drifted(
            OTHER_HARDWARE,
            f"{'; '.join(gone)} (`slurmd -C`). Repair: fix the hardware; or, if the change is intended: "
            f"{acceptance(node.name)}",
        )


def test_slurm_counts_the_hardware(node: CheckedHost, lock: Lock, cluster: Cluster, slurm: Slurm) -> None:
    """slurmctld's record of the node matches the lock"""
    wanted = counts(cluster, node.name, hardware_in(lock, node.name))
    if not wanted:
        raise DoesNotApply(f"the cluster file itself sets the hardware of {node.name}")
    record = slurm.node_as_found(node.name)
    off = [
        f"{key} is {record.get(key)} instead of {value}"
        for key, value in wanted.items()
        if record.get(key) != str(value)
    ]
    assert not off, f"in slurmctld's record of the node, {', '.join(off)}. Repair: {FAB} deploy"


def test_slurm_counts_the_gpus(gpu_node: CheckedHost, slurm: Slurm, cluster: Cluster, lock: Lock) -> None:
    """Slurm has the right number of GPUs for the node"""
    wanted = gpus_of(cluster, lock, gpu_node.name)
    counted = gpu_count(slurm.node_as_found(gpu_node.name).get("Gres", ""))
    assert counted == wanted, f"Slurm has {counted} GPUs for the node instead of {wanted}. Repair: {FAB} deploy"


def hardware_of(shown: str) -> Hardware:
    """A node's hardware in the output of `slurmd -C`; an output without it fails the check and is no other hardware."""
    line = next((line for line in shown.splitlines() if line.startswith("NodeName=")), "")
    counts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
    names = [field.name for field in dataclasses.fields(Hardware)]
    found = {key: counts.get(key, 0) for key in names}
    assert all(found.values()), (
        f"`slurmd -C` does not say what the node has: “{' | '.join(shown.splitlines()[:2])}”. "
        "Repair: run it there, and see what is in its way"
    )
    return Hardware(**found)


def hardware_in(lock: Lock, node: str) -> Hardware:
    """A node's hardware in the lock; skips the check if the lock has none."""
    hardware = lock.hosts[node].hardware if node in lock.hosts else None
    if hardware is None:
        pytest.skip(f"the lock does not have {node}'s hardware: run {FAB} deploy.")
    return hardware
