"""Ticks and short texts of charts."""

from __future__ import annotations

import pytest

from slurmfab.commands.report.charts import amount, amount_ticks, cut, duration, fits, tick_text, time_ticks


@pytest.mark.parametrize(
    ("seconds", "step", "count"),
    [(0.5, 0.1, 6), (1, 0.2, 6), (43.6, 10, 5), (185, 30, 7), (3600, 600, 7), (86400 * 30, 86400 * 4, 8)],
)
def test_time_ticks_are_at_round_distances(seconds: float, step: float, count: int) -> None:
    ticks = time_ticks(seconds)
    assert (len(ticks), ticks[0], ticks[1]) == (count, 0, pytest.approx(step))


@pytest.mark.parametrize(("top", "last"), [(0, 1), (1, 1), (7, 8), (99, 100), (431, 500), (12_345, 15_000)])
def test_amount_ticks_end_at_a_round_amount_above_the_top(top: float, last: float) -> None:
    assert amount_ticks(top)[-1] == pytest.approx(last)
    assert len(amount_ticks(top)) <= 6


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"), (0.264, "0.26 s"), (43.6, "43.6 s"), (60, "1 min"), (135, "2 min 15 s"), (7260, "2 h 1 min"),
        (180000, "2 d 2 h"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.002, "< 0.01"), (0.25, "0.25"), (12.34, "12.3"), (431.2, "431"), (9999, "9999"), (12345, "12.3 k"),
        (2e6, "2 M"), (3.1e9, "3.1 G"),
    ],
)  # fmt: skip
def test_amounts_are_short(value: float, text: str) -> None:
    assert amount(value) == text


def test_labels_are_cut_where_they_do_not_fit() -> None:
    assert fits("n1", 40, 12)
    assert not fits("n[001-480]", 40, 12)
    assert cut("n[001-480,482-960]", 90, 12) == "n[001-480,4…"
    assert cut("n1", 90, 12) == "n1"


def test_tick_texts_name_their_unit() -> None:
    assert [tick_text(seconds) for seconds in (0, 0.5, 10, 60, 90)] == ["0", "0.5 s", "10 s", "1 min", "1 min 30 s"]
