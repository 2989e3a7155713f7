"""Timed backups on hosts: the key of the cluster file, and the resources of a deployment."""

from __future__ import annotations

import json

import pytest
from saved_archives import CLUSTER_TEXT
from support import cluster, prepared_input

from slurmfab.base.errors import ClusterFileError
from slurmfab.base.paths import BACKUP_SETTINGS
from slurmfab.cluster.inventory.backups import Backup
from slurmfab.core.plan.phases.backups import resources
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import File

BACKUP = "backup: {directory: /srv/saved, when: Sun 03:30, keep: 3}\n"
APART = CLUSTER_TEXT.replace("database: c1", "database: d1")


def planned(text: str, host: str, **facts: object) -> tuple[Resource, ...]:
    return resources(prepared_input(text, **facts), host)


def settings(text: str, host: str) -> dict[str, object]:
    """What the program on a host is told."""
    (file,) = (one for one in planned(text, host) if one.id == f"file:{BACKUP_SETTINGS}")
    assert isinstance(file, File)
    told: dict[str, object] = json.loads(file.content)
    return told


@pytest.mark.parametrize(
    ("when", "calendar", "hours"),
    [
        ("hourly", "hourly", 3),
        ("daily", "daily", 49),
        ("weekly", "weekly", 337),
        ("03:30", "*-*-* 03:30:00", 49),
        ("Sun 23:59", "Sun *-*-* 23:59:00", 337),
    ],
)
def test_the_schedule_is_written_as_a_systemd_calendar_event(when: str, calendar: str, hours: int) -> None:
    backup = Backup(directory="/srv/saved", when=when)
    assert (backup.calendar, backup.oldest) == (calendar, hours * 3600)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{directory: /srv/saved, when: 25:00}", '"25:00" is neither one of hourly, daily, weekly nor a time'),
        ("{directory: /srv/saved, when: sometimes}", "is neither one of"),
        ("{directory: saved}", "is not an absolute path"),
        ("{directory: /srv/../etc}", "is not an absolute path"),
        ("{when: daily}", "directory"),
        ("{directory: /srv/saved, keep: 0}", "keep"),
        ("{directory: /srv/saved, often: yes}", "often"),
        ("{directory: /var/lib/slurm/slurmctld/saved}", "which is backed up"),
        ("{directory: /var/lib/slurm}", "which is backed up"),
        ("{directory: /etc/slurm}", "which is backed up"),
    ],
)
def test_an_invalid_backup_section_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{CLUSTER_TEXT}backup: {text}\n")
    assert words in str(refused.value)
    assert str(refused.value).startswith("cluster.yaml:6:")


def test_only_the_controller_and_the_database_host_make_backups() -> None:
    assert [one.id for one in planned(APART + BACKUP, "c1")] == [
        "directory:/srv/saved",
        "program:/usr/local/lib/slurmfab/backup",
        "file:/etc/slurmfab-backup.json",
        "file:/etc/systemd/system/slurmfab-backup.service",
        "file:/etc/systemd/system/slurmfab-backup.timer",
        "timer:slurmfab-backup",
    ]
    assert planned(APART + BACKUP, "n1") == ()
    assert len(planned(APART + BACKUP, "d1")) == len(planned(APART + BACKUP, "c1"))


def test_each_host_saves_what_it_has() -> None:
    controller, database = settings(APART + BACKUP, "c1"), settings(APART + BACKUP, "d1")
    assert (controller["state"], "database" in controller) == ("/var/lib/slurm/slurmctld", False)
    assert (database["database"], "state" in database, "key" in database) == ("slurm_acct_db", False, False)
    both = settings(CLUSTER_TEXT + BACKUP, "c1")
    assert {"state", "key", "database"} <= set(both)
    assert "login" not in both


def test_an_external_database_is_read_with_slurmdbds_login() -> None:
    text = CLUSTER_TEXT.replace("database: c1", "database: {host: c1, external: db.example.org, password_file: pw}")
    assert settings(text + BACKUP, "c1")["login"] == "/etc/slurm/slurmdbd.conf"


def test_the_timer_has_the_time_and_the_service_the_directory() -> None:
    files = {one.path: one.content for one in planned(CLUSTER_TEXT + BACKUP, "c1") if isinstance(one, File)}
    assert "OnCalendar=Sun *-*-* 03:30:00\n" in files["/etc/systemd/system/slurmfab-backup.timer"]
    assert "RequiresMountsFor=/srv/saved\n" in files["/etc/systemd/system/slurmfab-backup.service"]


def test_without_the_key_the_timer_is_removed_where_there_is_one() -> None:
    left = planned(CLUSTER_TEXT, "c1", services={"slurmfab-backup.timer": "active"})
    assert [one.id for one in left] == [
        "service:slurmfab-backup.timer",
        "program:/usr/local/lib/slurmfab/backup",
        "absent:/etc/slurmfab-backup.json",
        "absent:/etc/systemd/system/slurmfab-backup.service",
        "absent:/etc/systemd/system/slurmfab-backup.timer",
    ]
    assert planned(CLUSTER_TEXT, "c1") == ()
