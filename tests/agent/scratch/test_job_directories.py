"""Directories of jobs: made and removed as root, whatever their users put there, and for no job that still runs."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hostile_directory import give_away, swapped
from scratch_node import DISK, HERE, NFS, UID, Node, made

from slurmfab.on_hosts.agent.core.removal import GONE, empty, set_aside
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.scratch import job_directories
from slurmfab.on_hosts.agent.scratch.job_directories import opened, unused, wrong_place


@pytest.fixture
def base(root: Path) -> Path:
    """The directory that has those of jobs."""
    path = root / "scratch"
    path.mkdir()
    path.chmod(0o755)
    return path


def removed(node: Node, job: str = "7") -> str:
    """Remove the directory of a job, and return what is left."""
    with opened(node, HERE) as folder:
        set_aside(folder, job)
        return empty(folder, time.monotonic() + 60)


@pytest.mark.usefixtures("base")
def test_make_then_is_for_its_user_alone_and_empty(root: Path) -> None:
    directory = made(Node(root))
    status = directory.stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (UID, 0o700)
    assert list(directory.iterdir()) == []


def test_make_when_an_earlier_run_of_the_job_left_something_then_begins_anew(root: Path, base: Path) -> None:
    node = Node(root)
    (made(node) / "data").write_text("old")
    assert list(made(node).iterdir()) == []
    with opened(node, HERE) as folder:
        assert empty(folder, time.monotonic() + 60) == ""
    assert list((base / GONE).iterdir()) == []


@pytest.mark.usefixtures("base")
def test_make_when_a_step_of_the_job_runs_here_then_keeps_what_is_there(root: Path) -> None:
    (made(Node(root)) / "data").write_text("mine")
    assert (made(Node(root, steps=[7])) / "data").read_text() == "mine"


@pytest.mark.parametrize("steps", [[], [7]])
def test_make_when_a_link_has_the_name_then_its_target_stays(root: Path, base: Path, steps: list[int]) -> None:
    target = root / "precious"
    target.mkdir(mode=0o750)
    (base / "7").symlink_to(target)
    directory = made(Node(root, steps))
    assert not directory.is_symlink()
    assert target.stat().st_uid == os.geteuid()
    assert target.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_opened_when_others_can_change_it_then_is_refused(root: Path, base: Path, mode: int) -> None:
    base.chmod(mode)
    with pytest.raises(ResourceFailed, match="writable for root alone"):
        opened(Node(root), HERE)


@pytest.mark.usefixtures("base")
def test_opened_when_somebody_else_owns_the_way_then_is_refused(root: Path) -> None:
    give_away(root / "disk")
    (root / "disk/scratch").mkdir(mode=0o755)
    with pytest.raises(ResourceFailed, match="can be changed by"):
        opened(Node(root), "/disk/scratch")


def test_opened_when_it_is_a_link_then_is_refused(root: Path, base: Path) -> None:
    base.rename(root / "elsewhere")
    base.symlink_to(root / "elsewhere")
    with pytest.raises(ResourceFailed, match="symbolic link"):
        opened(Node(root), HERE)


def test_remove_when_links_lead_out_then_their_targets_stay(root: Path, base: Path) -> None:
    node, precious = Node(root), root / "precious"
    (precious / "inner").mkdir(parents=True)
    (precious / "file").write_text("keep")
    directory = made(node)
    (directory / "link").symlink_to(precious)
    (directory / "deep/er").mkdir(parents=True)
    (directory / "deep/er/link").symlink_to(precious / "file")
    if os.getuid() == 0:  # which no mode keeps out
        (directory / "deep/closed").mkdir(mode=0)
    os.link(precious / "file", directory / "hard")
    os.mkfifo(directory / "fifo")
    assert removed(node) == ""
    assert sorted(path.name for path in base.iterdir()) == [GONE]
    assert list((base / GONE).iterdir()) == []
    assert (precious / "file").read_text() == "keep"
    assert (precious / "inner").is_dir()


@pytest.mark.usefixtures("base")
def test_remove_when_directories_are_nested_deeper_than_a_path_is_long_then_all_go(root: Path) -> None:
    node = Node(root)
    at = os.open(made(node), os.O_RDONLY)
    for _ in range(700):
        os.mkdir("nested", dir_fd=at)
        deeper = os.open("nested", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)
    assert removed(node) == ""


@pytest.mark.usefixtures("base")
def test_remove_while_its_user_swaps_directories_and_links_then_nothing_else_is_touched(root: Path) -> None:
    precious = root / "precious"
    precious.mkdir()
    for number in range(20):
        (precious / f"file{number}").write_text("keep")
    for job in map(str, range(1, 60)):
        node = Node(root)
        directory = made(node, job)
        (directory / "sub/more").mkdir(parents=True)
        with swapped(directory / "sub", precious), suppress(ResourceFailed, OSError):
            removed(node, job)
    assert len(list(precious.iterdir())) == 20


@pytest.mark.usefixtures("base")
def test_remove_while_somebody_still_writes_then_it_ends_and_tells(root: Path) -> None:
    node, ended = Node(root), threading.Event()
    at = os.open(made(node), os.O_RDONLY)

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            with suppress(OSError):
                os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=at))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        left = removed(node)
    finally:
        ended.set()
        thread.join()
        os.close(at)
    assert left == "" or left.endswith("somebody still writes there")


@pytest.mark.usefixtures("base")
def test_remove_when_the_time_is_over_then_the_rest_is_left_for_the_next_time(root: Path, base: Path) -> None:
    node = Node(root)
    (made(node) / "data").write_text("x")
    with opened(node, HERE) as folder:
        set_aside(folder, "7")
        assert empty(folder, time.monotonic()) == ""
        assert len(list((base / GONE).iterdir())) == 1
        assert empty(folder, time.monotonic() + 60) == ""
    assert list((base / GONE).iterdir()) == []


@pytest.mark.parametrize(
    ("steps", "known", "left"),
    [
        pytest.param([], [], ["5", "6"], id="no job runs"),
        pytest.param([5, 6], None, [], id="all have steps, so Slurm is not asked"),
        pytest.param([5], [6], [], id="one is about to begin"),
        pytest.param([5], [], ["6"], id="one has ended"),
    ],
)
def test_unused_then_has_only_jobs_that_do_not_run(
    root: Path, base: Path, steps: list[int], known: list[int] | None, left: list[str]
) -> None:
    for name in ("5", "6", "7", "lost+found", "0", "x1", GONE):
        (base / name).mkdir()
    node = Node(root, steps, known)
    with opened(node, HERE) as folder:
        assert unused(node, folder, "n1", {"7"}) == left
    assert bool(node.asked) == (known is not None)


def test_unused_when_slurm_does_not_answer_then_fails(root: Path, base: Path) -> None:
    (base / "5").mkdir()
    with opened(node := Node(root, known=None), HERE) as folder, pytest.raises(ResourceFailed):
        unused(node, folder, "n1")


@pytest.mark.usefixtures("base")
@pytest.mark.parametrize(
    ("table", "mount", "reason"),
    [
        ("", "", ""),
        (DISK, "", ""),
        (DISK, "/scratch", ""),
        (NFS, "", "/scratch is on /scratch (nfs4), which is no disk of this node alone"),
        ("", "/scratch", "/scratch is not mounted, so /scratch would be on another disk"),
    ],
)
def test_wrong_place_then_tells_shared_and_missing_disks(root: Path, table: str, mount: str, reason: str) -> None:
    node = Node(root)
    node.mount("20 1 0:18 / / rw - ext4 /dev/sda1 rw\n" + table)
    assert wrong_place(node, HERE, mount) == reason


def test_is_job_then_takes_ids_alone() -> None:
    names = ("1", "4294967295", "0", "01", "12_3", "..", "", "1\n")
    assert list(filter(job_directories.is_job, names)) == ["1", "4294967295"]
