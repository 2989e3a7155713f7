"""What the checks of measurements find on a stand-in controller."""

from __future__ import annotations

import json

import pytest
from ruled_shells import RuledShell, timer
from support import cluster

from slurmfab.base.paths import GPU_CHECK_UNIT
from slurmfab.commands.checks import test_performance
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost

TEXT = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: n1, Gres: "gpu:a100:4"}]
gpu_checks: {when: %s, wait: 60}
"""
DAY = 24 * 3600


def look(state: str, since: int, last: int, when: str = "daily") -> None:
    shell = RuledShell({"date": f"{100 * DAY}\n{since}\n{last}\n", **timer(GPU_CHECK_UNIT, state)})
    test_performance.test_gpus_are_measured(CheckedHost("c1", shell), cluster(TEXT % when))


@pytest.mark.parametrize(
    ("state", "since", "last", "words"),
    [
        ("active", 90 * DAY, 99 * DAY, ""),
        ("active", 99 * DAY, 90 * DAY, ""),
        ("active", 90 * DAY, 97 * DAY, "the last measurement is 72 h old; one is due daily"),
        ("active", 90 * DAY, 0, "the last measurement is 240 h old"),
        ("inactive", 90 * DAY, 99 * DAY, "slurmfab-gpu-check.timer is inactive. Repair: fab deploy --hosts c1"),
    ],
    ids=["well", "set up anew", "old", "never", "no timer"],
)
def test_measurements_have_to_be_younger_than_two_periods(state: str, since: int, last: int, words: str) -> None:
    if not words:
        look(state, since, last)
        return
    with pytest.raises(AssertionError, match=words.replace(".", "\\.")):
        look(state, since, last)


@pytest.mark.parametrize(("when", "last", "since"), [("never", 0, 0), ("daily", 0, 99 * DAY)])
def test_where_nothing_is_due_yet_nothing_is_found(when: str, last: int, since: int) -> None:
    with pytest.raises(DoesNotApply):
        look("active", since, last, when)


def history(*entries: tuple[str, str]) -> CheckedHost:
    lines = [json.dumps({"nodes": names.split("+"), "outcome": outcome, "why": "slow"}) for names, outcome in entries]
    return CheckedHost("c1", RuledShell({"tail": "\n".join([*lines, '{"nodes": [], "end": true}', "{damaged"])}))


def test_a_node_that_fell_short_the_last_time_is_found_until_it_is_well() -> None:
    short = (("n1", "passed"), ("n1", "falls short"), ("n1", "not measured"), ("n2", "passed"))
    with pytest.raises(AssertionError, match=r"^n1: slow\. Repair: fix the node"):
        test_performance.test_gpus_are_fast_enough(history(*short))
    test_performance.test_gpus_are_fast_enough(history(*short, ("n1", "passed"), ("n1+n2", "falls short")))


def test_without_any_measurement_nothing_is_known() -> None:
    with pytest.raises(DoesNotApply):
        test_performance.test_gpus_are_fast_enough(history())
