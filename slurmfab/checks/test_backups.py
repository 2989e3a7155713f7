"""Checks of automatic backups."""

from __future__ import annotations

import pytest

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.wanted import deploy
from slurmfab.inventory.cluster import Cluster
from slurmfab.paths import BACKUP_SETTINGS, BACKUP_UNIT

READ_BACKUP_STATE = (
    "date +%s; systemctl show --property=Result --value slurmfab-backup.service; "
    "systemctl show --property=ActiveState --value slurmfab-backup.timer; stat --format=%Z -- {settings} || echo 0; "
    "find {directory} -maxdepth 1 -name '{name}-*.tar' -printf '%T@\\n' | sort -n | tail -n 1"
)
"""Prints the clock, the result of the last backup, the timer's state, and the times of its setup and newest backup."""


def test_backups_are_made(saver: CheckedHost, cluster: Cluster) -> None:
    """automatic backups succeed, and the newest is recent"""
    host = saver
    backup = cluster.backup
    assert backup is not None, "otherwise there are no hosts for this check"
    text = READ_BACKUP_STATE.format(settings=BACKUP_SETTINGS, directory=backup.directory, name=cluster.name)
    clock, result, timer, since, *newest = host.ask(text).splitlines()
    assert timer == "active", f"{BACKUP_UNIT}.timer is {timer}. Repair: {deploy(host.name)}"
    assert result == "success", (
        f"the last backup failed ({result}). See: journalctl --unit={BACKUP_UNIT}; then: systemctl start {BACKUP_UNIT}"
    )
    age = float(clock) - float(newest[0] if newest else since)
    hours = f"{age / 3600:.0f} h"
    if not newest and age < backup.oldest:
        pytest.skip("no backup is due yet.")
    assert age < backup.oldest, (
        f"the newest backup in {backup.directory} is {hours} old; one is due {backup.when}. "
        f"See: systemctl list-timers {BACKUP_UNIT}.timer; journalctl --unit={BACKUP_UNIT}"
    )
