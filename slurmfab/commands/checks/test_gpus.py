"""Checks of GPUs: they match the lock, and a job can open its own GPUs only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.base.paths import IDLE_GPUS_POLICY_UNIT, IDLE_GPUS_UNIT, MIG_UNIT
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.applies import Drifted
from slurmfab.commands.checks.daemons import timer_of
from slurmfab.commands.checks.gpu_probe import GONE, host_script, job_script, parse_gpus, parse_job
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.slurm import Slurm, job_words
from slurmfab.commands.checks.user_jobs import side_by_side
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.impact.drift_kinds import OTHER_HARDWARE, acceptance
from slurmfab.core.impact.hardware_changes import changes
from slurmfab.core.plan import mig
from slurmfab.on_hosts.agent.slurm.mig_instances import layout_text, parse_states

DENIED = "Operation not permitted"
"""The error if control groups deny a device (EPERM); a device file without a driver gives another error."""

CLOSED = {DENIED, GONE}  # errors of files that count as closed to a job; another check reports missing GPUs

LOGS = (
    "Repair: compare cgroup.conf with the control groups that the host has mounted "
    "(see /var/log/slurmd/slurmd.log), then "
)

NUMBERS = {1: "one GPU", 2: "two GPUs"}


@dataclass(frozen=True)
class GpuAccess:
    """Which of a node's GPUs a job can use."""

    visible: tuple[str, ...]  # the GPUs that Slurm assigned to it
    opened: tuple[str, ...]  # names of the GPUs of which it could open all files; MIG instances share files
    count: int
    gone: tuple[str, ...] = ()
    denied: str = ""  # a file whose mode denies access to the slurm user; empty for none


def test_gpus_are_there(gpu_node: CheckedHost, lock: Lock) -> None:
    """the node's GPUs match the lock"""
    files_of(lock, gpu_node.name)
    known = lock.hosts[gpu_node.name].gpus
    found = changes(known, parse_gpus(gpu_node.ask(host_script(known)), known))
    if found:
        raise Drifted(
            OTHER_HARDWARE,
            f"{'; '.join(change.description for change in found)}. Repair: see `nvidia-smi` and `dmesg` there: the "
            "driver is not loaded, or the GPU has fallen off its bus; or, if the change is intended: "
            f"{acceptance(gpu_node.name)}",
        )


def test_gpus_are_divided_as_wanted(divided_node: CheckedHost, lock: Lock, cluster: Cluster) -> None:
    """the node's GPUs have the MIG instances that the cluster file gives them"""
    node = divided_node.name
    there = parse_states(divided_node.ask("nvidia-smi -q"), divided_node.ask("nvidia-smi -L"))
    found = defaultdict(lambda: "gone", {slot: gpu.text for slot, gpu in there.items()})
    wrong = [
        f"the GPU in slot {slot} is {found[slot]}, and should be {layout_text(layout)}"
        for slot, layout in mig.wanted(cluster, node, lock.hosts[node]).items()
        if found[slot] != layout_text(layout)
    ]
    at_boot = divided_node.service(MIG_UNIT)
    unit = "" if at_boot.is_running else f", and {MIG_UNIT}.service, which divides GPUs at boot, is not active"
    assert not wrong, f"{'; '.join(wrong)}{unit}. See: journalctl -u {MIG_UNIT} there. Repair: {FAB} deploy"
    assert (at_boot.is_running, at_boot.is_enabled) == (True, True), (
        f"{MIG_UNIT}.service is not active or not enabled, so the GPUs are whole after the next boot. See: "
        f"journalctl -u {MIG_UNIT} there. Repair: {deploy(node)}"
    )


