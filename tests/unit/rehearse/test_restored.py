"""What the twin gets of a backup: state and database, and nothing that a user or an admin has to keep to himself."""

from __future__ import annotations

import io
import subprocess
import tarfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import saved_archives

from slurmfab.base import signatures
from slurmfab.base.errors import InputError
from slurmfab.commands.backup import archive
from slurmfab.commands.rehearse import programs, restored
from slurmfab.on_hosts.agent.backup.archive import DATABASE, FILES, KEY, STATE


def test_the_archive_of_a_twin_when_made_then_it_has_no_key_and_no_nodes_and_its_jobs_end_at_once(
    tmp_path: Path,
) -> None:
    state = {"job_state": b"jobs", "hash.7/job.17/script": b"#!/bin/sh\n", "node_state": b"n", "node_state.old": b"n"}
    state |= {"trigger_state": b"t", "trigger_state.old": b"t", "jwt_hs256.key": b"secret"}
    state |= {"tokens": b"secret", "hash.7/job.17/environment": b"\1\0\0\0TOKEN=secret\0", "job_state.old": b"jobs"}
    parts = {**saved_archives.PARTS, STATE: saved_archives.compressed_tar(state)}
    backup = archive.verified(saved_archives.archive(tmp_path, parts))
    (tmp_path / "twin").mkdir()
    made = archive.verified(restored.copied(backup, tmp_path / "twin"))
    assert set(made.parts) == {STATE, DATABASE}
    assert made.parts[DATABASE].read() == saved_archives.PARTS[DATABASE]
    with tarfile.open(fileobj=io.BytesIO(made.parts[STATE].read())) as tar:
        found = {one.name: (file.read(), one.mode) for one in tar if (file := tar.extractfile(one))}
    script = b"#!/bin/sh\n# Of a rehearsal, which runs no job of the cluster.\n\0"
    key, mode = found.pop("jwt_hs256.key")
    assert (key != b"secret", len(key), mode) == (True, 6, 0o600)
    key, _ = found.pop("tokens")
    assert (key != b"secret", len(key)) == (True, 6)
    assert found == {
        "job_state": (b"jobs", 0o600),
        "job_state.old": (b"jobs", 0o600),
        "hash.7/job.17/script": (script, 0o600),
        "hash.7/job.17/environment": (b"\1\0\0\0PATH=/usr/bin:/bin\0", 0o600),
    }


def test_files_of_slurm_in_the_archive_of_a_twin_have_no_secret_and_run_nothing(tmp_path: Path) -> None:
    passwords = b"DbdHost=ctl\nStoragePass = secret # secret\nAccountingStoragePass=/run/munge/secret\n"
    files = {"slurmdbd.conf": passwords, "tokens": b"a secret", "prolog.d/10-x": b"#!/bin/sh\nsecret\n"}
    files |= {"job_submit.lua": b"-- secret", "topology.yaml": b"- a", "jwt.key": b"a secret"}
    parts = {**saved_archives.PARTS, FILES: saved_archives.compressed_tar(files)}
    backup = archive.verified(saved_archives.archive(tmp_path, parts))
    made = archive.verified(restored.copied(backup, place(tmp_path), tuple(backup.parts)))
    with tarfile.open(fileobj=io.BytesIO(made.parts[FILES].read())) as tar:
        found = {one.name: file.read() for one in tar if (file := tar.extractfile(one))}
    lines = found.pop("slurmdbd.conf").splitlines()
    assert lines[::2] == passwords.splitlines()[::2]
    assert lines[1] != passwords.splitlines()[1]
    assert found.pop("topology.yaml") == b"- a"
    assert set(found) == {"tokens", "prolog.d/10-x", "job_submit.lua", "jwt.key"}
    assert not any(b"secret" in text for text in found.values())
    assert found["prolog.d/10-x"] == programs.STAND_IN.encode()


