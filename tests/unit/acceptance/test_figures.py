"""Figures in the output of jobs: which one counts, what is none, and how each is judged."""

from __future__ import annotations

import time
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from json_shapes import assert_fits
from support import THREE_HOSTS, cluster

from slurmfab.base.json_output import as_json
from slurmfab.commands.accept import queue
from slurmfab.commands.accept.queue import LONGEST_LINE, NoFigure, figure_in
from slurmfab.commands.accept.results import (
    FAILED,
    NO_FIGURE,
    NOT_STARTED,
    PASSED,
    TIMED_OUT,
    Result,
    Verdict,
    columns,
)
from slurmfab.commands.accept.wanted import DEFAULTS, PlannedRun, WantedFigure, WantedJob, planned_runs

FIGURE = WantedFigure("", "(.)", "GB/s", 100.0)


def job(text: str = "{script: ./x, pattern: '(.)'}", *figures: WantedFigure) -> WantedJob:
    known = cluster(THREE_HOSTS + f"acceptance: {{speed: {text}}}\n")
    said = known.acceptance["speed"]
    return WantedJob("speed", said, "#!/bin/sh\n", DEFAULTS, known.compute_nodes, "slurm", figures or (FIGURE,))


RUN = PlannedRun(job(), ("n1",), 1, 1)


def result(verdict: str = PASSED, value: float | None = 100.0, **said: object) -> Result:
    return replace(Result(RUN, verdict, FIGURE, value, nodes="n1", job_id="7"), **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "pattern", "value"),
    [
        ("speed: 1\nspeed: 2.5 GB/s\nother: 3\n", r"^speed: ([0-9.]+)", 2.5),
        ("speed: 1e3\r\n", r"^speed: (\S+)$", 1000.0),
        ("a=.5", "a=(.*)", 0.5),
        ("a=-7.", "a=(.*)", -7.0),
        ("a=  8  ", "a=(.*)", 8.0),
        ("a=8\x0ca=9", "a=([0-9])$", 9.0),
    ],
)
def test_the_figure_is_in_the_last_line_that_matches(output: str, pattern: str, value: float) -> None:
    assert figure_in(output, pattern) == value


@pytest.mark.parametrize(
    ("output", "pattern", "words"),
    [
        ("", "(.)", "no line of the output matches"),
        ("a=nan", "a=(.*)", "'nan' is not a number"),
        ("a=1e999", "a=(.*)", "'1e999' is not a number"),
        ("a=0x10", "a=(.*)", "'0x10' is not a number"),
        ("a=\u0661\u0662", "a=(.*)", "is not a number"),
        ("a=\x1b[2J", "a=(.*)", r"'\\x1b\[2J' is not a number"),
        ("a=" + "9" * 200, "a=(.*)", "is not a number"),
        ("x" * LONGEST_LINE + "a=1", "a=(.*)", "no line of the output matches"),
        ("b", "a=(.)|b", "no line of the output matches"),
    ],
)
def test_what_is_no_figure_is_told(output: str, pattern: str, words: str) -> None:
    with pytest.raises(NoFigure, match=words):
        figure_in(output, pattern)


def test_a_pattern_that_a_text_keeps_busy_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "SECONDS", 0.5)
    begun = time.monotonic()
    with pytest.raises(NoFigure, match="takes more than"):
        figure_in("a" * 60 + "!", "^(a+)+$")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("target", "tolerance", "is_lower", "value", "is_met"),
    [
        (100.0, 5.0, False, 95.0, True),
        (100.0, 5.0, False, 94.9, False),
        (100.0, 5.0, False, 300.0, True),
        (20.0, 10.0, True, 22.0, True),
        (20.0, 10.0, True, 22.1, False),
        (20.0, 10.0, True, 1.0, True),
        (0.0, 5.0, True, 0.0, True),
        (0.0, 5.0, True, 1.0, False),
        (None, 5.0, False, 1.0, True),
    ],
)
def test_a_figure_may_be_worse_by_its_tolerance(
    target: float | None, tolerance: float, is_lower: bool, value: float, is_met: bool
) -> None:
    wanted = WantedFigure("", "(.)", "", target, tolerance, is_lower)
    assert wanted.is_met(value) is is_met


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((PASSED, PASSED), 0),
        ((PASSED, FAILED), 1),
        ((PASSED, NO_FIGURE, NOT_STARTED), 1),
        ((TIMED_OUT,), 1),
        ((PASSED, NOT_STARTED), 3),
        ((), 3),
    ],
)
def test_the_exit_code_tells_bad_figures_from_jobs_that_never_started(verdicts: tuple[str, ...], code: int) -> None:
    verdict = Verdict("lab", "c1", tuple(result(one) for one in verdicts), 1.0)
    assert verdict.exit_code == code
    assert as_json(verdict)["exit_code"] == code
    assert_fits("accept", as_json(verdict))


def test_a_row_has_figure_target_difference_and_what_has_become_worse() -> None:
    table = columns([RUN.job], [RUN])
    worse = result(FAILED, 90.0, earlier=100.0, earlier_runs=3)
    assert table.header().split() == ["JOB", "NODES", "FIGURE", "TARGET", "DIFF", "VERDICT"]
    assert table.row(worse).split("  ")[-1].strip() == (
        "FAILED: worse than before: -10.0 % against the median of 3 earlier runs (100)"
    )
    assert table.row(result(value=95.5)).split() == ["speed", "n1", "95.5", "GB/s", "100", "-4.5", "%", "passed"]
    forged = result(NO_FIGURE, None, words="a\n\x1b[2Jb" + "x" * 1000)
    assert "a\\n\\x1b[2Jb" in table.row(forged)
    assert len(table.row(forged)) < 500


def test_junit_has_a_case_for_each_result_and_takes_any_text() -> None:
    results = (result(), result(FAILED, 90.0), result(NOT_STARTED, None, words="\x00 <&> \ud800"))
    suite, *_ = ET.fromstring(Verdict("lab", "c1", results, 1.0).as_junit().encode())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    messages = [one.get("message") for case in suite for one in case]
    assert messages[0] == "failed: 90 GB/s, wanted 100"
    assert "<&>" in (messages[1] or "")


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", ["n1", "n2"]),
        (", nodes: all", ["n[1-2]"]),
        (", nodes: 2", ["n[1-2]"]),
        (", nodes: 1", ["1 node"]),
        (", nodes: 1, hosts: n2", ["n2"]),
    ],
)
def test_a_job_runs_on_each_node_or_on_all_or_on_some(text: str, places: list[str]) -> None:
    wanted = job(f"{{script: ./x, pattern: '(.)'{text}}}")
    nodes = wanted.said.hosts or wanted.nodes
    found = planned_runs(replace(wanted, nodes=nodes), 2)
    assert [one.place for one in found] == places * 2
    assert [one.number for one in found] == list(range(1, len(found) + 1))
