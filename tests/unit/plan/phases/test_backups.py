"""Scheduled backups: what each host saves, and what goes without them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.paths import BACKUP_SETTINGS, MUNGE_KEY, SLURMDBD_CONF
from slurmfab.core.plan.phases import backups
from slurmfab.core.plan.plan_input import PlanInput

BACKUP = "backup: {when: daily, directory: /srv/backups, keep: 5}\n"
KEY = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
FILES = {"cluster": "lab", "directory": "/srv/backups", "keep": 5, "files": "/etc/slurm"}
STATE = {"state": "/var/lib/slurm/slurmctld", "key": MUNGE_KEY}


def wanted(more: str, **facts: Any) -> PlanInput:
    return prepared_input(THREE_HOSTS + more, **facts)


def settings(found: PlanInput, host: str) -> dict[str, Any]:
    backup = found.cluster.backup
    assert backup
    return dict[str, Any](json.loads(backups.settings(found, backup, host)))


@pytest.mark.parametrize(
    ("more", "host", "saved"),
    [
        ("", "c1", STATE),
        ("database: c1\n", "c1", {**STATE, "database": "slurm_acct_db"}),
        ("database: d1\n", "c1", STATE),
        ("database: d1\n", "d1", {"database": "slurm_acct_db"}),
    ],
)
def test_each_host_saves_what_it_has(more: str, host: str, saved: dict[str, str]) -> None:
    found = wanted(BACKUP + more)
    assert settings(found, host) == {**FILES, **saved}
    ids = [one.id for one in backups.resources(found, host)]
    assert f"file:{BACKUP_SETTINGS}" in ids
    assert "timer:slurmfab-backup" in ids
    assert backups.packages(found, host) == ()
    assert backups.resources(found, "n2") == ()


def test_a_database_elsewhere_is_read_by_slurmdbds_own_login() -> None:
    more = "database: {host: c1, external: db.example.org, keep_password: true}\n"
    found = wanted(BACKUP + more)
    assert settings(found, "c1")["login"] == SLURMDBD_CONF


def test_backups_are_encrypted_where_the_file_says_to_whom() -> None:
    found = wanted(BACKUP.replace("keep: 5", f"keep: 5, encrypt_to: [{KEY}]"))
    assert settings(found, "c1")["encrypt_to"] == [KEY]
    assert backups.packages(found, "c1") == ("age",)
    assert backups.packages(found, "n1") == ()
    assert backups.packages(wanted(""), "c1") == ()


def test_the_timer_goes_first_and_its_file_last() -> None:
    found = wanted("", services={"slurmfab-backup.timer": "active"})
    assert [one.id for one in backups.resources(found, "n1")] == [
        "service:slurmfab-backup.timer",
        "program:/usr/local/lib/slurmfab/backup",
        f"absent:{BACKUP_SETTINGS}",
        "absent:/etc/systemd/system/slurmfab-backup.service",
        "absent:/etc/systemd/system/slurmfab-backup.timer",
    ]
    assert vars(backups.resources(found, "n1")[0])["running"] is False
    assert backups.resources(wanted("", services={"other.timer": "active"}), "n1") == ()
