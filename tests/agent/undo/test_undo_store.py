"""The undo store: files are stored before they are changed, in limited number, and as protected as they were."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_agent import Agent, snapshot

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, Resource, ResourceFailed, apply
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.shared_names import SharedNames
from slurmfab.on_hosts.agent.identities.ssh_key import SshKey
from slurmfab.on_hosts.agent.munge.key import MungeKey
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles
from slurmfab.on_hosts.agent.undo import undo_store
from slurmfab.on_hosts.agent.undo.restored_file import Restored
from slurmfab.on_hosts.agent.undo.undo_secrets import NoKeptSecrets

SECRET = "correct horse battery staple"
SHELF = undo_store.DIRECTORY[1:]


def run_id(number: int, command: str = "deploy") -> str:
    """The id of a run; higher numbers are later."""
    return f"20260101T1200{number:02d}.000000Z-{command}"


FIRST, SECOND, THIRD = (run_id(number) for number in (1, 2, 3))


def during(root: Path, run: str, *resources: Resource) -> list[Outcome]:
    """Apply resources in a run, one request for each."""
    outcomes = []
    for resource in resources:
        context = Context(str(root), run_id=run)
        context.keep = undo_store.keep
        outcomes.append(apply(resource, context))
    return outcomes


def told(root: Path, **request: str) -> dict[str, Any]:
    """The agent's answer about the undo store."""
    return undo_store.read(request, Context(str(root)))


def files(root: Path, **request: str) -> dict[str, dict[str, Any]]:
    """Stored files by path."""
    return {file["path"]: file for file in told(root, **request)["files"]}


def shelf(root: Path) -> list[str]:
    """The runs that have a directory in the store."""
    return sorted(path.name for path in (root / SHELF).iterdir() if path.is_dir())


def test_a_file_that_a_run_replaces_is_stored_with_its_owner_and_mode(root: Path) -> None:
    (root / "etc/conf").write_text("by hand\n")
    (root / "etc/conf").chmod(0o644)
    (outcome,) = during(root, FIRST, File("/etc/conf", "managed\n"))
    assert (outcome.status, (root / "etc/conf").read_text()) == ("changed", "managed\n")
    owner, group = "root", "root"  # the first of the names that the scratch root gives to whoever runs the tests
    assert files(root)["/etc/conf"] == {
        "path": "/etc/conf", "existed": True, "owner": owner, "group": group, "mode": "0644", "secret": False,
        "content": "by hand\n", "run": FIRST, "same": False,
    }  # fmt: skip


def test_a_file_that_did_not_exist_is_stored_as_missing(root: Path) -> None:
    during(root, FIRST, File("/etc/conf", "managed\n"))
    assert (files(root)["/etc/conf"]["existed"], files(root)["/etc/conf"]["content"]) == (False, None)


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (Block("/etc/conf", "hosts", "line\n"), "/etc/conf"),
        (Absent("/etc/conf"), "/etc/conf"),
        (File("/etc/conf", "by hand\n", mode=0o600), "/etc/conf"),
        (SlurmFiles("/etc", (("conf", "by hand\n"),)), "/etc/conf"),
    ],
)
def test_every_kind_that_changes_a_file_stores_it_before(root: Path, resource: Resource, path: str) -> None:
    (root / "etc/conf").write_text("by hand\n")
    (root / "etc/conf").chmod(0o640)
    (outcome,) = during(root, FIRST, resource)
    assert outcome.status == "changed", outcome.message
    found = undo_store.entries(Context(str(root)), FIRST)
    assert [entry["path"] for entry in found] == [path]
    assert undo_store.content_of(Context(str(root)), FIRST, found[0]) == b"by hand\n"


def test_an_ssh_key_pair_with_one_wrong_key_touches_both_and_the_private_one_is_secret() -> None:
    key = SshKey("slurm", "/home/slurm")
    assert key.touches(frozenset({"home", ".ssh"})) == ()
    private, public = key.touches(frozenset({"public key"}))
    assert (key.holds_secret(private), key.holds_secret(public)) == (True, False)


