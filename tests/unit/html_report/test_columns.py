"""Columns of amounts over time."""

from __future__ import annotations

import pytest

from slurmfab.commands.report.charts import BELOW, HEIGHT, LEFT, TOP, WIDTH, columns

DAY = 86400
BEGIN = 1_795_392_000


def test_columns_when_drawn_then_they_stand_on_the_axis_and_stay_inside() -> None:
    chart = columns(
        [(BEGIN + number * DAY, number * 10.0) for number in range(40)], "CPU hours", 500.0, BEGIN + 40 * DAY
    )
    assert {round(one.y + one.height, 1) for one in chart.marks} == {HEIGHT - BELOW}
    assert min(one.y for one in chart.marks) >= TOP
    assert min(one.x for one in chart.marks) >= LEFT
    assert max(one.x + one.width for one in chart.marks) <= WIDTH
    assert chart.line is not None
    assert chart.line < min(one.y for one in chart.marks)
    assert len(chart.times) <= 8


def test_columns_when_drawn_then_heights_are_in_proportion_and_nothing_has_none() -> None:
    chart = columns([(BEGIN, 0.0), (BEGIN + DAY, 50.0), (BEGIN + 2 * DAY, 100.0)], "CPU hours", None, BEGIN + 3 * DAY)
    assert [one.height for one in chart.marks] == [0.0, pytest.approx(80.0, abs=0.1), pytest.approx(160.0, abs=0.1)]


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (DAY, "30 CPU hours in 2 days, 15 a day; the most on 2026-11-24 (20)."),
        (3600, "30 CPU hours in 2 hours, 15 a hour; the most on"),
    ],
)
def test_columns_when_read_aloud_then_they_say_total_mean_and_the_most(length: int, words: str) -> None:
    begin = 1_795_478_400 - DAY
    chart = columns([(begin, 10.0), (begin + length, 20.0)], "CPU hours", None, begin + 2 * length)
    assert chart.words.startswith(words)


def test_columns_when_more_was_used_than_the_records_say_there_was_then_they_have_no_line_for_that() -> None:
    assert columns([(BEGIN, 50.0)], "CPU hours", 2.0, BEGIN + DAY).line is None


def test_columns_when_next_to_nothing_was_used_then_the_axis_ends_at_one_hour() -> None:
    chart = columns([(BEGIN, 0.001)], "CPU hours", None, BEGIN + DAY)
    assert (chart.figures[-1].text, chart.marks[0].height) == ("1", 1.0)


def test_columns_when_nothing_was_used_then_they_say_so() -> None:
    assert columns([], "CPU hours", None, 0).words == "No CPU hours were used."
