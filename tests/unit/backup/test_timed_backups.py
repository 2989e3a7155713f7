"""Backups that hosts make by themselves: the key of the cluster file, and what a deployment does for it."""

from __future__ import annotations

import json

import pytest
from saved_archives import CLUSTER_TEXT
from support import cluster, facts_of, prepared, situation

from slurmfab.agent.file import File
from slurmfab.agent.resource import Resource
from slurmfab.clusterfile.backups import Backup
from slurmfab.errors import ClusterFileError
from slurmfab.phases.backups import SETTINGS, resources

BACKUP = "backup: {directory: /srv/saved, when: Sun 03:30, keep: 3}\n"
APART = CLUSTER_TEXT.replace("database: c1", "database: d1")


def planned(text: str, host: str, **facts: object) -> tuple[Resource, ...]:
    known = cluster(text)
    return resources(situation(known, facts_of(known, prepared, **facts)), host)


def settings(text: str, host: str) -> dict[str, object]:
    """What the program on a host is told."""
    (file,) = (one for one in planned(text, host) if one.id == f"file:{SETTINGS}")
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
def test_when_backups_are_made_is_told_in_systemds_words(when: str, calendar: str, hours: int) -> None:
    backup = Backup(directory="/srv/saved", when=when)
    assert (backup.calendar, backup.oldest) == (calendar, hours * 3600)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{directory: /srv/saved, when: 25:00}", '"25:00" is none of hourly, daily, weekly, nor a time'),
        ("{directory: /srv/saved, when: sometimes}", "is none of"),
        ("{directory: saved}", "is no absolute path"),
        ("{directory: /srv/../etc}", "is no absolute path"),
        ("{when: daily}", "directory"),
        ("{directory: /srv/saved, keep: 0}", "keep"),
        ("{directory: /srv/saved, often: yes}", "often"),
        ("{directory: /var/lib/slurm/slurmctld/saved}", "which is saved, lie in each other"),
        ("{directory: /var/lib/slurm}", "which is saved, lie in each other"),
        ("{directory: /etc/slurm}", "which is saved, lie in each other"),
    ],
)
def test_a_backup_section_that_cannot_be_meant_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{CLUSTER_TEXT}backup: {text}\n")
    assert words in str(refused.value)
    assert str(refused.value).startswith("cluster.yaml:6:")


def test_the_controller_and_the_databases_host_make_backups_and_nobody_else() -> None:
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


def test_a_database_elsewhere_is_read_with_slurmdbds_own_login() -> None:
    text = CLUSTER_TEXT.replace("database: c1", "database: {host: c1, external: db.example.org, password_file: pw}")
    assert settings(text + BACKUP, "c1")["login"] == "/etc/slurm/slurmdbd.conf"


def test_the_timer_has_the_time_and_the_service_the_directory() -> None:
    files = {one.path: one.content for one in planned(CLUSTER_TEXT + BACKUP, "c1") if isinstance(one, File)}
    assert "OnCalendar=Sun *-*-* 03:30:00\n" in files["/etc/systemd/system/slurmfab-backup.timer"]
    assert "RequiresMountsFor=/srv/saved\n" in files["/etc/systemd/system/slurmfab-backup.service"]


def test_without_the_key_the_timer_goes_and_where_there_is_none_nothing_is_asked() -> None:
    left = planned(CLUSTER_TEXT, "c1", services={"slurmfab-backup.timer": "active"})
    assert [one.id for one in left] == [
        "service:slurmfab-backup.timer",
        "program:/usr/local/lib/slurmfab/backup",
        "absent:/etc/slurmfab-backup.json",
        "absent:/etc/systemd/system/slurmfab-backup.service",
        "absent:/etc/systemd/system/slurmfab-backup.timer",
    ]
    assert planned(CLUSTER_TEXT, "c1") == ()
