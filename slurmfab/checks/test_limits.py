"""Limits: a job that takes more than it asked for is stopped, and its node goes on; what is the job's own stays so."""

from __future__ import annotations

import re
import secrets

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.node_state import is_ready
from slurmfab.checks.pairs import side_by_side
from slurmfab.checks.slurm import Slurm, job_words
from slurmfab.checks.wanted import deploy
from slurmfab.cluster import Cluster
from slurmfab.lock import Lock

ASKED, EATEN = 200, 400
"""MiB that the greedy job asks for, and takes."""

EAT = f"head -c {EATEN}M /dev/zero | tail | wc -c"
"""tail keeps a last line in memory however long it is; its size comes out if nothing stops it."""

ENDED = re.compile(r"out.of.memory|oom.kill|memory limit", re.IGNORECASE)
"""How Slurm says that it was the memory that ended a job: `Out Of Memory`, `Detected 1 oom_kill event`."""

DAEMONS = "systemctl show --property=Id,MainPID,ActiveState slurmd munge; cat /proc/sys/kernel/random/boot_id"
"""What is another if the node lost more than the job."""

GONE = (
    "n=0; while find {base} -name '{name}.*' 2>/dev/null | grep -q . && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.2; done; "
    "find {base} -name '{name}.*' 2>/dev/null"
)
"""Prints the files that are left of jobs, once they had some seconds to go; that is done after srun has ended."""

CPUS = 'taskset --cpu-list "0-$(($(getconf _NPROCESSORS_CONF) - 1))" nproc'
"""Counts the CPUs that a process gets at most, even if it asks for all of them."""


def test_memory_is_limited(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job that takes more memory than it asked for is ended, and its node goes on"""
    need_cgroups(lock, node.name)
    slurm.need_limits("ConstrainRAMSpace")
    configuration = slurm.configuration()
    if "MEMORY" not in configuration.get("selecttypeparameters", "").upper():
        pytest.skip("SelectTypeParameters does not count memory, so jobs ask for none.")
    before = node.run(DAEMONS).stdout
    done = slurm.run((node.name,), EAT, memory=ASKED)
    if str(EATEN * 1024 * 1024) in done.stdout.split():
        raise AssertionError(
            f"a job that asked for {ASKED} MiB got {EATEN} MiB. Repair: {why_not_held(node, configuration)}"
        )
    assert ENDED.search(done.stderr), (
        f"a job that took {EATEN} MiB and had asked for {ASKED} ended, but not for its memory: {job_words(done)}. "
        "Repair: see /var/log/slurm/slurmd.log there"
    )
    assert is_ready(slurm.node(node.name)), f"the node went out of service with the job. Repair: {deploy(node.name)}"
    assert node.run(DAEMONS).stdout == before, (
        f"slurmd or munged ended with a job that took too much memory. Repair: see `journalctl -k` there, then "
        f"{deploy(node.name)}"
    )


def why_not_held(node: CheckedHost, configuration: dict[str, str]) -> str:
    """What to try where a job got more memory than it asked for: it may have grown into the swap space."""
    swap = node.run("tail --lines=+2 /proc/swaps").stdout.strip()
    if swap and configuration.get("constrainswapspace", "no") != "yes":
        return (
            f"the rest went into the swap space ({swap.split()[0]}): boot with swapaccount=1, so that slurmfab sets "
            "ConstrainSwapSpace, or switch it off (swapoff -a)"
        )
    return f"compare cgroup.conf with what the host has mounted (/var/log/slurm/slurmd.log), then {deploy(node.name)}"


def test_cores_are_limited(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with one CPU gets no other, though it asks the kernel for all"""
    need_cgroups(lock, node.name)
    slurm.need_limits("ConstrainCores")
    record = slurm.node_as_found(node.name)
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


def test_tmp_is_the_jobs_own(private_node: CheckedHost, slurm: Slurm, cluster: Cluster) -> None:
    """two jobs at once have each a /tmp of its own, which is gone after them"""
    private = cluster.private_tmp
    assert private is not None, "there are private nodes only where the cluster file wants them"
    name = f"slurmfab-check-{secrets.token_hex(4)}"
    places = " ".join(private.directories)
    write = f"for place in {places}; do echo mine > $place/{name}.$SLURM_JOB_ID; done; "
    look = f"for place in {places}; do ls -d $place/{name}.*; done"
    try:
        pair = side_by_side(slurm, private_node.name, f"{write}{look}")
        for done in pair:
            assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see /var/log/slurm/slurmd.log there"
        mixed = sorted({file for done in pair for file in strangers(done)})
        left = private_node.run(f"ls -d $(for place in {places}; do echo $place/{name}.*; done) 2>/dev/null").stdout
        kept = private_node.run(GONE.format(base=private.base, name=name)).stdout
    finally:
        private_node.run(f"for place in {places}; do rm -f $place/{name}.*; done")
    repair = f"Repair: see /var/log/slurm/slurmd.log there, then {deploy(private_node.name)}"
    assert not mixed, f"a job sees files of another one in {', '.join(mixed)}. {repair}"
    assert not left, f"what jobs wrote is on the node, for everybody to see: {', '.join(left.split())}. {repair}"
    assert not kept, f"what jobs wrote is still there after them: {', '.join(kept.split())}. {repair}"


def strangers(done: CommandResult) -> list[str]:
    """The directories in which a job saw more than its one file, or none."""
    files: list[str] = done.stdout.split()
    seen = [file.rpartition("/")[0] for file in files]
    return [place for place in dict.fromkeys(seen) if seen.count(place) != 1]


def need_cgroups(lock: Lock, node: str) -> None:
    """Leave a check out on a node that has nothing to hold jobs with."""
    cgroup = lock.hosts[node].cgroup if node in lock.hosts else None
    if cgroup is None or not cgroup.is_usable:
        pytest.skip(f"no usable cgroup controllers on {node}.")
