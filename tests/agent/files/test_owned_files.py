"""Files of one capability, in a scratch root: written, given back as somebody else had them, and taken away."""

from __future__ import annotations

from pathlib import Path

import pytest
from outcomes import as_sent, failure

from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.files.owned_files import ACCESS, RECORD, OwnedFile, OwnedFiles

UNIT = OwnedFile("/etc/systemd/system/home.mount", "[Mount]\nWhat=nfs:/home\n")
RELAY = OwnedFile("/etc/mail/own/relay.conf", "password x\udcff\n", 0o600, "slurm", "slurm", secret=True)
BOTH = OwnedFiles("mounts", (UNIT, RELAY))
NONE = OwnedFiles("mounts", ())


def record(root: Path) -> Path:
    return root / OWNED.lstrip("/") / "mounts.json"


def place(root: Path, one: OwnedFile) -> Path:
    return root / one.path.lstrip("/")


def test_files_when_they_are_missing_are_written_with_their_directories_once(root: Path, context: Context) -> None:
    assert apply(BOTH, context).status == "changed"
    assert place(root, UNIT).read_text() == UNIT.text
    assert place(root, RELAY).read_bytes() == b"password x\xff\n"
    assert place(root, RELAY).stat().st_mode & 0o7777 == 0o600
    assert record(root).stat().st_mode & 0o7777 == 0o600
    assert apply(as_sent(BOTH), context).status == "ok"


def test_files_when_none_is_wanted_go_with_the_directories_that_were_made_for_them(
    root: Path, context: Context
) -> None:
    apply(BOTH, context)
    assert apply(NONE, context).status == "changed"
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["group", "passwd"]
    assert not record(root).exists()
    assert apply(NONE, context).status == "ok"


def test_a_former_file_when_others_stay_goes_alone(root: Path, context: Context) -> None:
    apply(BOTH, context)
    outcome = apply(OwnedFiles("mounts", (UNIT,)), context)
    assert [change.name for change in outcome.changes] == [RELAY.path, RECORD]
    assert not place(root, RELAY).parent.exists()
    assert place(root, UNIT).exists()


def test_a_file_of_somebody_else_comes_back_as_it_was(root: Path, context: Context) -> None:
    path = place(root, RELAY)
    path.parent.mkdir(parents=True)
    path.write_text("relay of ann\n")
    path.chmod(0o640)
    apply(BOTH, context)
    apply(OwnedFiles("mounts", (RELAY._replace(text="another\n"),)), context)
    assert apply(NONE, context).status == "changed"
    assert (path.read_text(), path.stat().st_mode & 0o7777) == ("relay of ann\n", 0o640)


def test_a_run_when_it_was_killed_after_the_record_was_written_is_healed_by_the_next(
    root: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(root, UNIT)
    path.parent.mkdir(parents=True)
    path.write_text("ann's\n")
    with monkeypatch.context() as patch:
        patch.setattr(
            "slurmfab.on_hosts.agent.files.owned_files.uid_of", lambda *_: (_ for _ in ()).throw(OSError("killed"))
        )
        assert apply(BOTH, context).status == "failed"
    assert apply(BOTH, context).status == "changed"
    apply(NONE, context)
    assert path.read_text() == "ann's\n"


def test_a_file_when_it_was_edited_or_given_away_is_right_again(root: Path, context: Context) -> None:
    apply(BOTH, context)
    place(root, UNIT).write_text("edited\n")
    place(root, RELAY).chmod(0o644)
    outcome = apply(BOTH, context)
    assert [change.name for change in outcome.changes] == [UNIT.path, RELAY.path + ACCESS]
    assert (place(root, UNIT).read_text(), place(root, RELAY).stat().st_mode & 0o7777) == (UNIT.text, 0o600)


def test_a_secret_is_in_no_report_and_in_no_copy_that_can_be_shown(context: Context) -> None:
    assert "password" not in repr(apply(BOTH, context))
    assert "password" not in repr(BOTH)
    assert [BOTH.holds_secret(path) for path in (UNIT.path, RELAY.path, BOTH.record_path)] == [False, True, True]
    assert BOTH.touches(frozenset({UNIT.path, UNIT.path + ACCESS, RECORD})) == (UNIT.path, BOTH.record_path)


@pytest.mark.parametrize("there", ["link", "directory", "large"])
def test_what_is_no_file_that_can_be_kept_is_left_and_named(there: str, root: Path, context: Context) -> None:
    path = place(root, UNIT)
    path.parent.mkdir(parents=True)
    if there == "link":
        path.symlink_to("/etc/passwd")
    elif there == "directory":
        path.mkdir()
    else:
        path.write_bytes(b"x" * ((1 << 20) + 1))
    assert "home.mount" in failure(BOTH, context)
    assert not record(root).exists()
