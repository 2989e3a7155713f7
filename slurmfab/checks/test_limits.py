"""Limits: a job that takes more than it asked for is stopped, and its node goes on."""

from __future__ import annotations

import pytest

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.node_state import is_ready
from slurmfab.checks.slurm import Slurm, job_words
from slurmfab.checks.wanted import deploy
from slurmfab.lock import Lock

ASKED, EATEN = 200, 400
"""MiB that the greedy job asks for, and takes."""

EAT = f"head -c {EATEN}M /dev/zero | tail | wc -c"
"""tail keeps a last line in memory however long it is; its size comes out if nothing stops it."""

CPUS = 'taskset --cpu-list "0-$(($(getconf _NPROCESSORS_CONF) - 1))" nproc'
"""Counts the CPUs that a process gets at most, even if it asks for all of them."""


def test_memory_is_limited(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job that takes more memory than it asked for is ended"""
    need_cgroups(lock, node.name)
    slurm.need_limits("ConstrainRAMSpace")
    if "MEMORY" not in slurm.configuration().get("selecttypeparameters", "").upper():
        pytest.skip("SelectTypeParameters does not count memory, so jobs ask for none.")
    done = slurm.run((node.name,), EAT, memory=ASKED)
    assert str(EATEN * 1024 * 1024) not in done.stdout.split(), (
        f"a job that asked for {ASKED} MiB got {EATEN} MiB. Repair: compare cgroup.conf with what the host has mounted "
        f"(/var/log/slurm/slurmd.log), then {deploy(node.name)}"
    )
    assert is_ready(slurm.node(node.name)), f"the node went out of service with the job. Repair: {deploy(node.name)}"


def test_cores_are_limited(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with one CPU cannot use others"""
    need_cgroups(lock, node.name)
    slurm.need_limits("ConstrainCores")
    record = slurm.node(node.name)
    threads, cpus = int(record["ThreadsPerCore"]), int(record["CPUTot"])
    if cpus <= threads:
        pytest.skip(f"{node.name} has one core only.")
    done = slurm.run((node.name,), CPUS)
    assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see /var/log/slurm/slurmd.log there"
    got = int(done.stdout)
    assert got <= threads, (
        f"a job that asked for one CPU can use {got} of {cpus}. "
        "Repair: compare cgroup.conf with what the host has mounted (/var/log/slurm/slurmd.log), then "
        f"{deploy(node.name)}"
    )


def need_cgroups(lock: Lock, node: str) -> None:
    """Leave a check out on a node that has nothing to hold jobs with."""
    cgroup = lock.hosts[node].cgroup if node in lock.hosts else None
    if cgroup is None or not cgroup.is_usable:
        pytest.skip(f"no usable cgroup controllers on {node}.")
