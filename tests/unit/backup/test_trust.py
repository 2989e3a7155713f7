"""Backups that are restored at once, after a question, or not at all: real archives, really signed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from saved_archives import CLUSTER_TEXT, LOCK_TEXT, PARTS, archive

from slurmfab.base import archive as archives
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.signatures import NAMESPACES, key_path, own_keys, public_path, sign
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import lock_path
from slurmfab.commands.backup import trust
from slurmfab.commands.backup.archive import KIND, verified
from slurmfab.commands.backup.restoring import RestoreOptions, inventory_for, restore
from slurmfab.core.engine.session import Output
from slurmfab.on_hosts.agent.backup.archive import CLUSTER_FILE, DATABASE, MANIFEST, SIGNATURE, Archive

EVIL = f"{CLUSTER_TEXT}files: {{/etc/cron.d/evil: {{text: '* * * * * root id'}}}}\nusers: [{{name: eve, sudo: true}}]\n"


class Terminal(io.StringIO):
    """A terminal on which somebody has typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use("own", tmp_path, monkeypatch)


def use(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be somebody with a signing key of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name))
    sign(b"", "first")


def signed(data: bytes) -> bytes:
    return sign(data, NAMESPACES["backup"])


def required(path: Path, place: Path, signed_by: str = "", *, trusted: bool = False) -> None:
    backup = verified(path)
    known = inventory_for(backup, place / "configs/cluster.yaml")
    trust.require((backup,), known, signed_by, trust=trusted)


def tampered(good: Path, place: Path, text: str = EVIL) -> Path:
    """The archive with another cluster file, SHA-256 set anew, and its signature as it was."""
    was = archives.verified(good, KIND, lambda contents, _: contents)
    made = Archive(str(place), "tampered")
    for name, part in was.parts.items():
        made.add(name, text.encode() if name == CLUSTER_FILE else part.read())
    about = {key: value for key, value in json.loads(was.seal.data).items() if key not in ("format", "parts")}
    return Path(made.finish(about, lambda _: was.seal.signature))


def test_an_archive_that_one_has_signed_oneself_is_restored_without_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    required(archive(tmp_path, sign=signed), tmp_path)
    assert capsys.readouterr() == ("", "")


def test_a_tampered_archive_is_refused_without_a_terminal_with_all_that_means_root(tmp_path: Path) -> None:
    path = tampered(archive(tmp_path, sign=signed), tmp_path)
    with pytest.raises(InputError) as refused:
        required(path, tmp_path)
    text = str(refused.value)
    for words in (
        "its signature does not fit its content", "files./etc/cron.d/evil: ", 'users.eve: {"sudo": true}', "munge key",
        "slurm.conf, topology.conf", "Nothing was changed.", "--trust-archive", "--signed-by",
    ):  # fmt: skip
        assert words in text


def test_the_command_refuses_it_before_any_host_is_contacted_or_file_written(tmp_path: Path) -> None:
    path = tampered(archive(tmp_path, sign=signed), tmp_path)
    with pytest.raises(InputError, match="Nothing was changed"):
        restore(str(tmp_path / "empty/cluster.yaml"), str(path), RestoreOptions(), Output())
    assert not (tmp_path / "empty").exists()


@pytest.mark.parametrize("change", ["unsigned", "of another archive", "cut", "of another purpose", "damaged manifest"])
def test_a_signature_that_is_not_of_this_archive_is_worth_nothing(tmp_path: Path, change: str) -> None:
    other = archives.seal_of(archive(tmp_path, sign=signed, by="eve@desk"), KIND).signature
    ways: dict[str, Callable[[bytes], bytes] | None] = {
        "unsigned": None,
        "of another archive": lambda _: other,
        "cut": lambda data: signed(data)[:100],
        "of another purpose": lambda data: sign(data, NAMESPACES["bundle"]),
        "damaged manifest": lambda data: signed(data.replace(b"ann", b"eve")),
    }
    with pytest.raises(InputError, match="Nothing was changed"):
        required(archive(tmp_path, sign=ways[change]), tmp_path)


def test_an_archive_of_somebody_else_is_trusted_by_the_lock_or_by_a_file_with_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("colleague", tmp_path, monkeypatch)
    path, keys, file = archive(tmp_path, sign=signed), own_keys(), public_path(key_path())
    use("own", tmp_path, monkeypatch)
    with pytest.raises(InputError, match=r"it is signed by the key SHA256:\S+, which is not trusted here"):
        required(path, tmp_path)
    required(path, tmp_path, str(file))
    lock = lock_path(tmp_path / "configs/cluster.yaml")
    locks.save(locks.with_signers(locks.Lock(), keys), lock)
    required(path, tmp_path)


def test_the_lock_inside_an_archive_makes_no_key_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use("eve", tmp_path, monkeypatch)
    lock = json.dumps({**json.loads(LOCK_TEXT), "signers": list(own_keys())})
    path = archive(tmp_path, {**PARTS, "cluster.lock.json": lock.encode()}, sign=signed)
    use("own", tmp_path, monkeypatch)
    with pytest.raises(InputError, match="which is not trusted here"):
        required(path, tmp_path)


def test_the_flag_lets_it_go_on_and_shows_what_it_brings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    required(tampered(archive(tmp_path, sign=signed), tmp_path), tmp_path, trusted=True)
    told = capsys.readouterr().err
    assert "users.eve" in told
    assert "Trusted by --trust-archive." in told


@pytest.mark.parametrize(("typed", "goes_on"), [("yes\n", True), ("y\n", False), ("\n", False), ("no\n", False)])
def test_on_a_terminal_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, *, goes_on: bool
) -> None:
    path, shown = tampered(archive(tmp_path, sign=signed), tmp_path), Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", shown)
    if goes_on:
        required(path, tmp_path)
    else:
        with pytest.raises(SlurmfabError, match=r"Nothing was changed\."):
            required(path, tmp_path)
    assert "users.eve" in shown.getvalue()


def test_with_a_cluster_file_here_that_of_the_archive_is_not_used_and_not_shown(tmp_path: Path) -> None:
    path = tampered(archive(tmp_path, sign=signed), tmp_path)
    here = tmp_path / "configs/cluster.yaml"
    here.parent.mkdir()
    here.write_text(CLUSTER_TEXT)
    with pytest.raises(InputError, match="munge key") as refused:
        required(path, tmp_path)
    assert "users.eve" not in str(refused.value)


def test_another_archive_for_the_database_is_judged_as_well(tmp_path: Path) -> None:
    good = verified(archive(tmp_path, sign=signed))
    other = verified(archive(tmp_path, {DATABASE: PARTS[DATABASE]}))
    known = inventory_for(good, tmp_path / "configs/cluster.yaml")
    with pytest.raises(InputError) as refused:
        trust.require((good, other), known, "", trust=False)
    assert str(other.path) in str(refused.value)
    assert f"{good.path}: " not in str(refused.value)


def test_a_signature_is_a_member_behind_the_manifest_and_of_bounded_size(tmp_path: Path) -> None:
    backup = verified(archive(tmp_path, sign=signed))
    assert backup.seal == archives.seal_of(backup.path, KIND)
    assert not {MANIFEST, SIGNATURE} & set(backup.parts)
    with pytest.raises(InputError, match=r"manifest\.json\.sig in it has"):
        verified(archive(tmp_path, sign=lambda _: bytes(100_000)))
