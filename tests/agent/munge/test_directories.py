"""The directories of munged: munge's, and nobody else's to write to, whatever more or less may be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.munge.directories import MODES, MungeDirectories

MUNGE = MungeDirectories()


@pytest.fixture
def places(root: Path) -> Path:
    """munged's directories and files as Debian's package and munged make them."""
    for path, mode in MODES.items():
        (root / path[1:]).mkdir(parents=True)
        (root / path[1:]).chmod(mode)
    for path in ("var/lib/munge/munge.seed", "var/log/munge/munged.log"):
        (root / path).touch(0o600)
    return root


@pytest.mark.usefixtures("places")
def test_directories_as_the_package_makes_them_are_right(context: Context) -> None:
    assert apply(MUNGE, context).status == "ok"


@pytest.mark.parametrize(
    ("path", "mode"), [("var/log/munge", 0o750), ("var/lib/munge", 0o700), ("var/log/munge/munged.log", 0o644)]
)
def test_what_more_or_fewer_users_may_read_is_right(places: Path, context: Context, path: str, mode: int) -> None:
    (places / path).chmod(mode)
    assert apply(MUNGE, context).status == "ok"


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("etc/munge", 0o770),
        ("var/lib/munge", 0o777),
        ("var/lib/munge/munge.seed", 0o666),
        ("var/log/munge", 0o775),
        ("var/log/munge/munged.log", 0o660),
        ("run/munge", 0o700),
    ],
)
def test_what_others_may_write_or_cannot_pass_gets_the_packages_mode(
    places: Path, context: Context, path: str, mode: int
) -> None:
    (places / path).chmod(mode)
    outcome = apply(MUNGE, context)
    assert [change.name for change in outcome.changes] == [f"/{path}"]
    assert outcome.status == "changed"
    assert (places / path).stat().st_mode & 0o7777 in {*MODES.values(), 0o600, 0o640}


def test_missing_directories_are_made_and_missing_files_are_left_to_munged(root: Path, context: Context) -> None:
    outcome = apply(MUNGE, context)
    assert [(change.name, change.actual) for change in outcome.changes] == [(path, "") for path in MODES]
    assert outcome.status == "changed"
    assert {path: (root / path[1:]).stat().st_mode & 0o777 for path in MODES} == MODES
    assert list((root / "var/lib/munge").iterdir()) == []


def test_a_log_that_is_a_link_is_refused(places: Path, context: Context) -> None:
    log = places / "var/log/munge/munged.log"
    log.unlink()
    log.symlink_to("/dev/null")
    assert "is a symbolic link" in apply(MUNGE, context).message


def test_a_place_that_is_a_file_is_refused(places: Path, context: Context) -> None:
    (places / "run/munge").rmdir()
    (places / "run/munge").touch()
    assert "/run/munge" in failure(MUNGE, context)


@pytest.mark.parametrize(("is_running", "status"), [(False, "ok"), (True, "would change")])
def test_a_missing_directory_of_the_socket_differs_only_while_munged_runs(
    places: Path, context: Context, monkeypatch: pytest.MonkeyPatch, is_running: bool, status: str
) -> None:
    (places / "run/munge").rmdir()
    monkeypatch.setattr(MungeDirectories, "is_running", lambda *_: is_running)
    assert apply(MUNGE, Context(context.root, dry_run=True)).status == status
