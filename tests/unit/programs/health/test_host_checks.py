"""The health checks, with files and directories in place of real hardware."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.programs.health import host_checks
from slurmfab.on_hosts.programs.health.host_checks import (
    full_disks,
    less_memory,
    missing_mounts,
    required_bytes,
    wrong_clock,
)
from slurmfab.on_hosts.programs.health.path_probe import LATE, STUCK, PathState, is_alive, probe

GIB = 1 << 30
EMPTY = PathState(0, 1, 50 * GIB, 100 * GIB, 900, 1000)


def left(most: float) -> float:
    return most


def soon() -> float:
    """The end of the time for all paths, which a busy machine does not reach."""
    return time.monotonic() + 60


def test_paths_when_they_are_looked_at_then_each_answers_for_itself(tmp_path: Path) -> None:
    answers = probe([str(tmp_path), "/proc", f"{tmp_path}/none"], {}, 60, soon())
    assert [answer.error for answer in answers.values()] == [0, 0, errno.ENOENT]
    assert answers[str(tmp_path)].device == tmp_path.stat().st_dev
    assert answers[str(tmp_path)].size > answers[str(tmp_path)].free > 0


def test_a_path_when_it_never_answers_then_it_is_late_once_and_stuck_then_and_the_others_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hang_at(monkeypatch, "/hung")
    stuck: dict[str, Any] = {}
    looks = [probe(["/", "/hung", "/proc"], stuck, 0.2, soon()) for _ in range(3)]
    assert [[answer.error for answer in look.values()] for look in looks] == [
        [0, LATE, 0],
        [0, STUCK, 0],
        [0, STUCK, 0],
    ]


def test_a_path_when_it_was_late_once_and_answers_again_then_that_is_forgotten() -> None:
    stuck: dict[str, Any] = {"/": [1, "0"]}
    assert probe(["/"], stuck, 60, soon())["/"].error == 0
    assert stuck == {}


def test_paths_when_there_is_no_time_for_them_then_they_are_late_and_not_lost() -> None:
    assert probe(["/"], {}, 5, time.monotonic()) == {"/": PathState(LATE)}


def test_a_path_when_somebody_still_waits_for_it_then_nobody_else_is_sent() -> None:
    start = host_checks.probe.__globals__["start_of"](os.getpid())
    stuck: dict[str, Any] = {"/": [os.getpid(), start], "/proc": [os.getpid(), "1"]}
    answers = probe(["/", "/proc"], stuck, 60, soon())
    assert {path: answer.error for path, answer in answers.items()} == {"/": STUCK, "/proc": 0}
    assert list(stuck) == ["/"]


def hang_at(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Make a path hang forever in the process that examines it."""
    real = os.statvfs

    def statvfs(asked: str) -> os.statvfs_result:
        if asked == path:
            time.sleep(600)
        return real(asked)

    real_stat = os.stat
    monkeypatch.setattr(os, "stat", lambda asked, **more: real_stat("/" if asked == path else asked, **more))
    monkeypatch.setattr(os, "statvfs", statvfs)


@pytest.mark.parametrize(
    ("answer", "causes"),
    [
        pytest.param(EMPTY, {}, id="empty"),
        pytest.param(EMPTY._replace(free=3 * GIB), {}, id="just-enough"),
        pytest.param(EMPTY._replace(free=2 * GIB), {"full /tmp": "/tmp is full (2 GiB of 100 GiB free)"}, id="full"),
        pytest.param(
            EMPTY._replace(inodes_free=5), {"inodes /tmp": "/tmp has no inodes left (5 of 1000 free)"}, id="no-inodes"
        ),
        pytest.param(EMPTY._replace(inodes_free=0, inodes=0), {}, id="no-limit-of-inodes"),
        pytest.param(
            EMPTY._replace(is_read_only=True), {"read-only /tmp": "/tmp is mounted read-only"}, id="read-only"
        ),
        pytest.param(PathState(STUCK), {"disk /tmp": "/tmp does not answer"}, id="stuck"),
        pytest.param(PathState(LATE), {}, id="late"),
        pytest.param(PathState(errno.EIO), {"disk /tmp": "/tmp does not answer (Input/output error)"}, id="broken"),
        pytest.param(PathState(errno.ENOENT), {}, id="not-there"),
    ],
)
def test_a_disk_when_something_is_wrong_with_it_then_that_is_a_cause(answer: PathState, causes: dict[str, str]) -> None:
    assert full_disks({"/tmp": "3%"}, {"/tmp": answer}, {}) == causes


