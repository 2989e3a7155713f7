"""Making a backup: complete and private, or no file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from saved_archives import CLUSTER_TEXT, PARTS, archive
from saving_hosts import begun

from slurmfab.base.errors import AgentFailed, ConnectionLost, HostError, InputError, SlurmfabError
from slurmfab.commands.backup import saving
from slurmfab.commands.backup.archive import Backup, all_in, directory, verified
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.backup.archive import DATABASE, DATABASE_FILES, FILES, STATE, SUFFIX

APART = CLUSTER_TEXT.replace("database: c1", "database: d1")
EXTERNAL = CLUSTER_TEXT.replace("database: c1", "database: {host: c1, external: db.example.org, password_file: pw}")


def saved(run: Run, to: str = "") -> Backup:
    """The backup that a run makes."""
    made = saving.new_archive(run, to)
    try:
        return verified(saving.save(run, made))
    finally:
        made.abandon()


def test_a_backup_is_written_beside_the_cluster_file_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    run, _ = begun(tmp_path)
    backup = saved(run)
    assert backup.path.parent == directory(run.inventory.path)
    assert backup.path.name == f"lab-{run.started:%Y%m%dT%H%M%SZ}{SUFFIX}"
    assert backup.path.stat().st_mode & 0o777 == 0o600
    assert backup.path.parent.stat().st_mode & 0o777 == 0o700
    assert backup.read("cluster.yaml").decode() == CLUSTER_TEXT
    assert backup.read(STATE) == PARTS[STATE]
    assert (backup.next_job_id, backup.jobs) == (18, {16, 17})


def test_slurmctlds_state_is_saved_from_its_own_directory_before_the_database(tmp_path: Path) -> None:
    run, hosts = begun(tmp_path)
    saved(run)
    assert [(host, request["part"]) for host, request in hosts.saved] == [
        ("c1", "files"),
        ("c1", "state"),
        ("c1", "database"),
    ]
    assert hosts.saved[1][1]["directory"] == "/moved"
    assert hosts.saved[2][1]["name"] == "slurm_acct_db"


def test_the_slurmdbd_host_is_asked_for_the_database_and_its_files(tmp_path: Path) -> None:
    run, hosts = begun(tmp_path, APART)
    assert {DATABASE, DATABASE_FILES, FILES} <= set(saved(run).parts)
    assert [(host, request["part"]) for host, request in hosts.saved if host == "d1"] == [
        ("d1", "files"),
        ("d1", "database"),
    ]


def test_the_backup_of_a_cluster_without_a_database_has_that_reason(tmp_path: Path) -> None:
    run, _ = begun(tmp_path, CLUSTER_TEXT.replace("database: c1\n", ""))
    assert saved(run).left_out == {DATABASE: "the cluster file has no database"}


def test_an_external_database_that_cannot_be_read_is_left_out_with_the_reason(tmp_path: Path) -> None:
    error = AgentFailed("c1", "mariadb-dump is not installed; its package is mariadb-client.")
    run, hosts = begun(tmp_path, EXTERNAL, database=error)
    backup = saved(run)
    assert hosts.saved[-1][1]["settings"] == "/etc/slurm/slurmdbd.conf"
    assert DATABASE not in backup.parts
    assert "mariadb-dump is not installed" in backup.left_out[DATABASE]


@pytest.mark.parametrize("part", ["files", "state", "database"])
@pytest.mark.parametrize("error", [AgentFailed("c1", "the disk is broken."), ConnectionLost("c1", "it is gone.")])
def test_a_backup_with_a_failed_part_leaves_no_file(tmp_path: Path, part: str, error: HostError) -> None:
    run, _ = begun(tmp_path, **{part: error})
    with pytest.raises(SlurmfabError):
        saved(run)
    assert list(directory(run.inventory.path).iterdir()) == []


def test_a_backup_before_the_first_deployment_is_refused(tmp_path: Path) -> None:
    run, hosts = begun(tmp_path)
    hosts.facts["c1"] = replace(hosts.facts["c1"], slurm_conf="")
    with pytest.raises(SlurmfabError, match="First: fab deploy"):
        saved(run)


def test_no_incomplete_backup_is_made_if_the_database_host_is_unreachable(tmp_path: Path) -> None:
    run, hosts = begun(tmp_path, APART)
    del hosts.facts["d1"]
    with pytest.raises(SlurmfabError, match="would be incomplete"):
        saved(run)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "old.tar").write_text("precious")
    run, _ = begun(tmp_path)
    with pytest.raises(InputError, match="exists already"):
        saved(run, str(tmp_path / "old.tar"))
    assert (tmp_path / "old.tar").read_text() == "precious"


def test_a_backup_can_be_written_to_a_named_file_or_directory(tmp_path: Path) -> None:
    run, _ = begun(tmp_path)
    assert saved(run, str(tmp_path / "mine")).path == tmp_path / "mine"
    assert saved(run, f"{tmp_path}/new/").path.parent == tmp_path / "new"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_list_shows_valid_and_damaged_backups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "cluster.backups"
    assert saving.list_backups(str(tmp_path / "cluster.yaml")) == 0
    assert "There are no backups" in capsys.readouterr().out
    place.mkdir()
    archive(place)
    (place / "broken.tar").write_bytes(os.urandom(5000))
    assert saving.list_backups(str(tmp_path / "cluster.yaml")) == 1
    told = capsys.readouterr().out
    assert "the last job is 17" in told
    assert "broken.tar: it is not a backup made by slurmfab" in told
    assert len(all_in(place)) == 2
