"""GPUs: they are there, and a job has its own and no others."""

from __future__ import annotations

import pytest

from slurmfab.checks.drifted import Drifted
from slurmfab.checks.gpu_look import question, seen
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.slurm import Slurm, job_words
from slurmfab.checks.wanted import deploy
from slurmfab.cluster import Cluster
from slurmfab.lock import Lock
from slurmfab.plans.gpu_changes import changes
from slurmfab.plans.kinds_of_drift import OTHER_HARDWARE, acceptance

LOOK = (
    'echo "visible=$CUDA_VISIBLE_DEVICES"; for file in {files}; do '
    "if error=$(dd if=$file of=/dev/null count=0 2>&1); then error=open; fi; "
    'echo "$file ${{error##*: }}"; done'
)
"""Prints the GPUs that the job is told of, and what becomes of an attempt to open each of the node's."""

DENIED = "Operation not permitted"
"""EPERM is the device controller's no. A stand-in without a driver gives other errors once it lets itself be opened."""

CLOSED = {DENIED, "No such file or directory"}
"""What is not open to a job; a GPU that is gone has a check of its own."""

LOGS = "Repair: compare cgroup.conf with what the host has mounted (/var/log/slurm/slurmd.log), then "


def test_gpus_are_there(gpu_node: CheckedHost, lock: Lock, cluster: Cluster) -> None:
    """the node's GPUs are there, and are those of the lock"""
    gpu_files(lock, gpu_node.name)
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
    files = gpu_files(lock, gpu_node.name)
    visible, answers = look(slurm, gpu_node.name, files, ("--gres=gpu:1",))
    assert len(visible) == 1, f"a job that asked for one GPU is told of {len(visible)}. Repair: {deploy(gpu_node.name)}"
    if is_held(lock, slurm, gpu_node.name):
        opened = [file for file in files if answers[file] not in CLOSED]
        assert len(opened) == 1, (
            f"a job that asked for one GPU can open {' and '.join(opened) or 'none'} of {len(files)}. "
            f"{LOGS}{deploy(gpu_node.name)}"
        )
        assert answers[opened[0]] != "Permission denied", (
            f"the file mode of {opened[0]} keeps the slurm user from it. "
            f"Repair: chmod 0666 {opened[0]}, or put the udev rule right"
        )


def test_job_without_gpus_has_none(gpu_node: CheckedHost, slurm: Slurm, lock: Lock) -> None:
    """a job that asked for no GPU cannot open any"""
    files = gpu_files(lock, gpu_node.name)
    if not is_held(lock, slurm, gpu_node.name):
        pytest.skip(f"no usable cgroup controllers on {gpu_node.name}, or no ConstrainDevices.")
    visible, answers = look(slurm, gpu_node.name, files, ())
    assert not visible, f"a job that asked for no GPU is told of {', '.join(visible)}. Repair: {deploy(gpu_node.name)}"
    opened = [file for file in files if answers[file] not in CLOSED]
    assert not opened, f"a job that asked for no GPU can open {' and '.join(opened)}. {LOGS}{deploy(gpu_node.name)}"


def look(slurm: Slurm, node: str, files: tuple[str, ...], options: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The GPUs that a job is told of, and by file what becomes of opening it: `open`, or an error's text."""
    done = slurm.run((node,), LOOK.format(files=" ".join(files)), options=options)
    assert done.rc == 0, f"the job failed: {job_words(done)}. Repair: see /var/log/slurm/slurmd.log there"
    first, *rest = done.stdout.splitlines()
    visible = [word for word in first.partition("=")[2].split(",") if word and word != "NoDevFiles"]
    answers = (line.partition(" ") for line in rest)
    return visible, {file: answer for file, _, answer in answers}


def gpu_files(lock: Lock, node: str) -> tuple[str, ...]:
    """The device files of a node's GPUs; a check of a node without any is left out."""
    files = tuple(gpu.file for gpu in lock.hosts[node].gpus) if node in lock.hosts else ()
    if not files:
        pytest.skip(f"the lock knows no device files of {node}'s GPUs.")
    return files


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
