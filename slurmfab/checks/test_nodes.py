"""Nodes: what Slurm thinks of them, and whether they still have the hardware that it counts on."""

from __future__ import annotations

import re

import pytest

from slurmfab.checks import node_state
from slurmfab.checks.drifted import Drifted
from slurmfab.checks.foundation import foundation
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.slurm import Slurm
from slurmfab.checks.wanted import counts, gpu_count, gpus_of
from slurmfab.cluster import Cluster
from slurmfab.facts import Hardware
from slurmfab.lock import Lock
from slurmfab.plans.kinds_of_drift import OTHER_HARDWARE, acceptance
from slurmfab.plans.other_hardware import differences


@foundation
def test_node_takes_jobs(node: CheckedHost, cluster: Cluster, slurm: Slurm) -> None:
    """Slurm has the node idle or at work"""
    record = slurm.node(node.name)
    complaint = node_state.complaint(node.name, record, acceptance(cluster.roles(node.name), node.name))
    if complaint and node_state.has_less(record):
        raise Drifted(OTHER_HARDWARE, complaint)
    assert not complaint, complaint


def test_hardware_is_the_locks(node: CheckedHost, lock: Lock, cluster: Cluster, slurm: Slurm) -> None:
    """the node has the hardware that it had when it joined"""
    wanted = hardware_in(lock, node.name)
    shown = dict(re.findall(r"(\w+)=(\d+)", node.ask("slurmd -C").splitlines()[0]))
    now = Hardware(**{key: int(shown.get(key, 0)) for key in vars(wanted)})
    promised = int(slurm.node_as_found(node.name).get("RealMemory", "0"))
    has_less = now.RealMemory < promised
    found = differences(lock.hosts[node.name], now, None, cluster.memory_margin)
    gone = [
        f"{change.name} is {change.actual} and was {change.wanted}"
        for change in found
        if change.name != "RealMemory" or not has_less
    ]
    gone += [f"it has {now.RealMemory} MiB of memory, and slurm.conf promises {promised}"] if has_less else []
    if gone:
        raise Drifted(
            OTHER_HARDWARE,
            f"{'; '.join(gone)} (`slurmd -C`). Repair: mend the hardware; or, if it is meant to be so: "
            f"{acceptance(cluster.roles(node.name), node.name)}",
        )


def test_slurm_counts_the_hardware(node: CheckedHost, lock: Lock, cluster: Cluster, slurm: Slurm) -> None:
    """Slurm counts on the hardware that the lock has"""
    wanted = counts(cluster, node.name, hardware_in(lock, node.name))
    if not wanted:
        pytest.skip(f"the cluster file says itself what {node.name} has.")
    record = slurm.node_as_found(node.name)
    off = [
        f"{key} is {record.get(key)} instead of {value}"
        for key, value in wanted.items()
        if record.get(key) != str(value)
    ]
    assert not off, f"in slurmctld's eyes {', '.join(off)}. Repair: fab deploy"


def test_slurm_counts_the_gpus(gpu_node: CheckedHost, slurm: Slurm, cluster: Cluster, lock: Lock) -> None:
    """Slurm counts the node's GPUs"""
    wanted = gpus_of(cluster, lock, gpu_node.name)
    counted = gpu_count(slurm.node_as_found(gpu_node.name).get("Gres", ""))
    assert counted == wanted, f"Slurm counts {counted} GPUs there instead of {wanted}. Repair: fab deploy"


def hardware_in(lock: Lock, node: str) -> Hardware:
    """What the lock has of a node's hardware; a check of a node that it does not know is left out."""
    hardware = lock.hosts[node].hardware if node in lock.hosts else None
    if hardware is None:
        pytest.skip(f"the lock does not know {node}'s hardware: fab deploy.")
    return hardware
