"""GPUs: they are there, and a job has its own and no others."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from testinfra.backend.base import CommandResult

from slurmfab.checks.drifted import Drifted
from slurmfab.checks.gpu_look import question, seen
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.pairs import side_by_side
from slurmfab.checks.slurm import Slurm, job_words
from slurmfab.checks.wanted import deploy
from slurmfab.cluster import Cluster
from slurmfab.lock import Lock
from slurmfab.plans.gpu_changes import changes
from slurmfab.plans.kinds_of_drift import OTHER_HARDWARE, acceptance

LOOK = (
    'echo "visible=${{CUDA_VISIBLE_DEVICES:-$ROCR_VISIBLE_DEVICES}}"; for file in {files}; do '
    "if error=$(dd if=$file of=/dev/null count=0 2>&1); then error=open; fi; "
    'echo "$file ${{error##*: }}"; done'
)
"""Prints the GPUs that the job is told of, and what becomes of an attempt to open each of the node's files."""

DENIED = "Operation not permitted"
"""EPERM is the device controller's no. A stand-in without a driver gives other errors once it lets itself be opened."""

GONE = "No such file or directory"
CLOSED = {DENIED, GONE}
"""What is not open to a job; a GPU that is gone has a check of its own."""

LOGS = "Repair: compare cgroup.conf with what the host has mounted (/var/log/slurm/slurmd.log), then "


@dataclass(frozen=True)
class Look:
    """What a job found of a node's GPUs.

    Args:
        visible: those that it is told of.
        opened: the names of those that it could open, all files of each; several MIG instances share files.
        count: how many the node has.
        gone: device files that are not there.
        denied: the file whose mode keeps the slurm user from it; empty for none.
    """

    visible: tuple[str, ...]
    opened: tuple[str, ...]
    count: int
    gone: tuple[str, ...] = ()
    denied: str = ""


def test_gpus_are_there(gpu_node: CheckedHost, lock: Lock, cluster: Cluster) -> None:
    """the node's GPUs are there, and are those of the lock"""
    files_of(lock, gpu_node.name)
    known = lock.hosts[gpu_node.name].gpus
    found = changes(known, seen(gpu_node.ask(question(known)), known))
    if found:
        raise Drifted(
            OTHER_HARDWARE,
            f"{'; '.join(change.words for change in found)}. Repair: see `nvidia-smi` and `dmesg` there: the driver is "
            "not loaded, or the GPU has fallen off its bus; or, if it is meant to be so: "
            f"{acceptance(cluster.roles(gpu_node.name), gpu_node.name)}",
        )


