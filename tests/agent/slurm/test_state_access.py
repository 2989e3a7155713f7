"""slurmctld's state: what the slurm user cannot use is found, mended, or refused with the reason."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, apply
from slurmfab.on_hosts.agent.services import slurmctld_state
from slurmfab.on_hosts.agent.slurm.state_access import USABLE, StateAccess

PLACE = "/var/lib/slurm/slurmctld"
SLURM = 64030

needs_root = pytest.mark.needs_root("files of two users are needed")


@pytest.fixture
def state(root: Path) -> Path:
    """A state directory with a job, which belongs to a slurm user of its own."""
    for folder in (root, *root.parents):
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(0o711)
    passwd = root / "etc/passwd"
    lines = [line for line in passwd.read_text().splitlines() if not line.startswith("slurm")]
    passwd.write_text("\n".join([*lines, f"slurm:x:{SLURM}:{SLURM}::/:/bin/sh", ""]))
    group = root / "etc/group"
    group.write_text("".join(f"{line}\n" for line in group.read_text().splitlines() if not line.startswith("slurm")))
    with (root / "etc/group").open("a") as file:
        file.write(f"slurm:x:{SLURM}:\n")
    place = root / PLACE[1:]
    (place / "hash.1/job.1").mkdir(parents=True)
    for name in ("clustername", "job_state", "hash.1/job.1/script"):
        (place / name).write_text(name)
    give(place)
    return place


def give(place: Path) -> None:
    """Give everything to the slurm user, and close it to others."""
    for path in (place, *place.rglob("*")):
        os.chown(path, SLURM, SLURM)
        path.chmod(0o700 if path.is_dir() else 0o600)


def applied(context: Context, *, dry_run: bool = False) -> Outcome:
    return apply(StateAccess(PLACE), Context(context.root, dry_run))


def accesses(place: Path) -> set[tuple[int, int]]:
    return {(path.stat().st_uid, path.stat().st_mode & 0o600) for path in (place, *place.rglob("*"))}


@needs_root
def test_a_state_that_the_slurm_user_can_use_is_as_wanted(state: Path, context: Context) -> None:
    assert (applied(context).status, accesses(state)) == ("ok", {(SLURM, 0o600)})


@needs_root
@pytest.mark.parametrize(
    ("name", "access", "words"),
    [
        ("job_state", (0, 0o600), "job_state (of root, mode 0600)"),
        ("job_state", (SLURM, 0o000), "mode 0000)"),
        ("job_state", (0, 0o644), "job_state (of root, mode 0644)"),
        ("hash.1", (0, 0o700), "hash.1 (of root, mode 0700)"),
        ("hash.1/job.1/script", (0, 0o600), "hash.1/job.1/script (of root, mode 0600)"),
        (".", (0, 0o700), "slurmctld (of root, mode 0700)"),
        (".", (SLURM, 0o500), "mode 0500)"),
    ],
)
def test_a_state_that_the_slurm_user_cannot_use_is_named_and_mended(
    state: Path, context: Context, name: str, access: tuple[int, int], words: str
) -> None:
    os.chown(state / name, access[0], access[0])
    (state / name).chmod(access[1])
    planned = applied(context, dry_run=True)
    assert (planned.status, words in planned.changes[0].actual) == ("would change", True)
    assert (applied(context).status, accesses(state)) == ("changed", {(SLURM, 0o600)})


@needs_root
def test_a_whole_state_of_root_is_mended_whatever_is_in_closed_directories(state: Path, context: Context) -> None:
    for path in (state, *state.rglob("*")):
        os.chown(path, 0, 0)
    assert (applied(context).status, accesses(state)) == ("changed", {(SLURM, 0o600)})


@needs_root
def test_files_that_are_not_slurmctlds_are_left_alone(state: Path, context: Context) -> None:
    (state / "lost+found").mkdir(0o700)
    (state / ".snapshot").mkdir(0o700)
    (state / "jwt.key").write_text("")
    os.chown(state / "jwt.key", SLURM, SLURM)
    (state / "jwt.key").chmod(0o400)
    (state / "away").symlink_to("/etc/shadow")
    assert applied(context).status == "ok"


@needs_root
def test_a_file_of_another_place_that_is_linked_into_the_state_is_not_given_away(
    state: Path, root: Path, context: Context
) -> None:
    (root / "secret").write_text("")
    (root / "secret").chmod(0o600)
    (state / "job_state").unlink()
    (state / "job_state").hardlink_to(root / "secret")
    outcome = applied(context)
    assert (outcome.status, "2 hard links" in outcome.message, (root / "secret").stat().st_uid) == ("failed", True, 0)


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    if subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode != 0:
        pytest.skip("this file system has no attributes")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


@needs_root
@pytest.mark.parametrize("dry_run", [True, False])
def test_an_immutable_state_file_is_refused_with_the_reason_and_the_way_out(
    state: Path, context: Context, dry_run: bool
) -> None:
    with immutable(state / "job_state"):
        outcome = applied(context, dry_run=dry_run)
    assert outcome.status == "failed"
    assert f"job_state (immutable (lsattr); chattr -i {state}/job_state)" in outcome.message


@needs_root
def test_a_directory_above_the_state_that_is_closed_to_the_slurm_user_is_named(state: Path, context: Context) -> None:
    state.parent.chmod(0o700)
    outcome = applied(context)
    assert outcome.status == "failed"
    assert f"{state.parent} is of root, mode 0700, and the slurm user cannot enter it" in outcome.message


def test_a_state_that_does_not_exist_yet_needs_nothing(context: Context) -> None:
    assert StateAccess(PLACE).actual(context) == {"access": USABLE}


STARTED = "[2026-11-22T16:58:35.100] slurmctld version 24.11.5 started on cluster lab"
RUNNING = "[2026-11-22T16:58:36.000] Running as primary controller"
DENIED = "[2026-11-22T16:58:35.552] error: Could not open job state file /s/job_state: Permission denied"


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (DENIED, DENIED),
        ("error: Could not open node state file /s/node_state: Input/output error", True),
        ("error: Could not open job state file /s/job_state: No such file or directory", ""),
        (f"{STARTED}\n{DENIED}\n{RUNNING}", DENIED),
        (f"{DENIED}\n{STARTED}\n{RUNNING}", ""),
        (f"{STARTED}\n{RUNNING}\n{DENIED}", ""),
        (f"{RUNNING}\n[x] ControlMachine ctl not responding, BackupController1 taking over\n{DENIED}", DENIED),
        (STARTED, ""),
        ("", ""),
    ],
)
def test_lines_of_loading_tell_whether_the_state_was_read_and_later_ones_do_not(log: str, found: str | bool) -> None:
    assert slurmctld_state.unread_state(f"[x] first line\n{log}\n") == (log if found is True else found)


def test_the_place_of_the_state_is_that_of_slurm_conf(root: Path, context: Context) -> None:
    assert slurmctld_state.location(context) == ""
    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/slurm.conf").write_text("ClusterName=lab\nstatesavelocation = /shared/state # here\n")
    assert slurmctld_state.location(context) == "/shared/state"
