"""The health check that each compute node's slurmd runs: that it does, and that it finds nothing."""

from __future__ import annotations

import json

import pytest

from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import deploy
from slurmfab.cluster import Cluster
from slurmfab.phases.scripts import HEALTH_CHECK, HEALTH_SETTINGS

MEMORY = "/run/slurmfab/health.json"
SLACK = 60
"""Seconds that a look may be late: slurmctld spreads them over the nodes, and asks none while it restarts."""

LOOK_SECONDS = 60
WHEN = f"date +%s; stat --format=%Y {MEMORY} || echo 0; stat --format=%Z {HEALTH_SETTINGS}"
"""Prints the clock, when the node was looked at, and when what is looked at was set up."""


def test_health_is_looked_at(watched: CheckedHost, cluster: Cluster) -> None:
    """the node's health is looked at as often as the cluster file says"""
    assert cluster.health is not None, "otherwise there are no hosts for this check"
    clock, last, since = (int(line) for line in watched.ask(WHEN).splitlines())
    late = 2 * cluster.health.interval + SLACK
    if clock - last > late and clock - since <= late:
        pytest.skip("the first look is still to come.")
    when = f"{(clock - last) / 60:.0f} minutes ago" if last else "never since the host's start"
    assert clock - last <= late, (
        f"its health was looked at last {when}, and every {cluster.health.interval} s is due. "
        f"See: grep health_check /var/log/slurm/slurmd.log; Repair: {deploy(watched.name)}"
    )


def test_node_is_well(watched: CheckedHost) -> None:
    """the node's own health check finds nothing"""
    done = watched.run(f"{HEALTH_CHECK} look", seconds=LOOK_SECONDS)
    assert done.rc == 0, f"the health check fails: {last_words(done)}. Repair: {deploy(watched.name)}"
    causes = json.loads(done.stdout)["causes"]
    found = "; ".join(causes[key] for key in sorted(causes))
    assert not causes, f"{found}. Repair: mend that; drained for it, the node then comes back by itself"
