"""Backups that hosts make by themselves."""

from __future__ import annotations

import pytest

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.wanted import deploy
from slurmfab.cluster import Cluster
from slurmfab.phases.backups import SETTINGS, UNIT

LOOK = (
    "date +%s; systemctl show --property=Result --value slurmfab-backup.service; "
    "systemctl show --property=ActiveState --value slurmfab-backup.timer; stat --format=%Z -- {settings} || echo 0; "
    "find {directory} -maxdepth 1 -name '{name}-*.tar' -printf '%T@\\n' | sort -n | tail -n 1"
)
"""Prints the clock, how the last backup ended, the timer's state, when it was set up, and when the newest was made."""


def test_backups_are_made(saver: CheckedHost, cluster: Cluster) -> None:
    """the hosts' own backups are made, and the newest is not too old"""
    host = saver
    backup = cluster.backup
    assert backup is not None, "otherwise there are no hosts for this check"
    text = LOOK.format(settings=SETTINGS, directory=backup.directory, name=cluster.name)
    clock, result, timer, since, *newest = host.ask(text).splitlines()
    assert timer == "active", f"{UNIT}.timer is {timer}. Repair: {deploy(host.name)}"
    assert result == "success", (
        f"the last backup failed ({result}). See: journalctl --unit={UNIT}; then: systemctl start {UNIT}"
    )
    age = float(clock) - float(newest[0] if newest else since)
    hours = f"{age / 3600:.0f} h"
    if not newest and age < backup.oldest:
        pytest.skip("the first backup is still to come.")
    assert age < backup.oldest, (
        f"the newest backup in {backup.directory} is {hours} old, and one is due {backup.when}. "
        f"See: systemctl list-timers {UNIT}.timer; journalctl --unit={UNIT}"
    )
