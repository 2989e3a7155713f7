"""Histories of GPU checks and their plots."""

from __future__ import annotations

from report_data import measured

from slurmfab.commands.report.gpu_history import Band, bands, histories, range_of, sparkline, type_plot


def test_histories_when_a_node_falls_short_then_it_is_first_and_then_the_largest_losses() -> None:
    entries = [
        measured(0, "g1", 230), measured(0, "g2", 230), measured(0, "g3", 230), measured(0, "g4", 230),
        measured(1, "g1", 229), measured(1, "g2", 180), measured(1, "g3", 90, "falls short", action="drained"),
        measured(1, "g4", None, "not measured", why="the node was busy"), {"run": "r1", "nodes": [], "end": True},
    ]  # fmt: skip
    times, found = histories(entries)
    assert times == ("2026-11-01 03:30", "2026-11-02 03:30")
    assert [one.name for one in found] == ["g3", "g4", "g2", "g1"]
    assert (found[0].last.words, found[1].last.busbw, found[1].figures) == ("drained", None, (230.0,))


def test_histories_when_there_are_many_checks_then_the_newest_30_are_shown() -> None:
    times, (found,) = histories([measured(check % 28, "g1", 200, run=f"run {check}") for check in range(50)])
    assert (len(times), len(found.points)) == (30, 30)


def test_histories_when_a_node_is_measured_twice_in_a_check_then_the_second_counts() -> None:
    _, (found,) = histories([measured(0, "g1", 90, "falls short"), measured(0, "g1", 200)])
    assert found.figures == (200.0,)


def test_histories_when_two_nodes_are_measured_together_then_both_are_the_name() -> None:
    _, (found,) = histories([measured(0, "g1+g2", 40)])
    assert found.name == "g1 and g2"


def test_bands_when_nodes_are_many_then_each_check_has_lowest_median_and_highest() -> None:
    _, found = histories(
        [measured(0, "g1", 100), measured(0, "g2", 200), measured(0, "g3", 210), measured(1, "g1", 90)]
    )
    assert bands(found) == (Band(0, 100, 200, 210, 3), Band(1, 90, 90, 90, 1))


def test_sparkline_when_a_check_is_missing_then_the_line_has_a_gap_and_a_cross() -> None:
    figures = (200, 210, None, 190, 205)
    entries = [
        measured(check, "g1", busbw, "passed" if busbw else "not measured") for check, busbw in enumerate(figures)
    ]
    _, (found,) = histories(entries)
    plot = sparkline(found, 5, range_of([found]))
    assert plot.path.count("M") == 2
    assert [(dot.css, dot.x) for dot in plot.marks] == [("none", 80.0), ("passed", 155.0)]
    assert plot.words == "g1: 4 measured, 190 to 210 GB/s; last on 2026-11-05 03:30: 205 GB/s, passed"


def test_sparkline_when_a_figure_is_below_the_threshold_then_it_is_below_its_line() -> None:
    _, (found,) = histories([measured(0, "g1", 200), measured(1, "g1", 98.2, "falls short")])
    plot = sparkline(found, 2, range_of([found]))
    assert plot.line is not None
    assert plot.marks[0].y > plot.line
    assert plot.marks[0].title == "2026-11-02 03:30: 98.2 GB/s, falls short (wanted 120)"


def test_type_plot_when_nothing_was_measured_then_it_is_empty_and_says_so() -> None:
    times, found = histories([measured(0, "g1", None, "not measured", wanted=None)])
    plot = type_plot("a100 x4", found, times)
    assert (plot.area, plot.path, plot.line, plot.words) == ("", "", None, "a100 x4, 1 measured: no figures")
