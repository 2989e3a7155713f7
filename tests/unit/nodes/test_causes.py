"""Why a node is out of service, in words: cases in, one line out."""

from __future__ import annotations

import dataclasses

import pytest
from support import SMALL, prepared

from slurmfab.agent.node_states import NodeState, flags, our_reason
from slurmfab.agent.resource import Change, Outcome
from slurmfab.facts import BareGpu, Gpu
from slurmfab.lock import HostLock
from slurmfab.nodes.causes import Evidence, Leftovers, diagnose, told
from slurmfab.report import Step
from slurmfab.status.snapshot import Job, Node

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
        (differs("slurm-files:/etc/slurm", "slurm.conf"), "its slurm.conf is not the cluster's"),
        (differs("block:/etc/hosts", "hosts", phase="hosts file"), "hosts file: block:/etc/hosts is not as wanted"),
    ],
)
def test_a_difference_from_the_plan_is_told_as_what_a_deployment_mends(step: Step, words: str) -> None:
    found = diagnose(Evidence(node(), PINNED, HEALTHY, (step,)))
    assert (found.mended, found.grave) == ((words,), ())


def test_a_daemon_that_is_out_of_date_because_of_a_file_that_differs_is_not_told_twice() -> None:
    steps = (
        differs("file:/etc/munge/munge.key", "content", phase="munge"),
        differs("service:munge", "loaded", "older munge.key", phase="munge"),
        differs("slurm-files:/etc/slurm", "slurm.conf", phase="slurm.conf"),
        differs("service:slurmd", "loaded", "older slurm.conf"),
    )
    assert diagnose(Evidence(node(), PINNED, HEALTHY, steps)).words == (
        "its munge key is not the controller's; its slurm.conf is not the cluster's"
    )


def test_a_node_with_less_hardware_than_it_had_is_grave() -> None:
    less = dataclasses.replace(HEALTHY, hardware=dataclasses.replace(SMALL, CPUs=2, RealMemory=14000))
    pinned = HostLock("n1", hardware=SMALL, gpus=(Gpu("/dev/nvidia0"), Gpu("/dev/nvidia1")))
    (words,) = diagnose(Evidence(node(), pinned, less)).grave
    assert words.startswith(
        "it has only 2 of 4 CPUs and 14000 MiB of memory where slurm.conf promises 15000 and 0 of 2 GPUs "
        "(/dev/nvidia0 is gone, /dev/nvidia1 is gone). Mend"
    )


def test_a_node_on_which_a_gpu_has_fallen_off_its_bus_is_told_with_its_slot() -> None:
    gpus = tuple(Gpu(f"/dev/nvidia{number}", "a100", f"0000:0{number}:00.0") for number in range(3))
    left = tuple(Gpu(f"/dev/nvidia{number}", "a100", f"0000:0{number + 1}:00.0") for number in range(2))
    pinned = HostLock("n1", hardware=SMALL, gpus=gpus)
    (words,) = diagnose(Evidence(node(), pinned, dataclasses.replace(HEALTHY, gpus=left))).grave
    assert words.startswith(
        "it has only 2 of 3 GPUs (the GPU in slot 0000:00:00.0 (/dev/nvidia0) is gone (it was a100)). Mend"
    )
    bare = (BareGpu("0000:00:00.0", "NVIDIA"),)
    (words,) = diagnose(Evidence(node(), pinned, dataclasses.replace(HEALTHY, gpus=left, bare_gpus=bare))).grave
    assert "(it was a100), 1 NVIDIA GPU on the PCI bus has no driver (0000:00:00.0)). Mend" in words
    assert words.endswith("if it is meant to be so: fab replace-node n1 --accept-hardware")


def test_processes_of_a_job_that_slurm_has_given_up_are_grave() -> None:
    left = Leftovers(("4711.0",), ("python",))
    (words,) = diagnose(Evidence(node("IDLE+DRAIN", "Kill task failed", "root"), PINNED, HEALTHY, leftovers=left)).grave
    assert words.startswith("processes of job 4711 do not end (python waits in the kernel")
    assert "fab reboot n1" in words


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_processes_of_a_job_that_slurm_knows_are_nothing_wrong(state: str) -> None:
    jobs = (dataclasses.replace(JOB, state=state),)
    drained = node("MIXED+DRAIN", "Kill task failed", "root")
    assert diagnose(Evidence(drained, PINNED, HEALTHY, (), jobs, Leftovers(("15.batch",), ("python",)))).grave == ()


def test_a_job_that_is_just_ending_is_nothing_wrong() -> None:
    jobs = (dataclasses.replace(JOB, state="COMPLETING"),)
    ending = node("IDLE+DRAIN+COMPLETING", our_reason("x", "ann@laptop 2026-11-21T09:00"))
    assert diagnose(Evidence(ending, PINNED, HEALTHY, (), jobs, Leftovers(("15.batch",)))).grave == ()


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("IDLE", "an old one", ""),
        ("DOWN", "Node unexpectedly rebooted", "it was restarted while Slurm counted on it, and is well now"),
        ("IDLE+DRAIN", "Kill task failed", "processes of a job took too long to end, and are gone now"),
        ("IDLE+DRAIN", "Low CPUs", "it had reported less than slurm.conf says (Low CPUs), and has enough now"),
        ("IDLE+NOT_RESPONDING", "", "slurmd runs and yet slurmctld hears nothing of it; a firewall between them?"),
        ("DOWN", "Prolog error", "down: Prolog error; nothing is wrong with it now"),
    ],
)
def test_a_node_with_nothing_wrong_any_more_is_told_what_it_was(state: str, reason: str, words: str) -> None:
    assert diagnose(Evidence(node(state, reason), PINNED, HEALTHY)).words == words


def test_nodes_with_the_same_trouble_are_told_in_one_line() -> None:
    assert told({"n1": "a", "n2": "b", "n3": "a"}) == ["n[1,3]: a.", "n2: b."]
