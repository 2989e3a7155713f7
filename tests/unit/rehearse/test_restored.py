"""What the twin gets of a backup: state and database, and nothing that a user or an admin has to keep to himself."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import saved_archives

from slurmfab.commands.backup import archive
from slurmfab.commands.rehearse import restored
from slurmfab.on_hosts.agent.backup.archive import DATABASE, KEY, STATE


def test_the_archive_of_a_twin_when_made_then_it_has_no_key_and_no_nodes_and_its_jobs_end_at_once(
    tmp_path: Path,
) -> None:
    state = {"job_state": b"jobs", "hash.7/job.17/script": b"#!/bin/sh\n", "node_state": b"n", "node_state.old": b"n"}
    parts = {**saved_archives.PARTS, STATE: saved_archives.compressed_tar(state)}
    backup = archive.verified(saved_archives.archive(tmp_path, parts))
    (tmp_path / "twin").mkdir()
    made = archive.verified(restored.copied(backup, tmp_path / "twin"))
    assert set(made.parts) == {STATE, DATABASE}
    assert made.parts[DATABASE].read() == saved_archives.PARTS[DATABASE]
    with tarfile.open(fileobj=io.BytesIO(made.parts[STATE].read())) as tar:
        found = {one.name: (file.read(), one.mode) for one in tar if (file := tar.extractfile(one))}
    script = b"#!/bin/sh\n# Of a rehearsal, which runs no job of the cluster.\n\0"
    assert found == {"job_state": (b"jobs", 0o600), "hash.7/job.17/script": (script, 0o600)}


def test_a_backup_that_is_restored_on_a_twin_when_trusted_then_is_a_copy_with_its_key_whose_jobs_end_at_once(
    tmp_path: Path,
) -> None:
    path = saved_archives.archive(tmp_path)
    words = ("restore", str(path), "--trust-archive", "--overwrite")
    backup = restored.to_restore(words)
    assert backup is not None
    (tmp_path / "twin").mkdir()
    name, copy, *others = restored.words_for_twin(words, backup, tmp_path / "cluster.yaml", tmp_path / "twin")
    assert (name, others) == ("restore", ["--overwrite", "--trust-archive"])
    made = archive.verified(Path(copy))
    assert set(made.parts) == set(backup.parts)
    assert made.parts[KEY].read() == saved_archives.PARTS[KEY]
    assert made.parts[STATE].sha256 != backup.parts[STATE].sha256


def test_a_backup_that_restore_refuses_is_left_to_it(tmp_path: Path) -> None:
    path = saved_archives.archive(tmp_path)
    words = ("restore", str(path), "--overwrite")
    assert restored.words_for_twin(words, restored.to_restore(words), tmp_path / "cluster.yaml", tmp_path) == words
    path.write_bytes(path.read_bytes()[:700])
    assert restored.to_restore(words) is None


def test_a_command_that_restores_nothing_has_no_archive() -> None:
    assert restored.to_restore(("deploy",)) is None
