"""The directory that has those of jobs: made, refused if somebody else's, taken back after jobs have ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hostile_directory import give_away
from outcomes import told_of
from scratch_node import DISK, NFS, Node, made

from slurmfab.on_hosts.agent.core.host_paths import SCRATCH_SETTINGS
from slurmfab.on_hosts.agent.scratch.scratch_directory import ScratchDirectory


def names(root: Path) -> list[str]:
    """What is in the directory."""
    return [path.name for path in (root / "scratch").iterdir()]


def settle(root: Path, path: str) -> None:
    """Write the settings that a host has for directories of jobs."""
    place = root / SCRATCH_SETTINGS.lstrip("/")
    place.write_text(json.dumps({"path": path, "mount": "", "node": "n1"}))


def test_directory_when_missing_then_is_made_once(root: Path) -> None:
    wanted = ScratchDirectory("/disk/scratch")
    assert told_of(wanted, Node(root))[0] == "changed"
    assert (root / "disk/scratch").stat().st_mode & 0o7777 == 0o755
    assert told_of(wanted, Node(root))[0] == "ok"


def test_directory_when_a_dry_run_then_is_not_made(root: Path) -> None:
    node = Node(root)
    node.dry_run = True
    assert told_of(ScratchDirectory("/scratch"), node)[0] == "would change"
    assert not (root / "scratch").exists()


@pytest.mark.parametrize(("name", "mode"), [("7", 0o755), ("ann", 0o1777)])
def test_directory_when_others_have_files_there_then_is_refused_and_stays(root: Path, name: str, mode: int) -> None:
    (root / "scratch" / name).mkdir(parents=True)
    (root / "scratch").chmod(mode)
    status, message = told_of(ScratchDirectory("/scratch"), Node(root))
    assert (status, "Name a directory for jobs alone" in message) == ("failed", True)
    assert (root / "scratch").stat().st_mode & 0o7777 == mode


def test_directory_when_a_new_file_system_is_open_to_all_then_is_roots(root: Path) -> None:
    (root / "scratch/lost+found").mkdir(parents=True)
    (root / "scratch").chmod(0o1777)
    assert told_of(ScratchDirectory("/scratch"), Node(root))[0] == "changed"
    assert (root / "scratch").stat().st_mode & 0o7777 == 0o755


def test_directory_when_somebody_else_has_the_way_to_it_then_is_refused(root: Path) -> None:
    give_away(root / "disk")
    (root / "disk/scratch").mkdir()
    assert told_of(ScratchDirectory("/disk/scratch"), Node(root))[0] == "failed"


def test_directory_when_on_a_file_server_then_is_refused(root: Path) -> None:
    (root / "scratch").mkdir()
    node = Node(root)
    node.mount(NFS)
    status, message = told_of(ScratchDirectory("/scratch"), node)
    assert (status, "no disk of this node alone" in message) == ("failed", True)


def test_directory_when_its_disk_is_not_mounted_then_fails_until_it_is(root: Path) -> None:
    (root / "scratch").mkdir(mode=0o755)
    node = Node(root)
    assert told_of(ScratchDirectory("/scratch", "/scratch"), node) == (
        "failed",
        "/scratch is not mounted, so /scratch would be on another disk",
    )
    node.mount(DISK)
    assert told_of(ScratchDirectory("/scratch", "/scratch"), node)[0] == "ok"


def test_directory_when_ours_has_been_opened_then_is_closed_again(root: Path) -> None:
    (root / "scratch/7").mkdir(parents=True)
    settle(root, "/scratch")
    (root / "scratch").chmod(0o777)
    assert told_of(ScratchDirectory("/scratch"), Node(root))[0] == "changed"
    assert (root / "scratch").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("path", ["", "/elsewhere"])
def test_former_when_no_job_runs_then_is_gone_with_what_jobs_left(root: Path, path: str) -> None:
    (root / "scratch").mkdir(mode=0o755)
    settle(root, "/scratch")
    (made(Node(root)) / "data").write_text("x")
    assert told_of(ScratchDirectory(path), Node(root))[0] == "changed"
    assert not (root / "scratch").exists()
    assert not path or (root / "elsewhere").is_dir()


@pytest.mark.parametrize(("steps", "known"), [([7], []), ([], [7]), ([], None)])
def test_former_when_its_job_runs_or_may_run_then_stays_and_fails(
    root: Path, steps: list[int], known: list[int] | None
) -> None:
    (root / "scratch").mkdir(mode=0o755)
    settle(root, "/scratch")
    (made(Node(root)) / "data").write_text("x")
    status, message = told_of(ScratchDirectory(""), Node(root, steps, known))
    assert status == "failed"
    assert ("job 7, which runs here" in message) == (known is not None)
    assert (root / "scratch/7/data").read_text() == "x"


def test_former_when_others_have_files_there_then_only_those_of_jobs_go(root: Path) -> None:
    (root / "scratch").mkdir(mode=0o755)
    (root / "scratch/README").write_text("of the site")
    settle(root, "/scratch")
    made(Node(root))
    assert told_of(ScratchDirectory(""), Node(root))[0] == "changed"
    assert names(root) == ["README"]
    assert told_of(ScratchDirectory(""), Node(root))[0] == "ok"


def test_former_when_it_is_a_mount_point_then_stays_empty(root: Path) -> None:
    (root / "scratch").mkdir(mode=0o755)
    settle(root, "/scratch")
    node = Node(root)
    node.mount(DISK)
    made(node)
    assert told_of(ScratchDirectory(""), node)[0] == "changed"
    assert names(root) == []
    assert told_of(ScratchDirectory(""), node)[0] == "ok"
