"""Checks of GPU measurements: they run on schedule, and no node is below its threshold."""

from __future__ import annotations

from typing import Any

from slurmfab.base.paths import GPU_CHECK_HISTORY, GPU_CHECK_SETTINGS, GPU_CHECK_UNIT
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.daemons import timer_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.programs.gpu_check import history

READ_MEASUREMENT_TIMES = (
    f"date +%s; stat --format=%Z -- {GPU_CHECK_SETTINGS} || echo 0; "
    f"stat --format=%Y -- {GPU_CHECK_HISTORY}/history.jsonl 2>/dev/null || echo 0"
)
"""Prints the clock, and the times of the setup and of the last measurement."""

HISTORY = f"tail -n 20000 {GPU_CHECK_HISTORY}/history.jsonl 2>/dev/null || true"


def test_gpus_are_measured(gpu_checker: CheckedHost, cluster: Cluster) -> None:
    """the scheduled GPU measurements run"""
    checks = cluster.gpu_checks
    assert checks is not None, "otherwise there are no hosts for this check"
    if not checks.calendar:
        raise DoesNotApply(f"the cluster file sets no schedule; only {FAB} check-gpus measures GPUs")
    timer, _ = timer_of(gpu_checker, GPU_CHECK_UNIT)
    clock, since, last = gpu_checker.ask(READ_MEASUREMENT_TIMES).splitlines()
    assert timer == "active", f"{GPU_CHECK_UNIT}.timer is {timer}. Repair: {deploy(gpu_checker.name)}"
    age = int(clock) - max(int(since), int(last))
    if last == "0" and age < checks.oldest:
        raise DoesNotApply("no measurement is due yet")
    assert age < checks.oldest, (
        f"the last measurement is {age / 3600:.0f} h old; one is due {checks.when}. "
        f"See: systemctl list-timers {GPU_CHECK_UNIT}.timer; journalctl --unit={GPU_CHECK_UNIT}"
    )


def test_gpus_are_fast_enough(gpu_checker: CheckedHost) -> None:
    """no node was below its threshold in its last GPU measurement"""
    last = newest(gpu_checker.ask(HISTORY))
    if not last:
        raise DoesNotApply("nothing has been measured yet")
    short = [f"{name}: {entry['why']}" for name, entry in sorted(last.items()) if entry["outcome"] == "falls short"]
    assert not short, (
        f"{'; '.join(short)}. Repair: fix the node; then {FAB} check-gpus --hosts NODE brings it back into service"
    )


def newest(lines: str) -> dict[str, dict[str, Any]]:
    """The newest measurement of each single node, by its name, from the lines of the history (JSON)."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines.splitlines():
        entry = history.parse(line.encode())
        if entry is not None and len(entry.get("nodes", ())) == 1 and entry["outcome"] != "not measured":
            found[entry["nodes"][0]] = entry
    return found