def test_a_run_that_changes_a_file_twice_stores_the_first_state_once(root: Path) -> None:
    (root / "etc/conf").write_text("one")
    during(root, FIRST, File("/etc/conf", "two"), File("/etc/conf", "three"))
    assert [file["content"] for file in told(root)["files"]] == ["one"]
    assert len(undo_store.entries(Context(str(root)), FIRST)) == 1


def test_the_state_before_a_run_is_the_oldest_that_it_and_later_runs_stored(root: Path) -> None:
    (root / "etc/a").write_text("a0")
    during(root, FIRST, File("/etc/a", "a1"))
    during(root, SECOND, File("/etc/a", "a2"), File("/etc/b", "b2"))
    during(root, THIRD, File("/etc/a", "a3"), File("/etc/b", "b3"))
    before = files(root, since=SECOND)
    assert {path: (file["content"], file["run"]) for path, file in before.items()} == {
        "/etc/a": ("a1", SECOND),
        "/etc/b": (None, SECOND),
    }
    assert told(root, since=SECOND)["runs"] == [SECOND, THIRD]
    assert told(root)["runs"] == [FIRST, SECOND, THIRD]
    assert told(root, since=run_id(9))["files"] == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_run_that_changes_nothing_stores_nothing(root: Path, dry_run: bool) -> None:
    (root / "etc/conf").write_text("text")
    (root / "etc/conf").chmod(0o644)
    before = snapshot(root)
    content = "other" if dry_run else "text"
    apply(File("/etc/conf", content), Context(str(root), dry_run=dry_run, run_id=FIRST))
    assert snapshot(root) == before


def test_owner_and_mode_of_a_directory_before_the_first_run_that_changes_it_are_told(root: Path) -> None:
    (root / "var/spool/x").mkdir(parents=True)
    (root / "var/spool/x").chmod(0o757)
    during(root, FIRST, Directory("/var/spool/x"))
    during(root, SECOND, Directory("/var/spool/x", mode=0o700))
    (one,) = told(root)["directories"]
    assert (one["directory"], one["mode"], one["run"]) == ("/var/spool/x", "0757", FIRST)
    assert [one["mode"] for one in told(root, since=SECOND)["directories"]] == ["0755"]


@pytest.mark.needs_root("only a directory of root's gets the bit")
def test_the_mode_of_a_directory_in_which_a_group_may_write_before_it_got_the_sticky_bit_is_told(root: Path) -> None:
    (root / "var/log").mkdir(parents=True)
    (root / "var/log").chmod(0o775)
    during(root, FIRST, SharedNames("/var/log"))
    assert [(one["directory"], one["mode"]) for one in told(root)["directories"]] == [("/var/log", "0775")]


def test_resources_that_are_not_files_or_services_are_not_stored(root: Path) -> None:
    during(root, FIRST, Directory("/var/spool/x"))
    assert not (root / SHELF).exists()


def test_the_copy_of_a_secret_has_its_mode_and_no_answer_shows_it(root: Path) -> None:
    (root / "etc/munge").mkdir()
    (root / "etc/munge/munge.key").write_text(SECRET)
    (root / "etc/munge/munge.key").chmod(0o400)
    new = base64.b64encode(b"x" * 128).decode()
    during(root, FIRST, File("/etc/munge/munge.key", new, "munge", "munge", 0o400, secret=True, encoding="base64"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root / SHELF).rglob("*")}
    assert modes == {FIRST: 0o700, "manifest": 0o600, "0": 0o400}
    assert stat.S_IMODE((root / SHELF).stat().st_mode) == 0o700
    assert (root / SHELF / FIRST / "0").read_text() == SECRET
    (entry,) = told(root)["files"]
    assert (entry["secret"], entry["content"]) == (True, None)
    assert SECRET not in json.dumps(told(root))


@pytest.mark.parametrize(
    ("resource", "mode"),
    [
        (MungeKey("/etc/key"), 0o644),
        (Absent("/etc/key", secret=True), 0o644),
        (File("/etc/key", "new", secret=True), 0o644),
        (File("/etc/key", "new"), 0o640),
    ],
)
def test_no_answer_shows_a_secret_with_a_wrong_mode_or_a_private_file(
    root: Path, resource: Resource, mode: int
) -> None:
    (root / "etc/key").write_text(SECRET)
    (root / "etc/key").chmod(mode)
    during(root, FIRST, resource)
    (entry,) = told(root)["files"]
    assert (entry["secret"], entry["content"]) == (True, None)


