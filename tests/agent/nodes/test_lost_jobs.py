"""Which jobs are lost by a crash, and what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from subprocess import CompletedProcess
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, WOULD_CHANGE, Context, Outcome, apply
from slurmfab.on_hosts.agent.nodes import lost_jobs
from slurmfab.on_hosts.agent.nodes.lost_jobs import Looked, LostJobs, Open, jobs_in, lost, unknown

NOW = 100_000.0
START = 90_000
"""When the jobs of the tables started."""


def row(job: str = "7", **other: str) -> str:
    """A line of squeue about a job that runs on n1."""
    usual = {
        "JobID": job.partition("+")[0], "JobArrayID": job, "UserName": "ann", "State": "RUNNING", "BatchFlag": "1",
        "BatchHost": "n1", "NodeList": "n1", "StartTime": str(START), "Requeue": "1",
    }  # fmt: skip
    return "".join(f"{({**usual, **other})[name]}|" for name in lost_jobs.FIELDS)


NOTHING = {"n1": Looked(NOW, ())}
ITS_STEP = {"n1": Looked(NOW, (7,))}
BOOTED = {"n1": START + 500.0}
NO_SCRIPT = {"BatchFlag": "0", "BatchHost": "n/a"}


@pytest.mark.parametrize(
    ("what", "line", "looked", "boots", "has_extern", "is_lost"),
    [
        ("nothing of it runs on its node", row(), NOTHING, {}, True, True),
        ("nothing runs, and its node has booted since", row(), NOTHING, BOOTED, False, True),
        ("its node has booted since, and was not asked", row(), {}, BOOTED, False, True),
        ("it was put back once, which Slurm shows by another flag", row(BatchFlag="2"), NOTHING, {}, True, True),
        ("it is suspended, and its step daemon is gone", row(State="SUSPENDED"), NOTHING, {}, True, True),
        ("a step is still there", row(), ITS_STEP, {}, True, False),
        ("a step is there after a boot, as of a job that waited for its node", row(), ITS_STEP, BOOTED, True, False),
        ("it is suspended, and its step daemon is there", row(State="SUSPENDED"), ITS_STEP, {}, True, False),
        ("it is completing", row(State="COMPLETING"), NOTHING, BOOTED, True, False),
        ("its nodes are booting for it", row(State="CONFIGURING"), NOTHING, BOOTED, True, False),
        ("it has run for less than a minute", row(StartTime=str(int(NOW) - 59)), NOTHING, {}, True, False),
        ("it started after its node was asked", row(), {"n1": Looked(START - 1.0, ())}, {}, True, False),
        ("its node does not answer", row(), {}, {}, True, False),
        ("its node booted before", row(), {}, {"n1": START - 1.0}, True, False),
        ("its node booted in the second of its start", row(), {}, {"n1": START + 1.0}, True, False),
        ("another node of it has lost its power", row(NodeList="n[1-2]"), ITS_STEP, {"n2": NOW - 1}, True, False),
        ("its script is gone, on another node it has a step", row(NodeList="n[1-2]"), NOTHING, {}, True, True),
        ("a task of an array", row("7_3", JobID="9"), {"n1": Looked(NOW, (7,))}, {}, True, True),
        ("a task of an array that has a step", row("7_3", JobID="9"), {"n1": Looked(NOW, (9,))}, {}, True, False),
        ("the first part of a heterogeneous job", row("7+0"), NOTHING, {}, True, True),
        ("another part of one, whose script is elsewhere", row("7+1", JobID="8"), NOTHING, {}, True, False),
        ("an allocation, where each job has a step of its own", row(**NO_SCRIPT), NOTHING, {}, True, True),
        ("an allocation, where nobody can tell", row(**NO_SCRIPT), NOTHING, {}, False, False),
        ("an allocation on a node that has booted since", row(**NO_SCRIPT), NOTHING, BOOTED, False, True),
        ("an allocation of two nodes", row(**NO_SCRIPT, NodeList="n[1-2]"), NOTHING, BOOTED, True, False),
        ("its start is not known", row(StartTime="N/A"), NOTHING, BOOTED, True, False),
    ],
)
def test_a_job_is_lost_only_if_it_cannot_be_running(
    what: str, line: str, looked: Any, boots: Any, *, has_extern: bool, is_lost: bool
) -> None:
    found = lost(jobs_in(line + "\n"), NOW, looked, boots, has_extern=has_extern)
    assert bool(found) == is_lost, what


def test_lines_that_are_no_jobs_are_passed_over() -> None:
    assert jobs_in("slurm_load_jobs error: x\n\n1|2|\nx|y|ann|RUNNING|1|n1|n1|1|1|\n") == []


@pytest.mark.parametrize(
    ("what", "record", "known", "is_unknown"),
    [
        ("slurmctld does not know it", ("7", "7", "ann", "PENDING", "1000", "Unknown"), [], True),
        ("its number was given again", ("7", "7", "ann", "RUNNING", "1000", "Unknown"), [("7", 5000)], True),
        ("slurmctld knows it", ("7", "7", "ann", "RUNNING", "1000", "Unknown"), [("7", 1000)], False),
        ("it has ended", ("7", "7", "ann", "CANCELLED by 0", "1000", "2000"), [], False),
        ("it is new", ("7", "7", "ann", "PENDING", str(int(NOW) - 59), "Unknown"), [], False),
        ("its submission is not known", ("7", "7", "ann", "PENDING", "Unknown", "Unknown"), [], False),
    ],
)
def test_an_open_record_is_of_a_lost_job_only_if_slurmctld_does_not_know_it(
    what: str, record: Sequence[str], known: list[tuple[str, int]], is_unknown: bool
) -> None:
    found = unknown([record], known, NOW)
    assert bool(found) == is_unknown, what
    assert all(one == Open("7", "7", "ann", record[3], 1000) for one in found)


class FakeSlurm(Context):
    """A controller with jobs in squeue, and what was done to them."""

    def __init__(self, *lines: str, dry_run: bool = False) -> None:
        super().__init__(dry_run=dry_run)
        self.lines = list(lines)
        self.done: list[str] = []

    def run(self, argv: Sequence[str], *args: Any, **more: Any) -> CompletedProcess[bytes]:  # noqa: ARG002
        out = ""
        if argv == lost_jobs.RUNNING:
            out = "\n".join(self.lines)
        elif argv[:3] == ("scontrol", "show", "hostnames"):
            out = "n1\nn2\n" if argv[3] == "n[1-2]" else argv[3]
        elif argv[0] == "systemctl":
            out = "ActiveState=active\nSubState=running\nLoadState=loaded\n"
        elif argv[:2] == ("scontrol", "requeue") or argv[0] == "scancel":
            self.done.append(" ".join(argv))
            self.lines = [line for line in self.lines if not line.startswith(argv[-1] + "|")]
        return CompletedProcess(list(argv), 0, out.encode(), b"")


def applied(context: FakeSlurm, monkeypatch: pytest.MonkeyPatch, *there: tuple[str, int, tuple[int, ...]]) -> Outcome:
    monkeypatch.setattr("slurmfab.on_hosts.agent.services.service.is_active", lambda *_: True)
    return apply(LostJobs(there or (("n1", int(time.time()), ()),), has_extern=True), context)


@pytest.mark.parametrize(
    ("what", "line", "there", "status", "done"),
    [
        ("it waits again", row(), (), CHANGED, ["scontrol requeue 7"]),
        ("it may not be requeued, and ends", row(Requeue="0"), (), CHANGED, ["scancel --quiet -- 7"]),
        ("a step of it is there", row(), (("n1", int(time.time()), (7,)),), OK, []),
        ("suspended, with its step daemon", row(State="SUSPENDED"), (("n1", int(time.time()), (7,)),), OK, []),
        ("completing", row(State="COMPLETING"), (), OK, []),
        ("an allocation is left to a person", row(**NO_SCRIPT), (), FAILED, []),
        (
            "a part on another node lives", row(NodeList="n[1-2]"),
            (("n1", int(time.time()), ()), ("n2", int(time.time()), (7,))), FAILED, [],
        ),
        ("its other node does not answer", row(NodeList="n[1-2]"), (), FAILED, []),
        (
            "both nodes have nothing of it", row(NodeList="n[1-2]"),
            (("n1", int(time.time()), ()), ("n2", int(time.time()), ())), CHANGED, ["scontrol requeue 7"],
        ),
        ("a heterogeneous one is left to a person", row("7+0"), (), FAILED, []),
    ],
)  # fmt: skip
def test_a_lost_job_is_put_back_or_ended_and_a_living_one_is_not_touched(
    what: str, line: str, there: Any, status: str, done: list[str], *, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = FakeSlurm(line)
    outcome = applied(context, monkeypatch, *there)
    assert (outcome.status, context.done) == (status, done), (what, outcome)


def test_a_plan_names_job_user_node_and_time_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    context = FakeSlurm(row(), dry_run=True)
    outcome = applied(context, monkeypatch)
    assert outcome.status == WOULD_CHANGE
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(START))
    assert [one.name for one in outcome.changes] == [f"job 7 of ann on n1 since {since}"]
    assert outcome.changes[0].wanted == "in the queue again: n1 has no process of it"
    assert context.done == []


def test_what_is_left_to_a_person_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "To end it: scancel 7" in applied(FakeSlurm(row(**NO_SCRIPT)), monkeypatch).message
    there = (("n1", int(time.time()), ()), ("n2", int(time.time()), (7,)))
    message = applied(FakeSlurm(row(NodeList="n[1-2]")), monkeypatch, *there).message
    assert "may still run on n2" in message
    assert "scontrol requeue 7" in message
