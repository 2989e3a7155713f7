"""Nodes and partitions that are drained before a change: which, and what is told when a run ends early."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from slurm_tables import job_rows
from support import FakeHosts, cluster, run_over

from slurmfab.core.engine import drain_first
from slurmfab.core.engine.drain_first import DrainTarget, format_still_drained
from slurmfab.core.engine.progress import Progress
from slurmfab.core.impact.disruptive_changes import Disruption
from slurmfab.core.status.snapshot import Node, Snapshot, jobs_from
from slurmfab.on_hosts.agent.core.resource import Change, Outcome
from slurmfab.on_hosts.agent.nodes.resume import NodeResume
from slurmfab.on_hosts.agent.nodes.states import FOR_CHANGE, NodeState, flags, our_reason


def slurm(*jobs: str) -> Snapshot:
    """A Slurm in which these jobs run."""
    return Snapshot(jobs=jobs_from(job_rows(jobs)))


def node(name: str, state: str = "IDLE", reason: str = "") -> Node:
    return Node(name, NodeState(flags(state), reason), 4, 0, 0, 0, 1000, 0, ("main",), "24.11.5")


def job(number: int, node: str, partition: str = "main") -> str:
    state = "RUNNING" if node else "PENDING"
    return f"{number}|{number}|ann|{partition}|{state}|None|1|1|1|0:05|1:00|{node}|cpu=1|N/A|N/A|N/A|x|"


@pytest.mark.parametrize(
    ("target", "text", "is_needed"),
    [
        (DrainTarget(("n1", "n2"), (), "x"), "n[1-2]", True),
        (DrainTarget(("n1",), ("a", "b"), "x"), "n1 and partition a and partition b", True),
        (DrainTarget((), ("a",), "x"), "partition a", True),
        (DrainTarget((), (), "x"), "", False),
    ],
)
def test_what_is_drained_is_told_as_nodes_and_partitions(target: DrainTarget, text: str, is_needed: bool) -> None:
    assert (target.text, target.is_needed, target.reason) == (text, is_needed, f"{FOR_CHANGE}x")


def test_jobs_that_are_waited_for_run_on_these_nodes_or_in_these_partitions() -> None:
    there = slurm(job(1, "n1"), job(2, "n2", "other"), job(3, "n3"), job(4, "", "other"))
    found = DrainTarget(("n1",), ("other",), "x").jobs(there)
    assert [one.number for one in found] == ["1", "2"]


@pytest.mark.parametrize(
    ("nodes", "partitions", "words"),
    [
        (("n1", "n2"), (), "n[1-2]: still drained for this change. To continue: run the same command again; to resume: "
                           "fab resume 'n[1-2]'."),
        ((), ("a",), "partition a: still drained for this change. To continue: run the same command again; to resume: "
                     "scontrol update PartitionName=a State=UP."),
    ],
)  # fmt: skip
def test_what_is_still_drained_at_an_early_end_is_told_with_the_way_back(
    nodes: tuple[str, ...], partitions: tuple[str, ...], words: str
) -> None:
    assert format_still_drained(DrainTarget(nodes, partitions, "x"), Snapshot()) == words


RUNS, RUNS_IN_A, WAITS = job(1, "n1"), job(2, "n2", "a"), job(3, "")


@pytest.mark.parametrize(
    ("drains", "everywhere", "partitions", "jobs", "allowed", "target"),
    [
        (("n1",), False, (), (RUNS,), (), (("n1",), (), "X")),
        ((), False, (), (RUNS,), (), ((), (), "")),
        ((), False, (), (RUNS,), ("X",), (("n1",), (), "X")),
        (("n1",), False, (), (), (), ((), (), "")),
        ((), False, (), (WAITS,), ("X",), ((), (), "")),
        (("n1",), True, (), (RUNS,), (), (("n1", "n2"), (), "X")),
        (("n2",), False, ("a",), (RUNS_IN_A,), (), ((), ("a",), "X")),
    ],
)
def test_jobs_are_drained_away_where_that_avoids_the_harm_or_the_harm_is_allowed(
    drains: tuple[str, ...],
    partitions: tuple[str, ...],
    jobs: tuple[str, ...],
    allowed: tuple[str, ...],
    *,
    everywhere: bool,
    target: tuple[tuple[str, ...], tuple[str, ...], str],
) -> None:
    there = Snapshot(nodes=(node("n1"), node("n2")), jobs=jobs_from(job_rows(jobs)))
    one = Disruption("X", "what", "why", there.jobs, drains, everywhere, partitions)
    found = drain_first.target_of([one], frozenset(allowed), there)
    assert (found.nodes, found.partitions, found.subject) == target


def test_nodes_that_a_person_has_drained_before_are_not_told_to_be_resumed() -> None:
    before = Snapshot(nodes=(node("n1", "IDLE+DRAIN", "broken fan"), node("n2")))
    text = format_still_drained(DrainTarget(("n1", "n2"), (), "x"), before)
    assert text.startswith("n2: still drained for this change.")
    only = format_still_drained(DrainTarget(("n1",), (), "x"), before)
    assert only == "n1: drained before this run; left drained."


def test_nodes_that_a_deployment_left_drained_are_known_by_their_reason() -> None:
    left = our_reason(f"{FOR_CHANGE}x", "ann@laptop 2026-11-21T09:00")
    there = Snapshot(nodes=(node("n1", "IDLE+DRAIN", left), node("n2", "IDLE+DRAIN", "broken fan"), node("n3")))
    assert drain_first.still_drained(there) == ("n1",)


@pytest.mark.parametrize(
    ("jobs", "busy"),
    [
        ((RUNS_IN_A,), ("n2", "a")),
        ((RUNS,), ()),
        ((WAITS,), ()),
    ],
)
def test_nodes_and_partitions_with_jobs_are_waited_for(jobs: tuple[str, ...], busy: tuple[str, ...]) -> None:
    full = replace(node("n2"), cpus_used=4) if jobs == (RUNS_IN_A,) else node("n2")
    there = Snapshot(nodes=(node("n1"), full), jobs=jobs_from(job_rows(jobs)))
    assert DrainTarget(("n2", "n9"), ("a", "b"), "x").busy(there) == busy


def test_a_wait_for_jobs_is_told_once_for_the_same_jobs_and_hosts_are_met_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, met, changes = io.StringIO(), list[str](), list[Any]()
    run = run_over(FakeHosts({}), cluster(), progress=Progress(shown))
    there = [slurm(RUNS), slurm(RUNS), slurm(RUNS, RUNS_IN_A), slurm()]

    def wait(_: Any, busy: Any, pause: Any, on_snapshot: Any) -> None:
        del busy, pause
        for one in there:
            on_snapshot(one)

    monkeypatch.setattr(drain_first, "change", lambda _, *more: changes.append(more))
    monkeypatch.setattr(drain_first.job_waiting, "wait_while", wait)
    monkeypatch.setattr(drain_first, "request_apply", lambda _, host, *__, **___: met.append(host))
    drain_first.drain_and_wait(run, DrainTarget(("n1",), ("a",), "X"), there[0])
    told = [line for line in shown.getvalue().splitlines() if "Waiting for" in line]
    assert len(told) == 2
    assert "on n1 and partition a: " in told[0]
    assert sorted(met) == ["c1", "n1", "n2"]
    ((phase, host, nodes, partitions),) = changes
    assert (phase, host, nodes.nodes, nodes.for_change, partitions.partitions) == ("drain", "c1", ("n1",), True, ("a",))


@pytest.mark.parametrize(("status", "noted"), [("changed", ["resume"]), ("ok", [])])
def test_nodes_are_resumed_after_the_change_and_told_if_they_were_drained(
    monkeypatch: pytest.MonkeyPatch, status: str, noted: list[str]
) -> None:
    asked = list[Any]()

    def apply(_: Any, host: str, resources: Any, *, dry_run: bool) -> list[Outcome]:
        asked.append((host, *resources, dry_run))
        return [Outcome("node-resume:n1", status, (Change("n1", "drained", "in service"),) if noted else ())]

    monkeypatch.setattr(drain_first, "request_apply", apply)
    run = run_over(FakeHosts({}), cluster())
    drain_first.resume_drained(run, ("n1",))
    assert [step.phase for step in run.steps] == noted
    assert asked == [("c1", NodeResume(("n1",), seconds=60.0, after_change=True), False)]
