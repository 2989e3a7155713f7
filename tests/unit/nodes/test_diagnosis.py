"""Diagnoses of nodes that are out of service: evidence in, one line out."""

from __future__ import annotations

import dataclasses

import pytest
from support import SMALL, prepared

from slurmfab.cluster.facts import DriverlessGpu, Gpu
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.commands.nodes.diagnosis import Evidence, Leftovers, diagnose, format_diagnoses
from slurmfab.core.engine.report import Step
from slurmfab.core.status.snapshot import Job, Node
from slurmfab.on_hosts.agent.core.resource import Change, Outcome
from slurmfab.on_hosts.agent.nodes.states import NodeState, flags, our_reason

HEALTHY = prepared("n1")
PINNED = HostLock("n1", hardware=SMALL)
JOB = Job("12_3", "15", "ann", ("main",), "RUNNING", "", 1, 1, 0, 60, "1:00", "n1", "x")


def node(state: str = "DOWN", reason: str = "", by: str = "slurm") -> Node:
    return Node("n1", NodeState(flags(state), reason, by), 4, 0, 0, 0, 15000, 0, ("main",), "24.11.5")


def differs(resource: str, name: str, actual: str = "", phase: str = "slurmd") -> Step:
    return Step(phase, "n1", (Outcome(resource, "would change", (Change(name, actual, "x"),)),))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (differs("service:slurmd", "running", "failed"), "slurmd is not running (failed)"),
        (differs("service:munge", "running", "inactive"), "munged is not running (inactive)"),
        (
            differs("service:munge", "loaded", "older munge.key"),
            "munged runs with an older munge.key than the disk holds",
        ),
        (differs("service:slurmd", "enabled", "no"), "slurmd would not start at boot"),
        (differs("file:/etc/munge/munge.key", "content"), "its munge key is not the controller's"),
        (differs("slurm-files:/etc/slurm", "slurm.conf"), "its slurm.conf differs from the cluster's"),
        (
            differs("block:/etc/hosts", "hosts", phase="hosts file"),
            "hosts file: block:/etc/hosts differs from the plan",
        ),
    ],
)
def test_a_difference_from_the_plan_is_a_repairable_problem(step: Step, words: str) -> None:
    found = diagnose(Evidence(node(), PINNED, HEALTHY, (step,)))
    assert (found.repairable, found.blocking) == ((words,), ())


def test_a_daemon_is_not_reported_if_it_is_out_of_date_only_because_of_a_reported_file() -> None:
    steps = (
        differs("file:/etc/munge/munge.key", "content", phase="munge"),
        differs("service:munge", "loaded", "older munge.key", phase="munge"),
        differs("slurm-files:/etc/slurm", "slurm.conf", phase="slurm.conf"),
        differs("service:slurmd", "loaded", "older slurm.conf"),
    )
    assert diagnose(Evidence(node(), PINNED, HEALTHY, steps)).text == (
        "its munge key is not the controller's; its slurm.conf differs from the cluster's"
    )


def test_lost_hardware_is_a_blocking_problem() -> None:
    less = dataclasses.replace(HEALTHY, hardware=dataclasses.replace(SMALL, CPUs=2, RealMemory=14000))
    pinned = HostLock("n1", hardware=SMALL, gpus=(Gpu("/dev/nvidia0"), Gpu("/dev/nvidia1")))
    (words,) = diagnose(Evidence(node(), pinned, less)).blocking
    assert words.startswith(
        "it has only 2 of 4 CPUs and 14000 MiB of memory instead of the 15000 in slurm.conf and 0 of 2 GPUs "
        "(/dev/nvidia0 is gone, /dev/nvidia1 is gone). Repair the hardware"
    )


def test_a_gpu_that_disappeared_from_its_bus_is_reported_with_its_slot() -> None:
    gpus = tuple(Gpu(f"/dev/nvidia{number}", "a100", f"0000:0{number}:00.0") for number in range(3))
    left = tuple(Gpu(f"/dev/nvidia{number}", "a100", f"0000:0{number + 1}:00.0") for number in range(2))
    pinned = HostLock("n1", hardware=SMALL, gpus=gpus)
    (words,) = diagnose(Evidence(node(), pinned, dataclasses.replace(HEALTHY, gpus=left))).blocking
    assert words.startswith(
        "it has only 2 of 3 GPUs (the GPU in slot 0000:00:00.0 (/dev/nvidia0) is gone (it was a100)). Repair the"
    )
    bare = (DriverlessGpu("0000:00:00.0", "NVIDIA"),)
    (words,) = diagnose(
        Evidence(node(), pinned, dataclasses.replace(HEALTHY, gpus=left, driverless_gpus=bare))
    ).blocking
    assert "(it was a100), 1 NVIDIA GPU on the PCI bus has no driver (0000:00:00.0)). Repair the hardware" in words
    assert words.endswith("if this is intended: fab accept-hardware n1")


def test_processes_of_a_job_that_slurm_gave_up_are_a_blocking_problem() -> None:
    left = Leftovers(("4711.0",), ("python",))
    (words,) = diagnose(
        Evidence(node("IDLE+DRAIN", "Kill task failed", "root"), PINNED, HEALTHY, leftovers=left)
    ).blocking
    assert words.startswith("processes of job 4711 do not end (python waits in the kernel")
    assert "fab reboot n1" in words


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_processes_of_a_job_that_slurm_knows_are_no_problem(state: str) -> None:
    jobs = (dataclasses.replace(JOB, state=state),)
    drained = node("MIXED+DRAIN", "Kill task failed", "root")
    assert diagnose(Evidence(drained, PINNED, HEALTHY, (), jobs, Leftovers(("15.batch",), ("python",)))).blocking == ()


def test_a_completing_job_is_no_problem() -> None:
    jobs = (dataclasses.replace(JOB, state="COMPLETING"),)
    ending = node("IDLE+DRAIN+COMPLETING", our_reason("x", "ann@laptop 2026-11-21T09:00"))
    assert diagnose(Evidence(ending, PINNED, HEALTHY, (), jobs, Leftovers(("15.batch",)))).blocking == ()


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("IDLE", "an old one", ""),
        ("DOWN", "Node unexpectedly rebooted", "it was restarted without Slurm, and nothing is wrong now"),
        ("IDLE+DRAIN", "Kill task failed", "processes of a job took too long to end; they have ended now"),
        ("IDLE+DRAIN", "Low CPUs", "it reported less than slurm.conf has (Low CPUs), and has enough now"),
        (
            "IDLE+NOT_RESPONDING",
            "",
            "slurmd runs, but slurmctld gets no answer; check for a firewall between them",
        ),
        ("DOWN", "Prolog error", "down: Prolog error; nothing is wrong with it now"),
    ],
)
def test_a_node_without_problems_has_its_past_reason(state: str, reason: str, words: str) -> None:
    assert diagnose(Evidence(node(state, reason), PINNED, HEALTHY)).text == words


def test_nodes_with_the_same_problem_share_a_line() -> None:
    assert format_diagnoses({"n1": "a", "n2": "b", "n3": "a"}) == ["n[1,3]: a.", "n2: b."]
