"""The timeline of a run: where its phases are, and which hosts share a row."""

from __future__ import annotations

import random

import pytest
from report_data import big_record, record, step

from slurmfab.commands.report.gantt import Row, Span, timeline
from slurmfab.core.engine.record import Record


def rows(found: Record) -> list[tuple[str, list[tuple[str, float, float]]]]:
    """The rows with their phases."""
    return [
        (",".join(row.hosts), [(span.phase, span.begin, span.end) for span in row.spans])
        for row in timeline(found).rows
    ]


def test_timeline_when_hosts_differ_then_each_has_a_row_and_the_slowest_is_first() -> None:
    found = record([step("n1", "users", 1, 1), step("n2", "users", 1, 1), step("n2", "packages", 2, 40)])
    assert rows(found) == [("n2", [("users", 1, 2), ("packages", 2, 42)]), ("n1", [("users", 1, 2)])]


def test_timeline_when_hosts_are_alike_then_they_share_a_row_with_the_times_of_the_slowest() -> None:
    (row,) = timeline(record([step("n1", "users", 1, 5), step("n2", "users", 1, 6), step("n3", "users", 1.5, 5)])).rows
    assert (row.hosts, row.slowest, row.end) == (("n1", "n2", "n3"), "n2", 7)


def test_timeline_when_a_host_fails_then_its_row_is_its_own_and_comes_first() -> None:
    steps = [step("n1", "users", 1, 5), step("n2", "users", 1, 5, "failed"), step("n3", "users", 1, 30)]
    first, *others = timeline(record(steps)).rows
    assert (first.hosts, first.has_failed, first.spans[0].status) == (("n2",), True, "failed")
    assert [row.has_failed for row in others] == [False, False]


def test_timeline_when_a_host_was_lost_before_its_first_phase_then_it_has_a_row_with_the_reason() -> None:
    first, _ = timeline(record([step("n1", "users", 1, 5)], hosts=("n1", "n2"), lost={"n2": "no answer."})).rows
    assert first == Row(("n2",), "n2", (), "no answer.")


def test_timeline_when_the_record_has_no_moments_of_hosts_then_they_are_worked_out_from_its_timeline() -> None:
    steps = [step("n1", "users", None, 1), step("n1", "packages", None, 10), step("n1", "slurmd", None, 2)]
    marks = ((0.5, "asking"), (1.0, "users"), (2.5, "packages"), (9.0, "slurmd"))
    assert rows(record(steps, timeline=marks)) == [
        ("n1", [("users", 1.0, 2.0), ("packages", 2.5, 12.5), ("slurmd", 12.5, 14.5)])
    ]


def test_timeline_when_something_is_done_on_all_hosts_together_then_it_is_a_mark_until_the_next_thing() -> None:
    found = timeline(record([step("n1", "users", 3, 1)], timeline=((1, "asking"), (2, "comparing"), (3, "users"))))
    assert found.marks == (Span("asking", 1, 2, "changed"), Span("comparing", 2, 3, "changed"))


def test_timeline_when_there_are_1000_hosts_then_it_has_few_rows_that_have_all_of_them() -> None:
    found = timeline(big_record())
    assert len(found.rows) <= 24
    assert sorted(host for row in found.rows for host in row.hosts) == [f"n{number:04}" for number in range(1, 1001)]
    assert [row.hosts for row in found.rows[:2]] == [("n0733",), ("n0017", "n0400")]


@pytest.mark.parametrize("most", [1, 2, 5, 24])
def test_timeline_when_no_two_hosts_are_alike_then_the_rest_shares_the_last_row(most: int) -> None:
    draw = random.Random(1)
    steps = [step(f"n{number}", f"phase {number}", draw.random(), draw.random() * 50) for number in range(300)]
    found = timeline(record(steps), most).rows
    assert (len(found), found[-1].is_rest, sum(len(row.hosts) for row in found)) == (most, True, 300)


def test_timeline_when_a_run_changed_nothing_then_it_has_no_rows() -> None:
    found = timeline(record([], hosts=("n1", "n2"), seconds=0.0))
    assert (found.rows, found.unchanged, found.seconds) == ((), 2, 0.0)