def test_a_store_that_other_users_could_read_is_closed_before_anything_is_stored(root: Path) -> None:
    (root / SHELF).mkdir(parents=True, mode=0o755)
    during(root, FIRST, File("/etc/conf", "text"))
    assert stat.S_IMODE((root / SHELF).stat().st_mode) == 0o700


def test_a_file_that_is_not_text_is_stored_and_no_answer_shows_it(root: Path) -> None:
    (root / "etc/conf").write_bytes(b"\xff\xfe")
    (root / "etc/conf").chmod(0o644)
    during(root, FIRST, File("/etc/conf", "text"))
    assert (files(root)["/etc/conf"]["content"], files(root)["/etc/conf"]["secret"]) == (None, False)


def test_a_removed_link_of_roots_is_restored(root: Path) -> None:
    (root / "etc/link").symlink_to("passwd")
    during(root, FIRST, Absent("/etc/link"))
    (outcome,) = during(root, SECOND, Restored("/etc/link", FIRST))
    assert (outcome.status, str((root / "etc/link").readlink())) == ("changed", "passwd")


def test_a_service_is_stored_with_the_state_that_systemd_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"is": "ActiveState=active\nUnitFileState=disabled\nMainPID=0\nLoadState=loaded\n"}

    def run(_: Context, argv: list[str], *_more: object, **_others: object) -> subprocess.CompletedProcess[bytes]:
        if argv[1] == "disable":
            words["is"] = "ActiveState=inactive\nUnitFileState=disabled\nLoadState=loaded\n"
        return subprocess.CompletedProcess(argv, 0, words["is"].encode(), b"")

    monkeypatch.setattr(Context, "run", run)
    during(root, FIRST, Service("slurmd", running=False))
    assert told(root)["services"] == [{"unit": "slurmd", "enabled": False, "running": True, "run": FIRST}]


def test_only_the_newest_runs_stay_and_the_newest_removed_one_is_noted(root: Path) -> None:
    for number in range(undo_store.NEWEST + 3):
        during(root, run_id(number), File("/etc/conf", f"{number}"))
    assert shelf(root) == [run_id(number) for number in range(3, undo_store.NEWEST + 3)]
    assert told(root)["dropped"] == run_id(2)


def test_a_run_that_undoes_others_keeps_the_oldest_runs_which_it_may_need(root: Path) -> None:
    for number in range(undo_store.NEWEST):
        during(root, run_id(number), File("/etc/conf", f"{number}"))
    (outcome,) = during(root, run_id(50, "rollback"), Restored("/etc/conf", run_id(0)))
    assert (outcome.status, (root / "etc/conf").exists()) == ("changed", False)
    during(root, run_id(51), File("/etc/conf", "again"))
    assert len(shelf(root)) == undo_store.NEWEST


def test_a_run_of_a_deployer_whose_clock_is_slow_is_stored_too(root: Path) -> None:
    for number in range(10, undo_store.NEWEST + 10):
        during(root, run_id(number), File("/etc/conf", f"{number}"))
    during(root, FIRST, File("/etc/conf", "slow"))
    assert FIRST in shelf(root)
    assert len(shelf(root)) == undo_store.NEWEST


def test_directories_that_are_not_runs_are_not_removed(root: Path) -> None:
    (root / SHELF / "notes").mkdir(parents=True)
    for number in range(undo_store.NEWEST + 1):
        during(root, run_id(number), File("/etc/conf", f"{number}"))
    assert "notes" in shelf(root)


