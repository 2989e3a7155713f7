"""What became of jobs, from how they were before a change and how they are after it: tables, no hosts."""

from __future__ import annotations

import dataclasses

import pytest

from slurmfab.base.json_output import as_json
from slurmfab.core.impact.job_tally import JobEnd, JobTally, missing, tally
from slurmfab.core.status.snapshot import Job


def job(number: int, state: str = "RUNNING", *, seconds: int = 60, reason: str = "", user: str = "ann") -> Job:
    """A job on n1, or one that waits."""
    node = "" if state == "PENDING" else "n1"
    return Job(
        str(number), str(number), user, ("main",), state, reason, 1, 1, 0, seconds, "1:00:00", node, f"job {number}"
    )


@pytest.mark.parametrize(
    ("before", "now", "is_missing"),
    [
        (job(1), job(1, seconds=90), False),
        (job(1), job(1, seconds=60), False),
        (job(1), job(1, "SUSPENDED"), False),
        (job(1, "CONFIGURING", seconds=0), job(1), False),
        (job(1), None, True),
        (job(1), job(1, "COMPLETING"), True),
        (job(1), job(1, "PENDING", seconds=0, reason="BeginTime"), True),
        (job(1), job(1, seconds=5), True),
        (job(1, "COMPLETING"), None, False),
        (job(1, "PENDING"), job(1, "PENDING"), False),
        (job(1, "PENDING"), job(1), False),
        (job(1, "PENDING"), None, True),
    ],
)
def test_a_job_that_does_not_go_on_as_it_did_is_missing(before: Job, now: Job | None, is_missing: bool) -> None:
    assert bool(missing([before], [now] if now else [])) is is_missing


@pytest.mark.parametrize(
    ("before", "told", "kind"),
    [
        (job(1), job(1, "COMPLETED"), "ended"),
        (job(1), job(1, "COMPLETING"), "ended"),
        (job(1), job(1, "TIMEOUT", reason="TimeLimit"), "ended"),
        (job(1), job(1, "OUT_OF_MEMORY", reason="OutOfMemory"), "ended"),
        (job(1), job(1, "FAILED", reason="NonZeroExitCode"), "ended"),
        (job(1), job(1, "FAILED", reason="RaisedSignal:9(Killed)"), "lost"),
        (job(1), job(1, "FAILED", reason="JobLaunchFailure"), "lost"),
        (job(1), job(1, "CANCELLED"), "ended"),
        (job(1), job(1, "CANCELLED", reason="PartitionDown"), "lost"),
        (job(1), job(1, "NODE_FAIL", reason="NodeDown"), "lost"),
        (job(1), job(1, "BOOT_FAIL"), "lost"),
        (job(1), job(1, "PENDING", reason="BeginTime"), "lost"),
        (job(1), job(1, seconds=5), "lost"),
        (job(1), None, "lost"),
        (job(1, "PENDING"), job(1, "COMPLETED"), "nothing"),
        (job(1, "PENDING"), job(1, "CANCELLED"), "nothing"),
        (job(1, "PENDING"), job(1, "NODE_FAIL", reason="NodeDown"), "lost"),
        (job(1, "PENDING"), None, "lost"),
    ],
)
def test_a_job_that_has_ended_is_told_apart_from_one_that_was_lost(before: Job, told: Job | None, kind: str) -> None:
    counted = tally([before], [], {"1": told} if told else {})
    found = "ended" if counted.ended else "lost" if counted.lost else "nothing"
    assert found == kind
    assert counted.is_broken is (kind == "lost")


def test_a_job_of_which_slurmctld_may_have_forgotten_how_it_ended_is_no_loss() -> None:
    counted = tally([job(1)], [], {}, remembers=False)
    assert (counted.lost, [end.description for end in counted.ended]) == (
        (),
        ["1 (ann) on n1: it has ended, and slurmctld no longer knows how"],
    )


def test_a_loss_that_was_accepted_by_name_is_told_and_breaks_no_promise() -> None:
    counted = tally([job(1), job(2)], [job(2)], {"1": job(1, "NODE_FAIL")}, accepted=frozenset({"1"}))
    assert not counted.is_broken
    assert counted.lines == ("Jobs: 2 ran before, 1 runs now.", "Lost (allowed): job 1 (ann) on n1: NODE_FAIL.")


def test_jobs_are_counted_by_whether_they_have_nodes() -> None:
    counted = tally([job(1), job(2, "PENDING"), job(3, "COMPLETING")], [job(1), job(2), job(4)], {})
    assert (counted.before, counted.after, counted.ended, counted.lost) == (1, 3, (), ())


def test_what_became_of_jobs_is_told_in_a_line_each() -> None:
    ended = JobEnd("12_3", "ann", "n[1-2]", "COMPLETED")
    lost = JobEnd("14", "bob", "n2", "NODE_FAIL", "NodeDown")
    again = JobEnd("15", "bob", "n2", "PENDING", "BeginTime")
    gone = JobEnd("16", "eve", "", "unknown")
    assert JobTally(4, 0, (ended,), (lost, again, gone)).lines == (
        "Jobs: 4 ran before, 0 run now.",
        "Ended by themselves: 12_3 (ann) on n[1-2]: COMPLETED.",
        "LOST: job 14 (bob) on n2: NODE_FAIL, NodeDown.",
        "LOST: job 15 (bob) on n2: it must start again from the beginning (PENDING, BeginTime).",
        "LOST: job 16 (eve): slurmctld no longer knows it.",
    )


def test_jobs_that_nobody_can_count_any_more_are_a_broken_promise() -> None:
    counted = JobTally(3, None)
    assert counted.is_broken
    assert counted.lines == (
        "Jobs: 3 ran before; slurmctld does not answer, so the number of running jobs is unknown.",
    )


def test_what_became_of_jobs_is_told_to_machines() -> None:
    end = JobEnd("14", "bob", "n2", "NODE_FAIL", "NodeDown")
    assert as_json(JobTally(3, 2, (), (end,))) == {
        "before": 3,
        "after": 2,
        "ended": [],
        "lost": [{**dataclasses.asdict(end), "accepted": False}],
    }
