"""Jobs that run by a restored state, and have no process any more."""

from __future__ import annotations

import pytest

from slurmfab.commands.backup.ended_jobs import ended, format_jobs
from slurmfab.core.status.snapshot import Job

STEPS = {"n1": ("17.batch", "17.extern"), "n2": (), "n3": ("19.0",)}


def job(nodes: str, seconds: int = 100, state: str = "RUNNING") -> Job:
    """Job 18 on these nodes."""
    return Job("18", "18", "ann", ("main",), state, "", 1, 1, 0, seconds, "1:00:00", nodes, "")


def test_a_job_without_a_process_on_any_of_its_nodes_when_asked_then_is_named_with_its_nodes() -> None:
    assert ended([job("n[1-2]")], STEPS, 60) == {18: ("n1", "n2")}
    assert format_jobs(ended([job("n[1-2]")], STEPS, 60)) == "job 18 on n[1-2]"


@pytest.mark.parametrize(
    ("one", "steps"),
    [
        (job("n[1-2]"), {**STEPS, "n2": ("18.batch",)}),
        (job("n[1-2]", seconds=30), STEPS),
        (job("n[1-2]", state="SUSPENDED"), STEPS),
        (job("n[2,4]"), STEPS),
    ],
    ids=("has a process on one node", "has begun since", "does not run", "is on a node that does not answer"),
)
def test_a_job_that_may_be_at_work_when_asked_then_is_not_named(one: Job, steps: dict[str, tuple[str, ...]]) -> None:
    assert ended([one], steps, 60) == {}
