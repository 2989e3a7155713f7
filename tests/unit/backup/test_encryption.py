"""Backups that are encrypted to public keys: by the real age, where this machine has it."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from saved_archives import ABOUT, CLUSTER_TEXT, PARTS
from saving_hosts import begun
from support import cluster, prepared_input

from slurmfab.base import signatures
from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.base.signatures import NAMESPACES, sign
from slurmfab.commands.backup import archive, saving, trust
from slurmfab.commands.backup.archive import Backup, description, verified
from slurmfab.commands.backup.decryption import decrypted
from slurmfab.commands.doctor import archives as doctor
from slurmfab.commands.upgrade.proof import with_plain_dump
from slurmfab.core.plan.phases import backups, packages
from slurmfab.on_hosts.agent.backup import timed_backup
from slurmfab.on_hosts.agent.backup.archive import CLUSTER_FILE, DATABASE, KEY, Archive
from slurmfab.on_hosts.agent.backup.encryption import AgeProcess, encrypting
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

NATIVE = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
OTHER = "age1j3e89msgjfyquq43fezd77qxmauswakdlal7fy3lje68nm23lf7sjypc85"
SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKy2Vd0aIk9nN7Cn2CFC0DWXV6WqQ3l6n3gLrIq5S2yY"


def backup_key(recipients: str) -> str:
    return f"{CLUSTER_TEXT}backup: {{directory: /srv/saved, encrypt_to: {recipients}}}\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SSH key of somebody who decrypts backups."""
    path = tmp_path_factory.mktemp("own") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann@laptop", "-f", str(path)], check=True)
    return path


def public(key: Path) -> str:
    return " ".join(signatures.public_path(key).read_text().split()[:2])


def encrypted(place: Path, key: Path, *, signed: bool = False) -> Backup:
    """A backup that is encrypted to a key."""
    made = Archive(str(place), "lab-20261121T143200Z", recipients=(NATIVE, public(key)))
    for name, content in PARTS.items():
        made.add(name, content)
    return verified(Path(made.finish(ABOUT, (lambda data: sign(data, NAMESPACES["backup"])) if signed else None)))


def test_an_encrypted_backup_when_nobody_has_the_identity_then_is_verified_and_described_and_unreadable(
    tmp_path: Path, own: Path
) -> None:
    backup = encrypted(tmp_path, own)
    assert (backup.cluster, backup.jobs, set(backup.parts)) == ("lab", {16, 17}, set(PARTS))
    assert backup.encrypted_to == (NATIVE, public(own))
    assert f"encrypted to {NATIVE}, ssh-ed25519 SHA256:" in description(backup)
    content = backup.path.read_bytes()
    assert [name for name, part in PARTS.items() if part in content] == []
    assert [path.name for path in tmp_path.iterdir()] == [backup.path.name]
    changed = bytearray(content)
    changed[backup.parts[DATABASE].offset + 300] ^= 1
    backup.path.write_bytes(changed)
    with pytest.raises(InputError, match=r"does not match the manifest: database\.sql\.gz\.age"):
        verified(backup.path)