@pytest.mark.parametrize(
    "run", ["../../etc", "20260101T120000.000000Z-deploy/../x", "/etc", "..", "20260101T120000.000000Z-", "x\n", "a\0b"]
)
def test_text_that_is_not_a_run_id_never_becomes_a_path(root: Path, run: str) -> None:
    (root / "etc/conf").write_text("before")
    before = snapshot(root / "etc")
    for resource in (File("/etc/conf", "after"), Restored("/etc/conf", run)):
        (outcome,) = during(root, run, resource)
        assert (outcome.status, "is not the id of a run" in outcome.message) == ("failed", True)
    assert snapshot(root / "etc") == before
    assert not (root / SHELF).exists()
    with pytest.raises(ResourceFailed, match="is not the id of a run"):
        told(root, since=run)


def cut(name: str) -> Callable[..., None]:
    """A step at which the power fails."""

    def goes(*_: object, **__: object) -> None:
        raise KeyboardInterrupt(name)

    return goes


@pytest.mark.parametrize("name", ["put", "sync", "append"])
def test_a_run_that_is_killed_before_it_writes_the_manifest_has_not_changed_the_file(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (root / "etc/conf").write_text("before")
    with monkeypatch.context() as patched:
        patched.setattr(undo_store if name == "append" else undo_store.replace, name, cut(name))
        with pytest.raises(KeyboardInterrupt):
            during(root, FIRST, File("/etc/conf", "after"))
    assert (root / "etc/conf").read_text() == "before"
    assert told(root)["files"] == []
    during(root, FIRST, File("/etc/conf", "after"))
    assert (
        undo_store.content_of(Context(str(root)), FIRST, undo_store.entries(Context(str(root)), FIRST)[0]) == b"before"
    )


def test_an_incomplete_line_is_ignored_and_later_lines_are_valid(root: Path) -> None:
    during(root, FIRST, File("/etc/a", "text"))
    with (root / SHELF / FIRST / "manifest").open("a") as manifest:
        manifest.write('{"path": "/etc/b", "exi')
    assert list(files(root)) == ["/etc/a"]
    during(root, FIRST, File("/etc/c", "text"))
    assert list(files(root)) == ["/etc/a", "/etc/c"]


def test_a_file_that_cannot_be_stored_is_not_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "etc/conf").write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28), str(root / SHELF))

    monkeypatch.setattr(undo_store, "append", full)
    (outcome,) = during(root, FIRST, File("/etc/conf", "after"))
    assert (outcome.status, (root / "etc/conf").read_text()) == ("failed", "before")
    assert outcome.message.startswith(
        f"nothing was changed, because the state before cannot be stored below {undo_store.DIRECTORY}:"
    )
    assert "free some space" in outcome.message


def test_a_file_that_is_too_large_to_store_is_not_changed(root: Path) -> None:
    with (root / "etc/conf").open("wb") as file:
        file.truncate(undo_store.MAX_FILE_BYTES + 1)
    before = snapshot(root / "etc")
    (outcome,) = during(root, FIRST, Absent("/etc/conf"))
    assert (outcome.status, "too large for the undo store" in outcome.message) == ("failed", True)
    assert snapshot(root / "etc") == before


def test_a_restored_file_has_content_and_mode_as_before_and_the_restoring_run_stores_its_state_too(root: Path) -> None:
    (root / "etc/conf").write_bytes(b"by hand \xff\n")
    (root / "etc/conf").chmod(0o664)
    during(root, FIRST, File("/etc/conf", "managed\n"))
    (outcome,) = during(root, SECOND, Restored("/etc/conf", FIRST))
    assert (outcome.status, [change.name for change in outcome.changes]) == ("changed", ["content", "mode"])
    path = root / "etc/conf"
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"by hand \xff\n", 0o664)
    assert during(root, SECOND, Restored("/etc/conf", FIRST))[0].status == "ok"
    assert files(root, since=SECOND)["/etc/conf"]["content"] == "managed\n"