def test_a_backup_that_is_restored_on_a_twin_when_trusted_then_is_a_copy_with_another_key_whose_jobs_end_at_once(
    tmp_path: Path,
) -> None:
    path = saved_archives.archive(tmp_path)
    words = ("restore", str(path), "--identity", "key", "--trust-archive", "--overwrite")
    with ExitStack() as stack:
        backup = restored.to_restore(words, tmp_path / "cluster.yaml", "", stack)
    assert backup is not None
    name, copy, *others = restored.words_for_twin(words, backup, place(tmp_path))
    assert (name, others) == ("restore", ["--trust-archive", "--overwrite"])
    made = archive.verified(Path(copy))
    assert set(made.parts) == set(backup.parts)
    assert len(made.parts[KEY].read()) == len(saved_archives.PARTS[KEY])
    assert made.parts[KEY].read() != saved_archives.PARTS[KEY]
    assert made.parts[STATE].sha256 != backup.parts[STATE].sha256


def place(tmp_path: Path) -> Path:
    """The directory of a twin."""
    made = tmp_path / "twin"
    made.mkdir()
    return made


def test_a_backup_that_is_not_trusted_is_left_to_restore_and_one_that_is_not_whole_is_refused_at_once(
    tmp_path: Path,
) -> None:
    path, known = saved_archives.archive(tmp_path), tmp_path / "cluster.yaml"
    words = ("restore", str(path), "--overwrite")
    with ExitStack() as stack:
        assert restored.to_restore(words, known, "", stack) is None
        path.write_bytes(path.read_bytes()[:700])
        with pytest.raises(InputError, match=path.name):
            restored.to_restore((*words, "--trust-archive"), known, "", stack)
        with pytest.raises(InputError, match=r"nosuch\.tar"):
            restored.to_restore(("restore", "nosuch.tar"), known, "", stack)
    assert restored.words_for_twin(words, None, tmp_path) == words


def test_a_command_that_restores_nothing_has_no_archive(tmp_path: Path) -> None:
    with ExitStack() as stack:
        assert restored.to_restore(("deploy",), tmp_path / "cluster.yaml", "", stack) is None


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SSH key of somebody who decrypts backups."""
    path = tmp_path_factory.mktemp("own") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def encrypted(directory: Path, own: Path, *, signed: bool) -> Path:
    """An archive that is encrypted to somebody."""
    public = " ".join(signatures.public_path(own).read_text().split()[:2])
    sign = (lambda data: signatures.sign(data, signatures.NAMESPACES["backup"])) if signed else None
    return saved_archives.archive(directory, sign=sign, recipients=(public,))


def test_an_encrypted_backup_that_is_restored_on_a_twin_when_its_identity_is_given_then_is_a_copy_that_is_not(
    tmp_path: Path, own: Path
) -> None:
    path = encrypted(tmp_path, own, signed=True)
    words = ("restore", str(path), "--overwrite", "--identity", str(own))
    with ExitStack() as stack:
        backup = restored.to_restore(words, tmp_path / "cluster.yaml", str(own), stack)
        _, copy, *others = restored.words_for_twin(words, backup, place(tmp_path))
    assert others == ["--overwrite", "--trust-archive"]
    made = archive.verified(Path(copy))
    assert made.encrypted_to == ()
    assert made.parts[DATABASE].read() == saved_archives.PARTS[DATABASE]


def test_an_encrypted_backup_when_no_identity_is_given_then_its_restoration_is_refused_before_anything_starts(
    tmp_path: Path, own: Path
) -> None:
    path = encrypted(tmp_path, own, signed=True)
    with ExitStack() as stack, pytest.raises(InputError, match="--identity FILE"):
        restored.to_restore(("restore", str(path)), tmp_path / "cluster.yaml", "", stack)


@pytest.mark.parametrize(
    ("signed", "has_identity", "note"),
    [
        (True, True, ""),
        (True, False, "is encrypted, so the twin has no jobs: see --identity."),
        (False, True, "It was not decrypted."),
    ],
)
def test_the_newest_backup_when_encrypted_then_is_used_if_it_is_trusted_and_its_identity_is_given(
    tmp_path: Path, own: Path, signed: bool, has_identity: bool, note: str
) -> None:
    known = tmp_path / "cluster.yaml"
    encrypted(archive.make_directory(known), own, signed=signed)
    with ExitStack() as stack:
        backup, told = restored.newest(known, str(own) if has_identity else "", stack)
        assert told.endswith(note)
        assert (backup is None) == bool(note) == bool(told)
        assert backup is None or backup.read(DATABASE) == saved_archives.PARTS[DATABASE]
