"""GPUs as they were measured last: whether they still are, and which nodes fall short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.wanted import deploy
from slurmfab.cluster import Cluster
from slurmfab.phases.gpu_checks import DIRECTORY, SETTINGS, UNIT

LOOK = (
    f"date +%s; systemctl show --property=ActiveState --value {UNIT}.timer; "
    f"stat --format=%Z -- {SETTINGS} || echo 0; "
    f"stat --format=%Y -- {DIRECTORY}/history.jsonl 2>/dev/null || echo 0"
)
"""Prints the clock, the timer's state, when it was set up, and when something was measured last."""

HISTORY = f"tail -n 20000 {DIRECTORY}/history.jsonl 2>/dev/null || true"


def test_gpus_are_measured(gpu_checker: CheckedHost, cluster: Cluster) -> None:
    """the GPUs are measured, and the last time is not too long ago"""
    checks = cluster.gpu_checks
    assert checks is not None, "otherwise there are no hosts for this check"
    if not checks.calendar:
        pytest.skip("the cluster file has them measured only by fab check-gpus.")
    clock, timer, since, last = gpu_checker.ask(LOOK).splitlines()
    assert timer == "active", f"{UNIT}.timer is {timer}. Repair: {deploy(gpu_checker.name)}"
    age = int(clock) - max(int(since), int(last))
    if last == "0" and age < checks.oldest:
        pytest.skip("the first time is still to come.")
    assert age < checks.oldest, (
        f"the last measurement is {age / 3600:.0f} h old, and one is due {checks.when}. "
        f"See: systemctl list-timers {UNIT}.timer; journalctl --unit={UNIT}"
    )


def test_gpus_are_fast_enough(gpu_checker: CheckedHost) -> None:
    """no node fell short when its GPUs were measured last"""
    last = newest(gpu_checker.ask(HISTORY))
    if not last:
        pytest.skip("nothing has been measured yet.")
    short = [f"{name}: {entry['why']}" for name, entry in sorted(last.items()) if entry["outcome"] == "falls short"]
    assert not short, (
        f"{'; '.join(short)}. Repair: mend the node; then fab check-gpus --hosts NODE brings it back into service"
    )


def newest(lines: str) -> dict[str, dict[str, Any]]:
    """The newest entry of each node that was measured by itself, from the lines of the history."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if len(entry.get("nodes", ())) == 1 and entry["outcome"] != "not measured":
            found[entry["nodes"][0]] = entry
    return found