def test_job_has_the_gpu_that_it_asked_for(gpu_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with one GPU sees one GPU and cannot open others"""
    assert_has(1, gpu_node.name, look(slurm, gpu_node.name, lock, "--gres=gpu:1"), is_held(lock, slurm, gpu_node.name))


def test_job_has_the_gpus_that_it_asked_for(gpus_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with two GPUs sees these two and cannot open others"""
    found = look(slurm, gpus_node.name, lock, "--gres=gpu:2")
    assert_has(2, gpus_node.name, found, is_held(lock, slurm, gpus_node.name))


def test_gpus_are_kept_apart(gpus_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """two jobs at once on one node have a GPU each and cannot open the other's"""
    is_kept_apart = is_held(lock, slurm, gpus_node.name)
    script = LOOK.format(files=" ".join(files_of(lock, gpus_node.name)))
    pair = side_by_side(slurm, gpus_node.name, script, ("--gres=gpu:1",))
    first, second = (seen_by_job(done, lock, gpus_node.name) for done in pair)
    for found in (first, second):
        assert_has(1, gpus_node.name, found, is_kept_apart)
    shared = sorted({*first.opened} & {*second.opened}) if is_kept_apart else []
    assert not shared, f"two jobs can open {' and '.join(shared)} at once. {LOGS}{deploy(gpus_node.name)}"


def test_job_with_a_share_has_one_gpu(sharing_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job with a share of a GPU sees that GPU and cannot open others"""
    found = look(slurm, sharing_node.name, lock, "--gres=shard:1")
    assert_has(1, sharing_node.name, found, is_held(lock, slurm, sharing_node.name))


def test_job_without_gpus_has_none(gpu_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job that asked for no GPU cannot open any"""
    files_of(lock, gpu_node.name)
    if not is_held(lock, slurm, gpu_node.name):
        pytest.skip(f"no usable cgroup controllers on {gpu_node.name}, or no ConstrainDevices.")
    found = look(slurm, gpu_node.name, lock)
    assert not found.visible, (
        f"a job that asked for no GPU is told of {', '.join(found.visible)}. Repair: {deploy(gpu_node.name)}"
    )
    assert not found.opened, (
        f"a job that asked for no GPU can open {' and '.join(found.opened)}. {LOGS}{deploy(gpu_node.name)}"
    )


def assert_has(count: int, node: str, found: Look, is_kept_apart: bool) -> None:
    """That a job with so many GPUs is told of as many, and can open these and no others where devices are kept apart.

    Raises:
        AssertionError: it is not so.
        pytest.skip.Exception: a GPU that is gone is in the way of knowing.
    """
    number = NUMBERS[count]
    assert len(found.visible) == count, (
        f"a job that asked for {number} is told of {len(found.visible)}. Repair: {deploy(node)}"
    )
    if not is_kept_apart:
        return
    if found.gone and len(found.opened) < count:
        pytest.skip(f"{' and '.join(found.gone)} of {node} is gone, which a check of its own tells.")
    assert len(found.opened) == count, (
        f"a job that asked for {number} can open {' and '.join(found.opened) or 'none'} of the node's {found.count}. "
        f"{LOGS}{deploy(node)}"
    )
    assert not found.denied, (
        f"the file mode of {found.denied} keeps the slurm user from it. "
        f"Repair: chmod 0666 {found.denied}, or put the udev rule right"
    )


NUMBERS = {1: "one GPU", 2: "two GPUs"}


def look(slurm: Slurm, node: str, lock: Lock, *options: str) -> Look:
    """What a job with these options of srun's finds on a node."""
    return seen_by_job(
        slurm.run((node,), LOOK.format(files=" ".join(files_of(lock, node))), options=options), lock, node
    )


def seen_by_job(done: CommandResult, lock: Lock, node: str) -> Look:
    """What a job has found, in its own words.

    Raises:
        AssertionError: it failed.
    """
    assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see /var/log/slurm/slurmd.log there"
    first, *rest = done.stdout.splitlines()
    answers = {file: answer for file, _, answer in (line.partition(" ") for line in rest)}
    visible = tuple(word for word in first.partition("=")[2].split(",") if word and word != "NoDevFiles")
    opened = {
        gpu.with_files[-1] if gpu.with_files else gpu.file: (gpu.file, *gpu.with_files)
        for gpu in lock.hosts[node].gpus
        if not CLOSED & {answers.get(file, DENIED) for file in (gpu.file, *gpu.with_files)}
    }
    denied = (file for files in opened.values() for file in files if answers[file] == "Permission denied")
    gone = tuple(file for file, answer in answers.items() if answer == GONE)
    return Look(visible, tuple(opened), len(lock.hosts[node].gpus), gone, next(denied, ""))


def files_of(lock: Lock, node: str) -> tuple[str, ...]:
    """The device files of a node's GPUs, each once; a check of a node without any is left out."""
    gpus = lock.hosts[node].gpus if node in lock.hosts else ()
    if not gpus:
        pytest.skip(f"the lock knows no device files of {node}'s GPUs.")
    return tuple(dict.fromkeys(file for gpu in gpus for file in (gpu.file, *gpu.with_files)))


def is_held(lock: Lock, slurm: Slurm, node: str) -> bool:
    """Whether devices are kept from jobs that did not ask for them."""
    cgroup = lock.hosts[node].cgroup
    configuration = slurm.configuration()
    return (
        cgroup is not None
        and cgroup.is_usable
        and "task/cgroup" in configuration.get("taskplugin", "")
        and configuration.get("constraindevices") == "yes"
    )