def test_job_has_the_gpu_that_it_asked_for(gpu_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with one GPU sees one GPU and cannot open others"""
    found = probe_job(slurm, gpu_node.name, lock, "--gres=gpu:1")
    assert_has(1, gpu_node.name, found, is_held(lock, slurm, gpu_node.name))


def test_job_has_the_gpus_that_it_asked_for(gpus_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with two GPUs sees these two and cannot open others"""
    found = probe_job(slurm, gpus_node.name, lock, "--gres=gpu:2")
    assert_has(2, gpus_node.name, found, is_held(lock, slurm, gpus_node.name))


def test_gpus_are_kept_apart(gpus_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """two jobs on one node cannot open each other's GPU"""
    is_kept_apart = is_held(lock, slurm, gpus_node.name)
    script = job_script(files_of(lock, gpus_node.name), opens=True)
    pair = side_by_side(slurm, gpus_node.name, script, ("--gres=gpu:1",))
    first, second = (gpu_access(done, lock, gpus_node.name) for done in pair)
    for found in (first, second):
        assert_has(1, gpus_node.name, found, is_kept_apart)
    shared = sorted({*first.opened} & {*second.opened}) if is_kept_apart else []
    assert not shared, f"two jobs can open {' and '.join(shared)} at once. {LOGS}{deploy(gpus_node.name)}"


def test_job_with_a_share_has_one_gpu(sharing_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with a share of a GPU sees that GPU and cannot open others"""
    found = probe_job(slurm, sharing_node.name, lock, "--gres=shard:1")
    assert_has(1, sharing_node.name, found, is_held(lock, slurm, sharing_node.name))


def test_job_without_gpus_has_none(gpu_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job that asked for no GPU cannot open any"""
    files_of(lock, gpu_node.name)
    slurm.need_limits("ConstrainDevices")
    if not is_held(lock, slurm, gpu_node.name):
        pytest.skip(f"no usable cgroup controllers on {gpu_node.name}.")
    found = probe_job(slurm, gpu_node.name, lock)
    assert not found.visible, (
        f"a job that requested no GPU was given {', '.join(found.visible)}. Repair: {deploy(gpu_node.name)}"
    )
    assert not found.opened, (
        f"a job that requested no GPU can open {' and '.join(found.opened)}. {LOGS}{deploy(gpu_node.name)}"
    )


def assert_has(count: int, node: str, found: GpuAccess, is_kept_apart: bool) -> None:
    """Assert that a job sees the 1 or 2 GPUs that it requested, and opens no others where `is_held`.

    Raises AssertionError; skips if a missing GPU makes the result uncertain.
    """
    number = NUMBERS[count]
    assert len(found.visible) == count, (
        f"a job that requested {number} was given {len(found.visible)}. Repair: {deploy(node)}"
    )
    if not is_kept_apart:
        return
    if found.gone and len(found.opened) < count:
        pytest.skip(f"{' and '.join(found.gone)} of {node} is missing; another check reports it.")
    assert len(found.opened) == count, (
        f"a job that requested {number} can open {' and '.join(found.opened) or 'none'} of the node's {found.count}. "
        f"{LOGS}{deploy(node)}"
    )
    assert not found.denied, (
        f"the file mode of {found.denied} denies access to the slurm user. "
        f"Repair: chmod 0666 {found.denied}, or correct the udev rule"
    )


def probe_job(slurm: Slurm, node: str, lock: Lock, *options: str) -> GpuAccess:
    """Run a job with options of srun, such as `--gres=gpu:1`, on a node, and return its access to GPUs.

    Raises AssertionError if the job failed; skips if the lock has no GPUs of the node, or without room.
    """
    script = job_script(files_of(lock, node), opens=True)
    return gpu_access(slurm.run((node,), script, options=options), lock, node)


def gpu_access(done: CommandResult, lock: Lock, node: str) -> GpuAccess:
    """The access to GPUs in the output of `job_script` with `opens=True`; AssertionError if the job failed."""
    assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see /var/log/slurmd/slurmd.log there"
    found = parse_job(done.stdout)
    opened = {
        gpu.with_files[-1] if gpu.with_files else gpu.file: (gpu.file, *gpu.with_files)
        for gpu in lock.hosts[node].gpus
        if not CLOSED & {found.files.get(file, DENIED) for file in (gpu.file, *gpu.with_files)}
    }
    denied = (file for files in opened.values() for file in files if found.files[file] == "Permission denied")
    return GpuAccess(found.visible, tuple(opened), len(lock.hosts[node].gpus), found.gone, next(denied, ""))


def files_of(lock: Lock, node: str) -> tuple[str, ...]:
    """The device files of a node's GPUs, each once; skips the check if the lock has none."""
    gpus = lock.hosts[node].gpus if node in lock.hosts else ()
    if not gpus:
        pytest.skip(f"the lock has no device files for {node}'s GPUs.")
    return tuple(dict.fromkeys(file for gpu in gpus for file in (gpu.file, *gpu.with_files)))


def is_held(lock: Lock, slurm: Slurm, node: str) -> bool:
    """Whether Slurm denies a job devices that it did not request, by configuration and the node's control groups."""
    cgroup = lock.hosts[node].cgroup
    configuration = slurm.configuration()
    return (
        cgroup is not None
        and cgroup.is_usable
        and "task/cgroup" in configuration.get("taskplugin", "")
        and configuration.get("constraindevices") == "yes"
    )


def test_idle_gpus_are_looked_for(gpu_watcher: CheckedHost) -> None:
    """the service that looks for jobs whose GPUs are idle is active"""
    assert gpu_watcher.service(IDLE_GPUS_UNIT).is_running, (
        f"{IDLE_GPUS_UNIT}.service is not active. See: journalctl -u {IDLE_GPUS_UNIT}. "
        f"Repair: {deploy(gpu_watcher.name)}"
    )


def test_idle_gpus_have_consequences(gpu_policy: CheckedHost) -> None:
    """the timer that acts on idle GPUs is active, and its last run succeeded"""
    active, result = timer_of(gpu_policy, IDLE_GPUS_POLICY_UNIT)
    assert active == "active", f"{IDLE_GPUS_POLICY_UNIT}.timer is {active}. Repair: {deploy(gpu_policy.name)}"
    assert result == "success", f"its last run failed ({result}). See: journalctl -u {IDLE_GPUS_POLICY_UNIT}"
