"""What doctor says of the signing key, and of backups and bundles that nobody known has signed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from saved_archives import archive
from saved_bundles import saved
from support import THREE_HOSTS

from slurmfab.base import signatures
from slurmfab.base.signatures import NAMESPACES, sign
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.backup.archive import make_directory
from slurmfab.commands.bundle.archive import verified
from slurmfab.commands.doctor import archives
from slurmfab.commands.doctor.finding import OK, WARNING, Finding


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def only(findings: Iterator[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_the_signing_key_is_tried_when_there_is_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = only(archives.signing_key())
    assert (none.state, "none yet" in none.text) == (OK, True)
    assert not signatures.key_path().exists()
    sign(b"", NAMESPACES["backup"])
    assert only(archives.signing_key()).state == OK
    signatures.key_path().chmod(0o644)
    loose = only(archives.signing_key())
    assert (loose.state, "archives cannot be signed" in loose.text) == (WARNING, True)
    monkeypatch.setenv("PATH", str(place))
    assert "there is no ssh-keygen here" in only(archives.signing_key()).text


def test_backups_that_no_trusted_key_has_signed_are_named(place: Path) -> None:
    path = place / "cluster.yaml"
    kept = make_directory(path)
    assert list(archives.kept(path, None)) == []
    archive(kept, sign=lambda data: sign(data, NAMESPACES["backup"]))
    assert only(archives.kept(path, None)).state == OK
    unsigned = archive(kept)
    finding = only(archives.kept(path, None))
    assert finding.state == WARNING
    assert f"1 of 2 not known to be of a trusted maker: {unsigned.name} (it is not signed)" in finding.text
    unsigned.write_bytes(unsigned.read_bytes()[:700])
    assert "is incomplete" in only(archives.kept(path, None)).text


def test_bundles_that_are_neither_in_the_lock_nor_signed_are_named(place: Path) -> None:
    path = place / "cluster.yaml"
    path.write_text(f"{THREE_HOSTS}bundle: bundle.tar\n")
    bundle = verified(saved(place, sign=lambda _: b""))
    known = loading.load(path)
    assert "bundle.tar (it is not signed)" in only(archives.kept(path, known)).text
    pinned = replace(known, lock=locks.with_bundles(Lock(), {"bundle.tar": bundle.digest}))
    assert only(archives.kept(path, pinned)).state == OK
    other = replace(known, lock=locks.with_bundles(Lock(), {"bundle.tar": "0" * 64}))
    assert "its digest is not the one in the lock" in only(archives.kept(path, other)).text
