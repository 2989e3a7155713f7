"""Resuming: which nodes are touched, what is told of each, and what stays out."""

from __future__ import annotations

import io

import pytest
from fake_slurm import FakeSlurm
from support import cluster, facts_of, lost_words, prepared, run_over

from slurmfab.facts import HostFacts
from slurmfab.nodes.resuming import resume_nodes
from slurmfab.progress import Progress
from slurmfab.run import Run

IDLE = ("IDLE", "", "")
OURS = ("IDLE+DRAIN", "slurmfab: new disks (ann@laptop 2026-11-21T09:00)", "root")
SOMEBODYS = ("IDLE+DRAIN", "fan is loud", "bob")
LOST = ("DOWN+NOT_RESPONDING", "Not responding", "slurm")


def hosts(facts: dict[str, HostFacts] | None = None, **nodes: tuple[str, str, str]) -> FakeSlurm:
    slurm = FakeSlurm(facts or facts_of(cluster(), prepared), nodes={"n1": IDLE, "n2": IDLE, **nodes})
    slurm.wrong["c1"] = {"node-resume:n1", "node-resume:n2", "node-resume:n1,n2"}
    return slurm


def resumed(slurm: FakeSlurm, *names: str, anybodys: bool = False) -> tuple[Run, str]:
    """A run that has resumed nodes, and what it told."""
    run, told = run_over(slurm, cluster(), names), io.StringIO()
    run.progress = Progress(told)
    resume_nodes(run, names, anybodys)
    return run, told.getvalue()


def test_a_node_that_we_drained_when_resumed_is_in_service() -> None:
    slurm = hosts(n1=OURS)
    run, told = resumed(slurm, "n1")
    assert "n1: drained by ann@laptop: new disks.\n" in told
    assert "n1: in service.\n" in told
    assert (run.report().exit_code, slurm.nodes["n1"]) == (0, IDLE)
    assert slurm.of("n2") == []


def test_a_node_that_somebody_drained_when_resumed_is_not_even_asked() -> None:
    slurm = hosts(n1=SOMEBODYS)
    run, _ = resumed(slurm, "n1")
    assert lost_words(run.lost)["n1"].startswith("idle, drain (“fan is loud”, bob, 2026-11-21 09:00:00). That was not")
    assert (run.report().exit_code, slurm.nodes["n1"], slurm.of("n1")) == (1, SOMEBODYS, [])


@pytest.mark.parametrize("state", ["IDLE+MAINTENANCE+RESERVED", "IDLE+POWERING_DOWN", "MIXED+REBOOT_REQUESTED"])
def test_a_node_that_comes_back_by_itself_when_resumed_is_left_to_that(state: str) -> None:
    slurm = hosts(n1=(state, "", ""))
    run, _ = resumed(slurm, "n1", anybodys=True)
    assert lost_words(run.lost)["n1"].endswith("Wait until that is over; it comes back by itself.")
    assert (slurm.nodes["n1"][0], slurm.of("n1")) == (state, [])


def test_a_node_that_somebody_drained_when_any_is_said_is_in_service() -> None:
    slurm = hosts(n1=SOMEBODYS)
    run, told = resumed(slurm, "n1", anybodys=True)
    assert "n1: idle, drain by bob: fan is loud.\n" in told
    assert (run.report().exit_code, slurm.nodes["n1"]) == (0, IDLE)


def test_a_node_that_differs_from_the_plan_when_resumed_is_repaired_first() -> None:
    slurm = hosts(n1=("DOWN", "Not responding", "slurm"))
    slurm.wrong["n1"] = {"service:slurmd"}
    run, told = resumed(slurm, "n1")
    assert told.startswith("n1: slurmd would not start at boot.\n")
    assert slurm.of("n1")[-1].startswith("apply service")
    assert [step.host for step in run.steps] == ["n1", "c1"]
    assert run.report().exit_code == 0


def test_a_node_that_is_in_service_and_as_planned_when_resumed_is_told_nothing_of() -> None:
    slurm = hosts()
    slurm.wrong.clear()
    run, told = resumed(slurm, "n1")
    assert (run.steps, run.report().exit_code) == ([], 0)
    assert told == "n1: in service.\n"


def test_a_node_that_cannot_be_reached_when_resumed_is_told_and_the_others_are_done() -> None:
    facts = facts_of(cluster(), prepared)
    del facts["n2"]
    slurm = hosts(facts, n1=OURS, n2=LOST)
    run, _ = resumed(slurm, "n1", "n2")
    assert (run.report().exit_code, slurm.nodes["n1"], slurm.nodes["n2"]) == (3, IDLE, LOST)


def test_a_node_that_still_does_not_answer_is_told_with_where_to_look() -> None:
    slurm = hosts(n1=LOST)
    run, _ = resumed(slurm, "n1")
    assert "still down, not responding (“Not responding”, slurm" in lost_words(run.lost)["n1"]
    assert "slurmd.log" in lost_words(run.lost)["n1"]


def test_a_node_with_processes_that_do_not_end_when_resumed_stays_out() -> None:
    slurm = hosts(n1=("IDLE+DRAIN", "Kill task failed", "root"))
    slurm.processes["n1"] = ["4711.0"]
    run, _ = resumed(slurm, "n1")
    assert "processes of job 4711 do not end" in lost_words(run.lost)["n1"]
    assert slurm.nodes["n1"][0] == "IDLE+DRAIN"


ILL = ("IDLE+DRAIN", "slurmfab: health: /tmp is full (1 MiB of 9 GiB free)", "root")


def test_a_node_that_its_health_check_drained_when_the_cause_is_there_then_it_stays_out_and_the_cause_is_told() -> None:
    slurm = hosts(n1=ILL)
    slurm.unwell["n1"] = ["/tmp is full (2 MiB of 9 GiB free)"]
    run, _ = resumed(slurm, "n1", anybodys=True)
    assert lost_words(run.lost)["n1"].startswith(
        "not resumed: its health check finds: /tmp is full (2 MiB of 9 GiB free)."
    )
    assert slurm.nodes["n1"] == ILL


def test_a_node_that_its_health_check_drained_when_the_cause_is_gone_then_it_is_in_service() -> None:
    slurm = hosts(n1=ILL)
    run, told = resumed(slurm, "n1")
    assert "n1: its health check had found: /tmp is full (1 MiB of 9 GiB free); that is over.\n" in told
    assert (run.report().exit_code, slurm.nodes["n1"]) == (0, IDLE)


@pytest.mark.parametrize("names", [("n1", "n2"), ("n2",)])
def test_the_report_when_nodes_were_resumed_is_about_all_that_were_named(names: tuple[str, ...]) -> None:
    run, _ = resumed(hosts(n1=SOMEBODYS, n2=OURS), *names)
    assert run.report().hosts == names
