"""Figures of the benchmarks: ratios round by round, medians, and results that survive a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.results import MEMORY, PROCESSORS, SECONDS, Result, Sample, Target, figure, load, load_all, save

RATIO = Target("ours", "floor", 2.0)


def samples(**seconds: tuple[float, ...]) -> dict[str, tuple[Sample, ...]]:
    return {way: tuple(Sample(one) for one in many) for way, many in seconds.items()}


@pytest.mark.parametrize(
    ("ours", "floor", "value", "lowest", "highest"),
    [
        ((2.0,), (1.0,), 2.0, 2.0, 2.0),
        ((1.0, 3.0, 2.0), (1.0, 1.0, 1.0), 2.0, 1.0, 3.0),
        # A machine that becomes slower meanwhile is slow for both of a round.
        ((1.5, 15.0, 150.0), (1.0, 10.0, 100.0), 1.5, 1.5, 1.5),
        ((1.0, 2.0), (1.0, 1.0), 1.5, 1.0, 2.0),
    ],
    ids=["one-round", "median", "drift", "even-number-of-rounds"],
)
def test_a_ratio_when_rounds_were_measured_then_is_the_median_of_the_rounds_own_ratios(
    ours: tuple[float, ...], floor: tuple[float, ...], value: float, lowest: float, highest: float
) -> None:
    found = figure(RATIO, samples(ours=ours, floor=floor))
    assert (found.value, found.lowest, found.highest) == (value, lowest, highest)


def test_a_ratio_of_a_peer_that_had_fewer_rounds_is_that_of_its_rounds() -> None:
    found = figure(RATIO, samples(ours=(4.0, 6.0), floor=(2.0, 2.0, 100.0)))
    assert (found.value, found.lowest, found.highest) == (2.5, 2.0, 3.0)


def test_a_figure_in_seconds_or_memory_when_made_then_needs_no_floor() -> None:
    taken = {"ours": (Sample(3.0, peak_mib=90), Sample(1.0, peak_mib=110), Sample(2.0, peak_mib=100))}
    assert figure(Target("ours", unit=SECONDS), taken).value == 2.0
    assert figure(Target("ours", unit=MEMORY), taken).value == 100


def test_processor_time_when_hosts_share_it_then_is_told_in_milliseconds_for_each() -> None:
    taken = {"ours": (Sample(3.0, cpu_seconds=0.8), Sample(1.0, cpu_seconds=1.2), Sample(2.0, cpu_seconds=1.0))}
    assert figure(Target("ours", unit=PROCESSORS), taken).value == 1000
    assert figure(Target("ours", unit=PROCESSORS, hosts=64), taken).value == 1000 / 64


@pytest.mark.parametrize(
    ("at_most", "is_met"), [(2.0, True), (1.99, False), (None, None)], ids=["met", "missed", "only-told"]
)
def test_a_target_when_compared_with_its_bound_then_is_met_up_to_the_bound_itself(
    at_most: float | None, is_met: bool | None
) -> None:
    assert figure(Target("ours", "floor", at_most), samples(ours=(2.0,), floor=(1.0,))).is_met is is_met


def test_a_result_when_a_way_was_left_out_then_has_no_figure_about_it() -> None:
    result = Result("s", "t", samples(ours=(1.0,), floor=(1.0,)), (RATIO, Target("peer", "floor")))
    assert [one.target for one in result.figures] == [RATIO]
    assert result.rounds == 1


def test_a_result_when_saved_and_loaded_then_is_the_same(tmp_path: Path) -> None:
    result = Result(
        "s",
        "t",
        {"ours": (Sample(1.5, 0.5, 80.0), Sample(2.0)), "floor": (Sample(1.0), Sample(1.0))},
        (RATIO, Target("ours", at_most=300, unit=MEMORY)),
        {"cores": "2"},
        "2026-11-21 18:00",
        {"peer": "pip does not install it"},
        ("a note",),
    )
    path = save(result, tmp_path)
    assert load(path) == result
    assert [(one["value"], one["is_met"]) for one in json.loads(path.read_text())["figures"]] == [
        (1.75, True),
        (40, True),
    ]


def test_results_when_loaded_together_then_come_in_the_order_of_the_scenarios(tmp_path: Path) -> None:
    for name in ("b", "a", "unknown"):
        save(Result(name, "t", {}, ()), tmp_path)
    assert [result.scenario for result in load_all(tmp_path, ("a", "not-measured", "b"))] == ["a", "b", "unknown"]