def test_a_file_that_did_not_exist_before_is_removed_and_the_undo_of_that_restores_it(root: Path) -> None:
    during(root, FIRST, File("/etc/conf", "managed\n"))
    assert during(root, SECOND, Restored("/etc/conf", FIRST))[0].status == "changed"
    assert not (root / "etc/conf").exists()
    assert during(root, THIRD, Restored("/etc/conf", FIRST))[0].status == "ok"
    assert during(root, THIRD, Restored("/etc/conf", SECOND))[0].status == "changed"
    assert (root / "etc/conf").read_text() == "managed\n"


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_secret_when_restored_is_in_no_outcome(root: Path, declared: bool, dry_run: bool) -> None:
    (root / "etc/key").write_text(SECRET)
    (root / "etc/key").chmod(0o400)
    during(root, FIRST, File("/etc/key", f"new {SECRET}\n", mode=0o400, secret=True))
    resource = Restored("/etc/key", FIRST, declared)
    outcome = apply(resource, Context(str(root), dry_run=dry_run, run_id=SECOND))
    assert outcome.status == ("would change" if dry_run else "changed")
    assert SECRET not in str(outcome)
    assert (root / "etc/key").read_text() == (f"new {SECRET}\n" if dry_run else SECRET)


@pytest.mark.parametrize(
    ("path", "words"), [("/etc/other", "this host has no copy of /etc/other from before"), ("/etc/conf", "is missing")]
)
def test_a_file_without_a_copy_cannot_be_restored(root: Path, path: str, words: str) -> None:
    (root / "etc/conf").write_text("before")
    during(root, FIRST, File("/etc/conf", "after"))
    (root / SHELF / FIRST / "0").unlink()
    (outcome,) = during(root, SECOND, Restored(path, FIRST))
    assert (outcome.status, words in outcome.message) == ("failed", True)
    assert (root / "etc/conf").read_text() == "after"


def test_a_host_that_leaves_the_cluster_keeps_its_undo_store_without_secrets(root: Path) -> None:
    for name, mode in (("key", 0o400), ("conf", 0o644)):
        (root / "etc" / name).write_text(SECRET)
        (root / "etc" / name).chmod(mode)
    during(root, FIRST, File("/etc/key", "new", mode=0o400, secret=True), File("/etc/conf", "new"))
    leaving = (Absent("/etc/key", secret=True), Absent("/etc/conf"), NoKeptSecrets())
    assert [one.status for one in during(root, SECOND, *leaving)] == ["changed"] * 3
    assert told(root)["dropped"] == SECOND
    during(root, SECOND, File("/etc/last", "one"))
    (root / "etc/passwd").chmod(0o644)
    during(root, SECOND, Block("/etc/passwd", "x", "line\n"))
    assert during(root, THIRD, NoKeptSecrets())[0].status == "ok"
    kept_now = {path: file["content"] for path, file in files(root, since=SECOND).items()}
    assert (kept_now["/etc/key"], kept_now["/etc/conf"], kept_now["/etc/last"]) == (None, "new", None)
    assert kept_now["/etc/passwd"].startswith("root:")
    assert files(root)["/etc/conf"]["content"] == SECRET
    (outcome,) = during(root, THIRD, Restored("/etc/key", FIRST, True))
    assert (outcome.status, "is missing" in outcome.message) == ("failed", True)


def test_the_agent_answers_with_the_files_that_a_run_changed(agent: Agent, root: Path) -> None:
    (root / "etc/conf").write_text("before")
    (root / "etc/conf").chmod(0o644)
    resource = {"kind": "file", "path": "/etc/conf", "content": "after"}
    agent.ask({"op": "apply", "dry_run": False, "run": FIRST, "root": str(root), "resources": [resource]})
    (line,) = agent.ask({"op": "kept", "since": FIRST, "root": str(root)})
    assert [(file["path"], file["content"]) for file in line["kept"]["files"]] == [("/etc/conf", "before")]
    (line,) = agent.ask({"op": "kept", "since": "../x", "root": str(root)})
    assert "is not the id of a run" in line["error"]


def test_who_changed_the_host_last_is_told_in_one_line_and_nobody_after_a_boot(root: Path) -> None:
    assert told(root)["last"] == ""
    (root / "run").mkdir(exist_ok=True)
    (root / "run/slurmfab.lock").write_text("bjørn@laptop since 2026-11-22, fab add-node\n\x1b[2Jall is as wanted\n")
    assert told(root)["last"] == "bjørn@laptop since 2026-11-22, fab add-node[2Jall is as wanted"
