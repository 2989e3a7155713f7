"""Resuming: which nodes are changed, what is printed about each, and which stay out of service."""

from __future__ import annotations

import io

import pytest
from fake_slurm import FakeSlurm
from support import cluster, lost_words, run_over, with_key

from slurmfab.cluster.facts import HostFacts
from slurmfab.commands.nodes.resume import resume_nodes
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run

IDLE = ("IDLE", "", "")
OURS = ("IDLE+DRAIN", "slurmfab: new disks (ann@laptop 2026-11-21T09:00)", "root")
SOMEBODYS = ("IDLE+DRAIN", "fan is loud", "bob")
LOST = ("DOWN+NOT_RESPONDING", "Not responding", "slurm")


def hosts(facts: dict[str, HostFacts] | None = None, **nodes: tuple[str, str, str]) -> FakeSlurm:
    slurm = FakeSlurm(facts or with_key(), nodes={"n1": IDLE, "n2": IDLE, **nodes})
    slurm.wrong["c1"] = {"node-resume:n1", "node-resume:n2", "node-resume:n1,n2"}
    return slurm


def resumed(slurm: FakeSlurm, *names: str, any_reason: bool = False) -> tuple[Run, str]:
    """A finished resume of nodes, and its output."""
    run, told = run_over(slurm, cluster(), names), io.StringIO()
    run.progress = Progress(told)
    resume_nodes(run, names, any_reason)
    return run, told.getvalue()


def test_a_node_that_slurmfab_drained_is_resumed() -> None:
    slurm = hosts(n1=OURS)
    run, told = resumed(slurm, "n1")
    assert "n1: drained by ann@laptop: new disks.\n" in told
    assert "n1: in service.\n" in told
    assert (run.report().exit_code, slurm.nodes["n1"]) == (0, IDLE)
    assert slurm.of("n2") == []


def test_the_host_of_a_node_that_a_user_drained_is_not_contacted() -> None:
    slurm = hosts(n1=SOMEBODYS)
    run, _ = resumed(slurm, "n1")
    assert lost_words(run.failed_hosts)["n1"].startswith(
        "idle, drain (“fan is loud”, bob, 2026-11-21 09:00:00). slurmfab did not drain it"
    )
    assert (run.report().exit_code, slurm.nodes["n1"], slurm.of("n1")) == (1, SOMEBODYS, [])


@pytest.mark.parametrize("state", ["IDLE+MAINTENANCE+RESERVED", "IDLE+POWERING_DOWN", "MIXED+REBOOT_REQUESTED"])
def test_a_node_that_slurm_will_resume_itself_is_not_changed(state: str) -> None:
    slurm = hosts(n1=(state, "", ""))
    run, _ = resumed(slurm, "n1", any_reason=True)
    assert lost_words(run.failed_hosts)["n1"].endswith("Wait until this is over; Slurm then puts it into service.")
    assert (slurm.nodes["n1"][0], slurm.of("n1")) == (state, [])


def test_a_node_that_a_user_drained_is_resumed_with_any() -> None:
    slurm = hosts(n1=SOMEBODYS)
    run, told = resumed(slurm, "n1", any_reason=True)
    assert "n1: idle, drain by bob: fan is loud.\n" in told
    assert (run.report().exit_code, slurm.nodes["n1"]) == (0, IDLE)


def test_a_node_that_differs_from_the_plan_is_repaired_before_it_is_resumed() -> None:
    slurm = hosts(n1=("DOWN", "Not responding", "slurm"))
    slurm.wrong["n1"] = {"service:slurmd"}
    run, told = resumed(slurm, "n1")
    assert told.startswith("n1: slurmd would not start at boot.\n")
    assert slurm.of("n1")[-1].startswith("apply service")
    assert [step.host for step in run.steps] == ["n1", "c1"]
    assert run.report().exit_code == 0


def test_nothing_is_printed_about_a_node_in_service_that_matches_the_plan() -> None:
    slurm = hosts()
    slurm.wrong.clear()
    run, told = resumed(slurm, "n1")
    assert (run.steps, run.report().exit_code) == ([], 0)
    assert told == "n1: in service.\n"


def test_an_unreachable_node_is_reported_and_the_others_are_resumed() -> None:
    facts = with_key()
    del facts["n2"]
    slurm = hosts(facts, n1=OURS, n2=LOST)
    run, _ = resumed(slurm, "n1", "n2")
    assert (run.report().exit_code, slurm.nodes["n1"], slurm.nodes["n2"]) == (3, IDLE, LOST)


def test_a_node_that_still_does_not_answer_is_reported_with_the_logs_to_read() -> None:
    slurm = hosts(n1=LOST)
    slurm.mute = ("n1",)
    run, _ = resumed(slurm, "n1")
    assert "still idle, not responding after 60 s" in lost_words(run.failed_hosts)["n1"]
    assert "slurmd.log" in lost_words(run.failed_hosts)["n1"]


def test_a_node_with_processes_that_do_not_end_is_not_resumed() -> None:
    slurm = hosts(n1=("IDLE+DRAIN", "Kill task failed", "root"))
    slurm.processes["n1"] = ["4711.0"]
    run, _ = resumed(slurm, "n1")
    assert "processes of job 4711 do not end" in lost_words(run.failed_hosts)["n1"]
    assert slurm.nodes["n1"][0] == "IDLE+DRAIN"


ILL = ("IDLE+DRAIN", "slurmfab: health: /tmp is full (1 MiB of 9 GiB free)", "root")


def test_a_node_drained_by_its_health_check_is_not_resumed_while_the_cause_lasts() -> None:
    slurm = hosts(n1=ILL)
    slurm.unwell["n1"] = ["/tmp is full (2 MiB of 9 GiB free)"]
    run, _ = resumed(slurm, "n1", any_reason=True)
    assert lost_words(run.failed_hosts)["n1"].startswith(
        "not resumed: its health check finds: /tmp is full (2 MiB of 9 GiB free)."
    )
    assert slurm.nodes["n1"] == ILL


def test_a_node_drained_by_its_health_check_is_resumed_when_the_cause_has_ended() -> None:
    slurm = hosts(n1=ILL)
    run, told = resumed(slurm, "n1")
    assert "n1: its health check found: /tmp is full (1 MiB of 9 GiB free); it finds nothing now.\n" in told
    assert (run.report().exit_code, slurm.nodes["n1"]) == (0, IDLE)


@pytest.mark.parametrize("names", [("n1", "n2"), ("n2",)])
def test_the_report_of_resume_covers_all_named_nodes(names: tuple[str, ...]) -> None:
    run, _ = resumed(hosts(n1=SOMEBODYS, n2=OURS), *names)
    assert run.report().hosts == names


def test_a_node_whose_cause_the_repair_removes_is_resumed() -> None:
    slurm = hosts(n1=ILL)
    slurm.wrong["n1"] = {"service:slurmd"}
    slurm.unwell["n1"] = ["/home is not mounted"]
    slurm.changed = lambda host: slurm.unwell.pop(host, None)
    run, told = resumed(slurm, "n1")
    assert "n1: its health check finds: /home is not mounted." in told
    assert (run.report().exit_code, slurm.nodes["n1"]) == (0, IDLE)
