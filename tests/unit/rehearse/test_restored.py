"""What the twin gets of a backup: state and database, and nothing that a user or an admin has to keep to himself."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import saved_archives

from slurmfab.commands.backup import archive
from slurmfab.commands.rehearse import restored
from slurmfab.on_hosts.agent.backup.archive import DATABASE, STATE


def test_the_archive_of_a_twin_when_made_then_it_has_no_key_and_its_jobs_end_at_once(tmp_path: Path) -> None:
    backup = archive.verified(saved_archives.archive(tmp_path))
    (tmp_path / "twin").mkdir()
    made = archive.verified(restored.without_secrets(backup, tmp_path / "twin"))
    assert set(made.parts) == {STATE, DATABASE}
    assert made.parts[DATABASE].read() == saved_archives.PARTS[DATABASE]
    with tarfile.open(fileobj=io.BytesIO(made.parts[STATE].read())) as state:
        found = {one.name: (file.read(), one.mode) for one in state if (file := state.extractfile(one))}
    script = b"#!/bin/sh\n# Of a rehearsal, which runs no job of the cluster.\n\0"
    assert found == {"job_state": (b"jobs", 0o600), "hash.7/job.17/script": (script, 0o600)}
