"""Rotation of the munge key, also after interrupted runs; the lab tests it with a real munged."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, apply, as_request
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.kinds import build
from slurmfab.on_hosts.agent.munge import rotation
from slurmfab.on_hosts.agent.munge.key import MungeKey
from slurmfab.on_hosts.agent.munge.rotation import MungeKeySwitch, StagedMungeKey, digest, staged

PATH = "/etc/munge/munge.key"
OLD, NEW = bytes(range(128)), bytes(range(128, 256))
CONTENT = base64.b64encode(NEW).decode()
LEFT = ".slurmfab-munge.key.0123abcd"


class Programs(Context):
    """A context whose programs only note that they were called; munge fails a given number of times."""

    def __init__(self, root: Path, refusals: int = 0) -> None:
        super().__init__(str(root))
        self.calls: list[str] = []
        self.refusals = refusals

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.calls.append(" ".join(argv))
        self.refusals -= argv[0] == "munge"
        code = int(argv[0] == "munge" and self.refusals >= 0)
        shown = b"ActiveState=active\nMainPID=0\n" if "show" in argv else b""
        return subprocess.CompletedProcess(list(argv), code, shown, b"munge: Error: no socket" if code else b"")


@pytest.fixture
def folder(root: Path) -> Path:
    """The directory of munge with a key."""
    (root / "etc/munge").mkdir()
    (root / "etc/munge/munge.key").write_bytes(OLD)
    (root / "etc/munge/munge.key").chmod(0o400)
    return root / "etc/munge"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_staged_key_is_beside_the_old_one_and_only_munge_can_read_it(folder: Path, context: Context) -> None:
    (folder / LEFT).write_text("of a killed run")
    assert apply(StagedMungeKey(CONTENT), context).status == "changed"
    new = Path(staged(str(folder / "munge.key"), digest(NEW)))
    assert names(folder) == sorted(["munge.key", new.name])
    assert (new.read_bytes(), new.stat().st_mode & 0o7777) == (NEW, 0o400)
    assert (folder / "munge.key").read_bytes() == OLD
    assert apply(StagedMungeKey(CONTENT), context).status == "ok"


def test_staged_keys_when_none_is_wanted_are_removed(folder: Path, context: Context) -> None:
    (folder / LEFT).write_bytes(NEW)
    assert apply(StagedMungeKey(""), context).status == "changed"
    assert names(folder) == ["munge.key"]


def test_a_key_that_cannot_be_staged_leaves_no_file(folder: Path) -> None:
    context = Context(str(folder / "nowhere"))
    assert apply(StagedMungeKey(CONTENT), context).status == "failed"
    assert names(folder) == ["munge.key"]


def test_a_key_when_switched_is_in_its_place_and_munged_was_restarted(folder: Path, root: Path) -> None:
    apply(StagedMungeKey(CONTENT), Context(str(root)))
    programs = Programs(root, refusals=2)
    assert apply(MungeKeySwitch(digest(NEW)), programs).status == "changed"
    assert (folder / "munge.key").read_bytes() == NEW
    assert names(folder) == ["munge.key"]
    assert programs.calls.count("systemctl restart munge") == 1
    assert programs.calls.count("munge --no-input") == 3


def test_a_munged_that_was_started_too_often_is_started_all_the_same(folder: Path, root: Path) -> None:  # noqa: ARG001
    class Refusing(Programs):
        """A systemd that restarts munge only after its count of starts was reset."""

        def run(self, argv: Sequence[str], *more: Any, **others: Any) -> subprocess.CompletedProcess[bytes]:
            done = super().run(argv, *more, **others)
            is_refused = "restart" in argv and "systemctl reset-failed munge" not in self.calls
            return subprocess.CompletedProcess(argv, int(is_refused), done.stdout, b"")

    apply(StagedMungeKey(CONTENT), Context(str(root)))
    programs = Refusing(root)
    assert apply(MungeKeySwitch(digest(NEW)), programs).status == "changed"
    restarts = [call for call in programs.calls if call.startswith("systemctl re")]
    assert restarts == ["systemctl restart munge", "systemctl reset-failed munge", "systemctl restart munge"]


def test_a_key_when_another_one_is_staged_is_not_switched(folder: Path, root: Path) -> None:
    apply(StagedMungeKey(base64.b64encode(OLD).decode()), Context(str(root)))
    programs = Programs(root)
    assert "so the old one stays" in failure(MungeKeySwitch(digest(NEW)), programs)
    assert (folder / "munge.key").read_bytes() == OLD
    assert "systemctl restart munge" not in programs.calls


def test_neither_key_when_rotated_is_in_any_outcome(folder: Path, root: Path) -> None:  # noqa: ARG001
    told = repr(StagedMungeKey(CONTENT)) + repr(MungeKeySwitch(digest(NEW)))
    told += repr(apply(StagedMungeKey(CONTENT), Context(str(root))))
    told += repr(apply(MungeKeySwitch(digest(NEW)), Programs(root)))
    for secret in (CONTENT[:12], NEW.hex()[:12], hashlib.sha256(NEW).hexdigest()[:8]):
        assert secret not in told


def test_the_old_key_is_in_the_undo_store_as_soon_as_the_new_one_is_staged() -> None:
    wanted = build(as_request(StagedMungeKey(CONTENT)))
    assert wanted.touches(frozenset({"staged"})) == (PATH,)
    assert wanted.holds_secret(PATH)
    assert wanted.units() == ("munge",)


@pytest.mark.parametrize(
    "resource",
    [
        MungeKey(PATH),
        File(PATH, base64.b64encode(OLD).decode(), "munge", "munge", 0o400, secret=True, encoding="base64"),
    ],
    ids=["made", "copied"],
)
def test_a_staged_key_of_an_interrupted_run_is_a_difference_that_restarts_nothing(
    folder: Path, context: Context, resource: MungeKey | File
) -> None:
    assert apply(resource, context).status == "ok"
    changed = (folder / "munge.key").stat().st_ctime_ns
    (folder / LEFT).write_bytes(NEW)
    outcome = apply(resource, context)
    assert (outcome.status, [change.name for change in outcome.changes]) == ("changed", ["leftovers"])
    assert names(folder) == ["munge.key"]
    assert (folder / "munge.key").stat().st_ctime_ns == changed
    assert context.touched == set()


def test_a_secret_that_has_to_be_absent_is_removed_with_the_copies_of_interrupted_runs(
    folder: Path, context: Context
) -> None:
    (folder / LEFT).write_bytes(NEW)
    (folder / "munge.key").unlink()
    assert apply(Absent(PATH, secret=True), context).status == "changed"
    assert names(folder) == []
    assert apply(Absent(PATH, secret=True), context).status == "ok"


def test_a_file_that_is_not_a_secret_may_have_leftovers(root: Path, context: Context) -> None:
    (root / "etc/conf").write_text("x")
    (root / "etc/conf").chmod(0o644)
    (root / "etc/.slurmfab-conf.0123abcd").write_text("half")
    assert replace.leftovers(str(root / "etc/conf")) == [".slurmfab-conf.0123abcd"]
    assert apply(File("/etc/conf", "x"), context).status == "ok"


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ("STATUS:           Success (0)\nENCODE_HOST:      n1\n", "Success (0)"),
        ("unmunge: Error: Invalid credential\n", "unmunge: Error: Invalid credential"),
        ("", "unmunge printed nothing"),
    ],
)
def test_the_output_of_unmunge_gives_the_status(shown: str, status: str) -> None:
    assert rotation.status(shown) == status


def test_credentials_come_from_the_socket_that_slurm_conf_names(root: Path) -> None:
    context = Context(str(root))
    assert rotation.place_of_socket(context) == []
    conf = root / "etc/slurm/slurm.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text("Include auth.conf\n")
    (conf.parent / "auth.conf").write_text("authinfo = ttl=60,socket=/opt/munge/sock # ours\n")
    assert rotation.place_of_socket(context) == ["--socket", "/opt/munge/sock"]