def test_a_disk_that_was_full_when_it_has_hardly_more_then_it_still_is() -> None:
    answers = {"/tmp": EMPTY._replace(free=int(3.5 * GIB))}
    assert full_disks({"/tmp": "3%"}, answers, {}) == {}
    assert list(full_disks({"/tmp": "3%"}, answers, {"full /tmp": "as it was"})) == ["full /tmp"]
    assert full_disks({"/tmp": "3%"}, {"/tmp": EMPTY._replace(free=4 * GIB)}, {"full /tmp": "as it was"}) == {}


def test_one_file_system_when_several_paths_lead_there_then_it_is_told_once() -> None:
    full = EMPTY._replace(free=0)
    paths = {"/": "3%", "/tmp": "3%", "/var": "3%", "/srv": "1G"}
    assert list(full_disks(paths, dict.fromkeys(paths, full), {})) == ["full /", "full /srv"]


@pytest.mark.parametrize(("amount", "bytes_"), [("3%", 30), ("0.5%", 5), ("2K", 2048), ("1G", GIB)])
def test_an_amount_is_a_share_or_a_number(amount: str, bytes_: int) -> None:
    assert required_bytes(amount, 1000) == bytes_


MOUNTINFO = "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n24 23 0:50 / /home rw - nfs4 server:/home rw\n"


@pytest.mark.parametrize(
    ("path", "answer", "cause"),
    [
        pytest.param("/home", PathState(0), None, id="mounted"),
        pytest.param("/scratch", PathState(0), "nothing is mounted at /scratch", id="an-empty-directory"),
        pytest.param("/scratch", PathState(errno.ENOENT), "nothing is mounted at /scratch", id="no-directory"),
        pytest.param("/home", PathState(STUCK), "/home does not answer", id="hung"),
        pytest.param("/home", PathState(LATE), None, id="late"),
        pytest.param("/home", PathState(errno.ESTALE), "/home does not answer (Stale file handle)", id="stale"),
    ],
)
def test_a_mount_when_it_is_missing_or_dead_then_that_is_a_cause(
    tmp_path: Path, path: str, answer: PathState, cause: str | None
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    found = missing_mounts([path], {path: answer}, str(tmp_path / "mountinfo"))
    assert found == ({f"mount {path}": cause} if cause else {})


def test_memory_when_it_has_shrunk_then_that_is_a_cause(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:        8388608 kB\nMemFree: 1 kB\n")
    assert less_memory(8192, str(meminfo)) == {}
    assert less_memory(0, str(meminfo)) == {}
    assert less_memory(16000, str(meminfo)) == {"memory": "only 8192 MiB of memory where slurm.conf has 16000"}


@pytest.mark.parametrize(
    ("tracking", "cause"),
    [
        pytest.param("0A000001,10.0.0.1,3,1700000000.1,0.000012,0,0,0,0,0,0,0,64.0,Normal", {}, id="right"),
        pytest.param("0A000001,x,3,1.1,-42.5,0", {"clock": "the clock is 42.5 s off"}, id="slow"),
        pytest.param("506 Cannot talk to daemon", {}, id="no-chrony"),
    ],
)
def test_a_clock_when_chrony_says_that_it_is_off_then_that_is_a_cause(tracking: str, cause: dict[str, str]) -> None:
    assert wrong_clock(10, left, ("echo", tracking)) == cause
    assert wrong_clock(0, left, ("echo", tracking)) == {}
    assert wrong_clock(10, left, ("no-such-program",)) == {}


def test_a_program_when_it_hangs_then_it_is_given_up() -> None:
    late = "import time; time.sleep(60); print('what it says at its end')"
    assert host_checks.output_of([sys.executable, "-c", late], 0.2) == ""


def test_everything_when_nothing_is_asked_for_then_nothing_is_wrong() -> None:
    assert host_checks.find_causes({}, {}, left, 0) == {}


def test_who_looks_and_never_comes_back_keeps_no_lock_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hang_at(monkeypatch, "/hung")
    monkeypatch.setattr(os, "kill", lambda *_: None)  # as if it waited in the kernel
    stuck: dict[str, Any] = {}
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        probe(["/hung"], stuck, 0.2, soon())
    monkeypatch.undo()
    pid, start = stuck["/hung"]
    try:
        assert is_alive(pid, start)
        with (tmp_path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
