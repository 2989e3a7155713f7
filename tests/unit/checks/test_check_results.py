"""Results: messages in two halves, counts, exit codes, JSON."""

from __future__ import annotations

import pytest
from json_shapes import assert_fits

from slurmfab.base.json_output import as_json
from slurmfab.commands.checks.results import Result, Verdict, cause_and_repair


def result(outcome: str, **more: object) -> Result:
    return Result("munge", "key", "the key", "n1", outcome, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "cause", "repair"),
    [
        ("it is dead. Repair: fab deploy --hosts n2", "it is dead.", "fab deploy --hosts n2"),
        ("nothing can be done", "nothing can be done", ""),
        ("it is dead. Repair: bury it\nassert False\n +  where False = x", "it is dead.", "bury it"),
    ],
)
def test_message_of_a_failed_check_falls_into_cause_and_repair(message: str, cause: str, repair: str) -> None:
    assert cause_and_repair(message) == (cause, repair)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((), 0),
        ((result("passed"), result("passed")), 0),
        ((result("passed"), result("not run")), 5),
        ((result("failed"), result("not run")), 1),
        ((result("passed"), result("failed")), 1),
        ((result("failed", is_unreachable=True), result("not run")), 3),
        ((result("failed", is_unreachable=True), result("failed")), 1),
    ],
)
def test_exit_code_tells_failures_from_hosts_that_were_not_there(results: tuple[Result, ...], code: int) -> None:
    assert Verdict("tiny", results, 1.0).exit_code == code


@pytest.mark.parametrize(
    ("outcomes", "headline"),
    [
        (["passed"], "1 check passed in 6.1 s"),
        (["passed", "passed", "failed"], "2 checks passed, 1 failed in 6.1 s"),
        (["failed", "not run", "not run"], "0 checks passed, 1 failed, 2 not run in 6.1 s"),
    ],
)
def test_headline_counts_what_there_is(outcomes: list[str], headline: str) -> None:
    assert Verdict("tiny", tuple(map(result, outcomes)), 6.12).headline == headline


def test_json_has_the_documented_shape() -> None:
    verdict = Verdict("tiny", (result("failed", cause="it is dead.", repair="bury it", seconds=0.25),), 1.5)
    assert_fits("check-cluster", as_json(verdict))
    assert as_json(verdict) == {
        "version": 1,
        "cluster": "tiny",
        "exit_code": 1,
        "passed": 0,
        "failed": 1,
        "not_run": 0,
        "seconds": 1.5,
        "checks": [
            {
                "group": "munge",
                "check": "key",
                "title": "the key",
                "host": "n1",
                "outcome": "failed",
                "cause": "it is dead.",
                "repair": "bury it",
                "drift": "",
                "because": "",
                "own": False,
                "seconds": 0.25,
            }
        ],
    }
