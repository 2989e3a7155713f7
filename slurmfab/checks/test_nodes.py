"""Nodes: what Slurm thinks of them, and whether they still have the hardware that it counts on."""

from __future__ import annotations

import re

import pytest

from slurmfab.checks import node_state
from slurmfab.checks.foundation import foundation
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.slurm import Slurm
from slurmfab.checks.wanted import counts, deploy, gpu_count, gpus_of
from slurmfab.cluster import Cluster
from slurmfab.facts import Hardware
from slurmfab.lock import Lock


@foundation
def test_node_takes_jobs(node: CheckedHost, slurm: Slurm) -> None:
    """Slurm has the node idle or at work"""
    complaint = node_state.complaint(node.name, slurm.node(node.name))
    assert not complaint, complaint


def test_hardware_is_the_locks(node: CheckedHost, lock: Lock, slurm: Slurm) -> None:
    """the node has the hardware that it had when it joined"""
    wanted = hardware_in(lock, node.name)
    shown = dict(re.findall(r"(\w+)=(\d+)", node.ask("slurmd -C").splitlines()[0]))
    gone = [
        f"{key} is {shown.get(key, 'unknown')} and was {value}"
        for key, value in vars(wanted).items()
        if key != "RealMemory" and int(shown.get(key, 0)) != value
    ]
    promised = int(slurm.node(node.name).get("RealMemory", "0"))
    actual = int(shown.get("RealMemory", 0))
    gone += [f"it has {actual} MiB of memory, and slurm.conf promises {promised}"] if actual < promised else []
    assert not gone, (
        f"{'; '.join(gone)} (`slurmd -C`). Repair: mend the hardware; if it is meant to be so, remove hardware from "
        f"the node's entry in the lock, then {deploy(node.name)}"
    )


def test_slurm_counts_the_hardware(node: CheckedHost, lock: Lock, cluster: Cluster, slurm: Slurm) -> None:
    """Slurm counts on the hardware that the lock has"""
    wanted = counts(cluster, node.name, hardware_in(lock, node.name))
    if not wanted:
        pytest.skip(f"the cluster file says itself what {node.name} has.")
    record = slurm.node(node.name)
    off = [
        f"{key} is {record.get(key)} instead of {value}"
        for key, value in wanted.items()
        if record.get(key) != str(value)
    ]
    assert not off, f"in slurmctld's eyes {', '.join(off)}. Repair: fab deploy"


def test_slurm_counts_the_gpus(gpu_node: CheckedHost, slurm: Slurm, cluster: Cluster, lock: Lock) -> None:
    """Slurm counts the node's GPUs"""
    wanted = gpus_of(cluster, lock, gpu_node.name)
    counted = gpu_count(slurm.node(gpu_node.name).get("Gres", ""))
    assert counted == wanted, f"Slurm counts {counted} GPUs there instead of {wanted}. Repair: fab deploy"


def hardware_in(lock: Lock, node: str) -> Hardware:
    """What the lock has of a node's hardware; a check of a node that it does not know is left out."""
    hardware = lock.hosts[node].hardware if node in lock.hosts else None
    if hardware is None:
        pytest.skip(f"the lock does not know {node}'s hardware: fab deploy.")
    return hardware
