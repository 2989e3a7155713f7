"""Checks that each node's health check runs, and that it finds no problem."""

from __future__ import annotations

from slurmfab.base.paths import HEALTH_CHECK, HEALTH_SETTINGS
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.applies import DoesNotApply, Seen
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.core import json_objects

STATE_FILE = "/run/slurmfab/health.json"  # file that each scheduled run of the health check writes

SLACK = 60
"""Seconds that a health check may be late: slurmctld spreads them over the nodes, and starts none while it restarts."""

LOOK_SECONDS = 60  # time limit of one health check

WHEN = f"date +%s; stat --format=%Y {STATE_FILE} || echo 0; stat --format=%Z {HEALTH_SETTINGS}"
"""Prints the clock, the time of the last health check, and the time when its settings were written."""


def test_health_is_looked_at(watched: CheckedHost, cluster: Cluster) -> None:
    """the health check runs as often as the cluster file says"""
    assert cluster.health is not None, "otherwise there are no hosts for this check"
    clock, last, since = (int(line) for line in watched.ask(WHEN).splitlines())
    late = 2 * cluster.health.interval + SLACK
    if clock - last > late and clock - since <= late:
        raise DoesNotApply("no health check is due yet")
    minutes = f"{(clock - last) / 60:.0f}"
    latest = (
        f"the last health check ran {minutes} minutes ago" if last else "no health check ran since the host's start"
    )
    assert clock - last <= late, (
        f"{latest}; one is due every {cluster.health.interval} s. "
        f"See: grep health_check /var/log/slurmd/slurmd.log; Repair: {deploy(watched.name)}"
    )


def test_node_is_well(watched: CheckedHost) -> None:
    """the health check finds no problem"""
    done = watched.run(f"{HEALTH_CHECK} look", seconds=LOOK_SECONDS)
    assert done.rc == 0, f"the health check fails: {last_words(done)}. Repair: {deploy(watched.name)}"
    answer = json_objects.parse(done.stdout.encode()) or {}
    causes = answer.get("causes")
    assert isinstance(causes, dict), f"the health check prints no causes: {last_words(done)}"
    found = "; ".join(str(causes[key]) for key in sorted(causes))
    if causes:
        raise Seen(
            next(iter(causes)) if len(causes) == 1 else "",
            f"{found}. Repair: fix it; a node that was drained for it then returns to service by itself",
        )