def test_an_encrypted_backup_when_its_identity_is_given_then_has_its_parts_in_a_file_without_a_name(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = encrypted(tmp_path, own)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    with ExitStack() as stack:
        plain = decrypted(backup, str(own), stack)
        assert list((tmp_path / "scratch").iterdir()) == []
        assert {name: plain.read(name) for name in PARTS} == PARTS
        assert b"".join(piece.data for piece in plain.parts[KEY].pieces(7, "")) == PARTS[KEY]
        assert plain.parts[KEY].sha256 == hashlib.sha256(PARTS[KEY]).hexdigest()
        assert (plain.encrypted_to, plain.seal, plain.path) == ((), backup.seal, backup.path)
        assert decrypted(plain, "", stack) is plain


def test_an_encrypted_backup_when_another_has_its_name_after_it_was_verified_then_is_not_decrypted(
    tmp_path: Path, own: Path
) -> None:
    backup = encrypted(tmp_path, own)
    content = bytearray(backup.path.read_bytes())
    content[backup.parts[DATABASE].offset + 300] ^= 1
    backup.path.write_bytes(content)
    with ExitStack() as stack, pytest.raises(InputError, match="was changed while it was read"):
        decrypted(backup, str(own), stack)


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        ("", f"is encrypted to {NATIVE}, ssh-ed25519 SHA256:"),
        ("", "Name the file with the private key of one of these: --identity FILE."),
        ("missing", "there is no such file"),
        ("foreign", "holds the private key of none of these. Nothing was changed."),
        ("no_key", "unknown identity type"),
    ],
)
def test_an_encrypted_backup_when_the_identity_is_none_then_is_refused_in_plain_words(
    tmp_path: Path, own: Path, identity: str, reason: str
) -> None:
    backup = encrypted(tmp_path, own)
    foreign = tmp_path / "foreign"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(foreign)], check=True)
    (tmp_path / "no_key").write_text("hello\n")
    with ExitStack() as stack, pytest.raises(InputError) as refused:
        decrypted(backup, identity and str(tmp_path / identity), stack)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_archive_when_a_part_of_it_alone_is_encrypted_then_is_refused(tmp_path: Path, own: Path) -> None:
    made = Archive(str(tmp_path), "mixed", recipients=(public(own),))
    made.add(KEY, PARTS[KEY])
    made.recipients = ()
    made.add(CLUSTER_FILE, PARTS[CLUSTER_FILE])
    made.recipients = (public(own),)
    with pytest.raises(InputError, match="only a part of it is encrypted"):
        verified(Path(made.finish(ABOUT)))


def test_a_part_when_it_is_dropped_then_the_others_are_whole_and_no_program_is_left(tmp_path: Path, own: Path) -> None:
    made = Archive(str(tmp_path), "lab", recipients=(public(own),))
    made.add(CLUSTER_FILE, PARTS[CLUSTER_FILE])
    made.begin()
    made.write(b"half of it")
    assert made.age is not None
    process = made.age.process
    made.drop()
    assert process.poll() is not None
    made.add(KEY, PARTS[KEY])
    with ExitStack() as stack:
        plain = decrypted(verified(Path(made.finish(ABOUT))), str(own), stack)
        assert {name: plain.read(name) for name in plain.parts} == {name: PARTS[name] for name in (CLUSTER_FILE, KEY)}


def test_age_when_it_fails_then_its_reason_is_told_and_no_file_is_left(tmp_path: Path, own: Path) -> None:
    assert own
    made = Archive(str(tmp_path), "lab", recipients=("age1foo",))
    with pytest.raises(ResourceFailed, match="age"):
        made.add(KEY, bytes(1 << 20))
    made.abandon()
    assert list(tmp_path.iterdir()) == []


