"""The results of drills as lines, JUnit and entries of records; which alert would have fired."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest
from made_pages import sources
from report_data import HOSTILE, record
from support import cluster

from slurmfab.commands.drill.drills import DRILLS
from slurmfab.commands.drill.results import Alert, Result, Verdict, alert_words, alerts, as_step, entries
from slurmfab.commands.report.section import Section
from slurmfab.commands.report.sections import drills as section
from slurmfab.core.plan.alert_rules import rules

WATCHED = cluster(
    "cluster: lab\ncontrollers: [c1, c2]\nnodes: [{hosts: n1}]\nmonitoring: true\nstate_directory: /s/s\n"
)
UNWATCHED = cluster("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n")
PASSED = Result(
    "link", "n1", "passed", 12.04, 25.0, 4.5, 25.0, "down (Not responding)", alerts=(Alert("A", 600, False),)
)
FAILED = Result("gpu", "n1", "failed", None, None, 0.2, 60.0, cause="not noticed", repair="health: true")
LEFT = Result("clock", "", "not run", cause="n1: a container")


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            PASSED,
            "link on n1: noticed after 12.0 s, out of service after 25.0 s: down (Not responding); well again 4.5 s "
            "after its end. Alert: A would fire after 10 min.",
        ),
        (FAILED, "gpu on n1: FAILED: not noticed. Repair: health: true. Alert: none, since the cluster file has no "
                 "monitoring."),
        (LEFT, "clock: not run: n1: a container."),
        (dataclasses.replace(LEFT, cause="n1: no answer. Is it up?"), "clock: not run: n1: no answer. Is it up?"),
        (
            dataclasses.replace(PASSED, is_resumed=True, sign="", alerts=()),
            "link on n1: noticed after 12.0 s, out of service after 25.0 s; well again 4.5 s after its end, resumed by "
            "slurmfab. Alert: none, since the cluster file has no monitoring.",
        ),
    ],
)  # fmt: skip
def test_a_result_is_told_in_one_line(result: Result, line: str) -> None:
    assert result.line == line


def test_a_reason_with_line_breaks_and_controls_stays_one_harmless_line() -> None:
    assert "\n" not in dataclasses.replace(PASSED, sign="a\nb\x1b[2J").line


def test_results_when_written_as_junit_then_fail_and_skip_with_their_causes() -> None:
    root = ElementTree.fromstring(Verdict("lab", (PASSED, FAILED, LEFT), 90.0).as_junit())
    (suite,) = root
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    assert [child.get("message") for child in suite.iterfind("testcase/*")] == [
        "n1: not noticed. Repair: health: true.", "n1: a container",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lasted", "told"),
    [
        (10.0, "HostDown would fire after 5 min, SlurmNodeDown would fire after 10 min"),
        (400.0, "HostDown would have fired, SlurmNodeDown would fire after 10 min"),
        (700.0, "HostDown would have fired, SlurmNodeDown would have fired"),
    ],
)
def test_an_alert_when_the_fault_lasted_as_long_as_its_rule_says_then_would_have_fired(
    lasted: float, told: str
) -> None:
    assert alert_words(alerts(WATCHED, DRILLS["power"], lasted)) == told


def test_a_cluster_when_it_has_no_monitoring_then_no_alert_is_claimed() -> None:
    assert alerts(UNWATCHED, DRILLS["power"], 1e6) == ()


def test_every_alert_of_a_drill_is_a_rule() -> None:
    known = {rule.alert for rule in rules(WATCHED)}
    assert {name for drill in DRILLS.values() for name in drill.alerts} <= known


def test_drills_in_records_are_told_by_the_report_with_their_times() -> None:
    hostile = dataclasses.replace(FAILED, cause=HOSTILE)
    kept = dataclasses.replace(record([as_step(PASSED), as_step(hostile)]), command="drill")
    first, second = entries([record([as_step(PASSED)]), kept])
    assert (first.drill, first.has_passed, first.times["noticed"]) == ("link", True, "12.0 s")
    assert (second.has_passed, "noticed" in second.times) == (False, False)
    made = section.section(dataclasses.replace(sources(), records=(kept,)))
    assert isinstance(made, Section)
    assert (made.badge, made.tone) == ("1 failed", "bad")
    assert "12.0 s" in made.html
    assert HOSTILE not in made.html


def test_a_report_when_nothing_was_drilled_then_has_no_such_section() -> None:
    assert section.section(dataclasses.replace(sources(), records=(record([]),))) is None
