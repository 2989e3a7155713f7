"""Checks of limits: jobs cannot exceed their memory and CPUs, and have a private /tmp if the cluster file says so."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.node_state import is_ready
from slurmfab.commands.checks.slurm import Slurm, job_words
from slurmfab.commands.checks.user_jobs import side_by_side
from slurmfab.commands.checks.wanted import deploy
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.client.commands import update_nodes

ASKED, EATEN = 200, 400  # MiB of memory that the test job requests, and that it tries to use

EAT = f"dd if=/dev/zero bs={EATEN}M count=1 status=none | wc -c"
"""Uses memory, because dd reads the whole block before it writes; prints the size if nothing stops it."""

EAT_THERE = f'got=$({EAT}); echo "job on $SLURMD_NODENAME: $got"'
"""The same for a job on several nodes."""

ENDED = re.compile(r"out.of.memory|oom.kill|memory limit", re.IGNORECASE)
"""Slurm's messages about a job that exceeded its memory, such as `Out Of Memory` or `Detected 1 oom_kill event`."""

DAEMONS = "systemctl show --property=Id,MainPID,ActiveState slurmd munge; cat /proc/sys/kernel/random/boot_id"
"""Prints PIDs of the daemons and the boot ID, which change if a daemon or the node restarts."""

GONE = (
    "n=0; while find {base} -name '{name}.*' 2>/dev/null | grep -q . && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.2; done; "
    "find {base} -name '{name}.*' 2>/dev/null"
)
"""Prints the remaining files of jobs, after up to 10 s: Slurm removes them only after srun has ended."""

COMPARE = "compare cgroup.conf with the control groups that the host has mounted (see /var/log/slurmd/slurmd.log)"


def test_memory_is_limited(node: CheckedHost, slurm: Slurm, lock: Lock, others: Mapping[str, CheckedHost]) -> None:
    """a job over its memory limit is killed, and its node keeps working"""
    slurm.need_limits("ConstrainRAMSpace")
    need_cgroups(lock, node.name)
    configuration = slurm.configuration()
    if "MEMORY" not in configuration.get("selecttypeparameters", "").upper():
        raise DoesNotApply("SelectTypeParameters does not track memory, so jobs have no memory limit")
    before = node.as_found.run(DAEMONS).stdout
    done = slurm.together(
        EAT_THERE,
        memory=ASKED,
        may_run=lambda name: name in others and has_cgroups(lock, name),
        before=lambda names: dict(on_each(names, lambda name: others[name].as_found.run(DAEMONS))),
    )
    if done is None or not was_killed(node.name, done):
        require_killed(node, slurm.run((node.name,), EAT, memory=ASKED), configuration)
    assert is_ready(slurm.node(node.name)), (
        "the node went out of service because of the job. Repair: see /var/log/slurmd/slurmd.log there, then "
        f"{' '.join(update_nodes([node.name], 'State=RESUME'))}"
    )
    assert node.run(DAEMONS).stdout == before, (
        f"slurmd or munged was restarted when a job used too much memory. Repair: see `journalctl -k` there, then "
        f"{deploy(node.name)}"
    )


def was_killed(node: str, done: CommandResult) -> bool:
    """Whether a job on several nodes had no more memory than it requested on one of them."""
    name = re.escape(node)
    has_ended = re.search(rf"^job on {name}: 0$", done.stdout, re.MULTILINE)
    return bool(has_ended and re.search(rf"^slurmstepd-{name}: error: Detected \d+ oom", done.stderr, re.MULTILINE))


def require_killed(node: CheckedHost, done: CommandResult, configuration: dict[str, str]) -> None:
    """Fail unless a job on a node was ended for the memory that it used."""
    if str(EATEN * 1024 * 1024) in done.stdout.split():
        raise AssertionError(
            f"a job that requested {ASKED} MiB of memory could use {EATEN} MiB. "
            f"Repair: {why_not_held(node, configuration)}"
        )
    assert ENDED.search(done.stderr), (
        f"a job that requested {ASKED} MiB of memory and used {EATEN} MiB failed, but for another reason: "
        f"{job_words(done)}. "
        "Repair: see /var/log/slurmd/slurmd.log there"
    )


def why_not_held(node: CheckedHost, configuration: dict[str, str]) -> str:
    """The repair if a job could use more memory than it requested, which can be swap space."""
    swap = node.run("tail --lines=+2 /proc/swaps").stdout.strip()
    if swap and configuration.get("constrainswapspace", "no") != "yes":
        return (
            f"the rest went into the swap space ({swap.split()[0]}): boot with swapaccount=1, so that slurmfab sets "
            "ConstrainSwapSpace, or disable it (swapoff -a)"
        )
    return f"{COMPARE}, then {deploy(node.name)}"


def test_cores_are_limited(node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with one CPU cannot use other CPUs"""
    slurm.need_limits("ConstrainCores")
    need_cgroups(lock, node.name)
    record = slurm.node_as_found(node.name)
    threads, cpus = int(record["ThreadsPerCore"]), int(record["CPUTot"])
    if cpus <= threads:
        raise DoesNotApply(f"{node.name} has only one core")
    got = slurm.told_by(node.name).cpus
    assert got <= threads, (
        f"a job that requested one CPU can use {got} of {cpus}. Repair: {COMPARE}, then {deploy(node.name)}"
    )


def test_tmp_is_the_jobs_own(private_node: CheckedHost, slurm: Slurm, cluster: Cluster) -> None:
    """two jobs have separate /tmp directories, removed at their end"""
    private = cluster.private_tmp
    assert private is not None, "there are private nodes only where the cluster file wants them"
    name = f"slurmfab-check-{secrets.token_hex(4)}"
    places = " ".join(private.directories)
    write = f"for place in {places}; do echo mine > $place/{name}.$SLURM_JOB_ID; done; "
    look = f"for place in {places}; do ls -d $place/{name}.*; done"
    try:
        pair = side_by_side(slurm, private_node.name, f"{write}{look}")
        for done in pair:
            assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see /var/log/slurmd/slurmd.log there"
        mixed = sorted({file for done in pair for file in strangers(done)})
        left = private_node.run(f"ls -d $(for place in {places}; do echo $place/{name}.*; done) 2>/dev/null").stdout
        kept = private_node.run(GONE.format(base=private.base, name=name)).stdout
    finally:
        private_node.run(f"for place in {places}; do rm -f $place/{name}.*; done")
    repair = f"Repair: see /var/log/slurmd/slurmd.log there, then {deploy(private_node.name)}"
    assert not mixed, f"a job sees files of another job in {', '.join(mixed)}. {repair}"
    assert not left, f"files that jobs wrote to /tmp are visible on the node: {', '.join(left.split())}. {repair}"
    assert not kept, f"files of finished jobs were not removed: {', '.join(kept.split())}. {repair}"


def strangers(done: CommandResult) -> list[str]:
    """The directories in which a job saw more files than its own, or not even that."""
    files: list[str] = done.stdout.split()
    seen = [file.rpartition("/")[0] for file in files]
    return [place for place in dict.fromkeys(seen) if seen.count(place) != 1]


def need_cgroups(lock: Lock, node: str) -> None:
    """Skip the check if a node has no control groups that Slurm can use."""
    if not has_cgroups(lock, node):
        pytest.skip(f"no usable cgroup controllers on {node}.")


def has_cgroups(lock: Lock, node: str) -> bool:
    """Whether a node has control groups that Slurm can use."""
    cgroup = lock.hosts[node].cgroup if node in lock.hosts else None
    return cgroup is not None and cgroup.is_usable
