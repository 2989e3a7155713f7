"""Checks of automatic backups."""

from __future__ import annotations

from slurmfab.base.paths import BACKUP_SETTINGS, BACKUP_UNIT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.daemons import timer_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.backup.encryption import SUFFIX as ENCRYPTED

READ_BACKUP_STATE = (
    "date +%s; stat --format=%Z -- {settings} || echo 0; "
    "find {directory} -maxdepth 1 -name '{name}-*.tar' -printf '%T@ %p\\n' | sort -n | tail -n 1"
)
"""Prints the clock, and the times of the setup and of the newest backup, with the path of that."""

READABLE_BY_ALL = {"manifest.json"}  # what is not encrypted in an encrypted backup of a host


def test_backups_are_made(saver: CheckedHost, cluster: Cluster) -> None:
    """automatic backups succeed, and the newest is recent, and encrypted if that is wanted"""
    host = saver
    backup = cluster.backup
    assert backup is not None, "otherwise there are no hosts for this check"
    text = READ_BACKUP_STATE.format(settings=BACKUP_SETTINGS, directory=backup.directory, name=cluster.name)
    timer, result = timer_of(host, BACKUP_UNIT)
    clock, since, *newest = host.ask(text).splitlines()
    assert timer == "active", f"{BACKUP_UNIT}.timer is {timer}. Repair: {deploy(host.name)}"
    assert result == "success", (
        f"the last backup failed ({result}). See: journalctl --unit={BACKUP_UNIT}; then: systemctl start {BACKUP_UNIT}"
    )
    made, _, path = newest[0].partition(" ") if newest else (since, "", "")
    age = float(clock) - float(made)
    hours = f"{age / 3600:.0f} h"
    if not newest and age < backup.oldest:
        raise DoesNotApply("no backup is due yet")
    assert age < backup.oldest, (
        f"the newest backup in {backup.directory} is {hours} old; one is due {backup.when}. "
        f"See: systemctl list-timers {BACKUP_UNIT}.timer; journalctl --unit={BACKUP_UNIT}"
    )
    if backup.encrypt_to and float(made) > float(since):
        names = set(host.ask("tar --list --file %s", path).split())
        plain = sorted(name for name in names - READABLE_BY_ALL if not name.endswith(ENCRYPTED))
        assert not plain, f"{path}: {', '.join(plain)} in it are not encrypted. Repair: {deploy(host.name)}"
