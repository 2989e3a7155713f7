"""Signatures of archives: whose are trusted, and which are worth nothing; by the real ssh-keygen."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from slurmfab.base import signatures
from slurmfab.base.errors import InputError
from slurmfab.base.signatures import NAMESPACES, Seal, distrust, own_keys, sign

MANIFEST = b'{"format": 1}'
BACKUP = NAMESPACES["backup"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_manifest_that_this_user_has_signed_is_trusted_and_the_key_is_private() -> None:
    assert own_keys() == ()
    seal = Seal(MANIFEST, sign(MANIFEST, BACKUP))
    assert distrust(seal, "backup", own_keys()) == ""
    key = signatures.key_path()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (key, key.parent)] == [0o600, 0o700]
    assert sorted(path.name for path in key.parent.iterdir()) == ["signing_key", "signing_key.pub"]
    (before,) = own_keys()
    sign(MANIFEST, BACKUP)
    assert own_keys() == (before,)


def test_what_is_not_signed_as_it_is_by_a_trusted_key_is_not_trusted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = sign(MANIFEST, BACKUP)
    own = own_keys()
    others = {
        "none": Seal(MANIFEST),
        "of other bytes": Seal(MANIFEST + b" ", good),
        "of another archive": Seal(MANIFEST, sign(b"another", BACKUP)),
        "of another kind": Seal(MANIFEST, sign(MANIFEST, NAMESPACES["bundle"])),
        "cut": Seal(MANIFEST, good[: len(good) // 2]),
        "no signature": Seal(MANIFEST, b"\0" * 100),
    }
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "of another"))
    others["of another key"] = Seal(MANIFEST, sign(MANIFEST, BACKUP))
    assert [name for name, seal in others.items() if not distrust(seal, "backup", own)] == []
    assert "which is not trusted here" in distrust(others["of another key"], "backup", own)
    assert "which is not trusted here" in distrust(Seal(MANIFEST, good), "backup", ())
    assert distrust(Seal(MANIFEST, good), "backup", (*own_keys(), *own)) == ""


def test_a_key_of_the_ssh_agent_signs_when_only_its_public_part_is_there(place: Path) -> None:
    sign(MANIFEST, BACKUP)
    key = signatures.key_path().rename(place / "elsewhere")
    socket = place / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert agent.poll() is None
        environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", str(key)], env=environment, check=True, capture_output=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSH_AUTH_SOCK", str(socket))
            signature = sign(MANIFEST, BACKUP)
    finally:
        agent.terminate()
        agent.wait()
    assert distrust(Seal(MANIFEST, signature), "backup", own_keys()) == ""


def test_an_archive_is_made_without_a_signature_when_there_is_no_ssh_keygen(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = Seal(MANIFEST, sign(MANIFEST, BACKUP))
    monkeypatch.setenv("PATH", str(place))
    told: list[str] = []
    assert signatures.signer("backup", told.append)(MANIFEST) == b""
    assert "there is no ssh-keygen here (Debian: openssh-client)" in told[0]
    assert "cannot be verified" in distrust(seal, "backup", own_keys())


@pytest.mark.parametrize(
    "line",
    [
        "cert-authority ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA",
        "* ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA",
        "ssh-ed25519",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "ssh-ed25519 AAAA\x0bslurmfab ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA",
    ],
)
def test_a_file_with_a_line_that_is_no_public_key_is_refused_with_the_line(place: Path, line: str) -> None:
    path = place / "keys"
    path.write_text(f"# keys\n{line}\n")
    with pytest.raises(InputError, match=r"keys:2: this is no SSH public key"):
        signatures.keys_in(path)


def test_a_file_of_public_keys_is_read_without_comments(place: Path) -> None:
    sign(MANIFEST, BACKUP)
    path = place / "keys"
    path.write_text(f"# of ann\n\n{own_keys()[0]} ann@laptop and more\n")
    assert signatures.keys_in(path) == own_keys()
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="holds no SSH public key"):
        signatures.keys_in(path)