def test_age_when_it_is_missing_then_hosts_and_deployer_say_which_package_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, hosts = begun(tmp_path, backup_key(f"[{NATIVE}]"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"needs the program age on this machine \(Debian: age\)"):
        saving.new_archive(run, "")
    assert hosts.saved == []
    with pytest.raises(ResourceFailed, match="its package is age"), (tmp_path / "x").open("wb") as file:
        AgeProcess(encrypting((NATIVE,)), file.fileno())


def test_a_backup_of_the_deployer_when_the_cluster_file_has_keys_then_is_encrypted_to_them(
    tmp_path: Path, own: Path
) -> None:
    run, _ = begun(tmp_path, backup_key(f"['{public(own)} ann@laptop']"))
    with io.BytesIO() as dump:
        backup = verified(saving.save(run, saving.new_archive(run, ""), dump))
        assert dump.getvalue() == PARTS[DATABASE]
    assert backup.encrypted_to == (public(own),)
    assert PARTS[DATABASE] not in backup.path.read_bytes()
    assert f"restore {backup.path} --identity FILE" in saving.summary(backup)
    assert "not encrypted" not in saving.summary(backup)


def test_an_upgrade_proves_the_dump_that_was_encrypted(tmp_path: Path, own: Path) -> None:
    backup = encrypted(tmp_path, own)
    with tempfile.TemporaryFile() as dump:
        dump.write(PARTS[DATABASE])
        plain = with_plain_dump(backup, dump)
        assert plain.parts[DATABASE].sha256 == hashlib.sha256(PARTS[DATABASE]).hexdigest()
        assert plain.read(DATABASE) == PARTS[DATABASE]
        assert with_plain_dump(replace(backup, encrypted_to=()), dump).parts == backup.parts


def test_a_foreign_archive_when_nobody_can_be_asked_then_is_not_decrypted(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "cluster.yaml"
    trust.require_before_decryption([encrypted(tmp_path, own, signed=True)], path, "", trust=False)
    foreign = encrypted(tmp_path, own)
    with pytest.raises(InputError, match=r"it is not signed\. It was not decrypted, and nothing was changed"):
        trust.require_before_decryption([foreign], path, "", trust=False)
    trust.require_before_decryption([foreign], path, "", trust=True)
    trust.require_before_decryption([replace(foreign, encrypted_to=())], path, "", trust=False)


@pytest.mark.parametrize(
    ("recipient", "words"),
    [
        ("age1foo", '"age1foo" is no public key that age can encrypt to, such as age1'),
        (f"{NATIVE[:-1]}q", "has a wrong checksum"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "is a part of it missing?"),
        ("ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY", "is no public key that age can encrypt to"),
        ("AGE-SECRET-KEY-1VAU0JJ27DRQFUEQS25R2KLY6DCMW3PS46L46MVS0JURWWLXCS9PQ06VSSY", "this is a private key"),
    ],
)
def test_a_key_that_age_cannot_encrypt_to_is_refused_with_its_line(recipient: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(backup_key(f"['{recipient}']"))
    assert str(refused.value).startswith("cluster.yaml:6:")
    assert words in str(refused.value)
    assert "VAU0JJ27" not in str(refused.value)


def test_hosts_that_make_backups_have_age_and_the_keys_alone() -> None:
    text = backup_key(f"[{NATIVE}, '{SSH} ann@laptop']")
    known = cluster(text)
    planned = prepared_input(known)
    assert known.backup
    assert f'"{SSH}"' in backups.settings(planned, known.backup, "c1")
    assert [("age" in packages.wanted(planned, host)) for host in ("c1", "n1")] == [True, False]
    plain = cluster(text.replace("encrypt_to", "keep: 3} #"))
    left = prepared_input(plain, added_packages=("age",))
    assert "age" not in packages.wanted(left, "c1")
    assert "age" in str(packages.former(left, "c1"))


def test_the_program_of_a_timer_encrypts_to_the_keys_in_its_settings(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, etc = tmp_path / "saved", tmp_path / "etc"
    place.mkdir(mode=0o700)
    etc.mkdir()
    (tmp_path / "key").write_bytes(PARTS[KEY])
    monkeypatch.setattr(timed_backup, "version", lambda _: "24.11.5")
    monkeypatch.setattr(timed_backup, "refuse_others", lambda _: None)
    wanted = {"cluster": "lab", "directory": str(place), "keep": 1, "files": str(etc), "key": str(tmp_path / "key")}
    path = timed_backup.make_backup({**wanted, "encrypt_to": [public(own)]}, timed_backup.Context())
    backup = verified(Path(path))
    assert (backup.encrypted_to, backup.seal.signature) == ((public(own),), b"")
    assert PARTS[KEY] not in backup.path.read_bytes()
    with ExitStack() as stack:
        assert decrypted(backup, str(own), stack).read(KEY) == PARTS[KEY]


def test_doctor_tells_whether_age_is_here_and_whom_backups_are_encrypted_to(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.yaml"
    assert list(doctor.encrypted(path, None)) == []
    encrypted(archive.make_directory(path), own)
    monkeypatch.setattr(doctor, "SSH_KEYS", tmp_path)
    (foreign,) = doctor.encrypted(path, None)
    assert f"1 of 1 backups are encrypted to {NATIVE}, ssh-ed25519 SHA256:" in foreign.text
    assert "--identity" in foreign.text
    monkeypatch.setattr(doctor, "SSH_KEYS", own.parent)
    (known,) = doctor.encrypted(path, None)
    assert known.text.startswith("backups are encrypted to age1")
    monkeypatch.setenv("PATH", str(tmp_path))
    (missing,) = doctor.encrypted(path, None)
    assert (missing.state, "apt install age" in missing.text) == ("warning", True)
