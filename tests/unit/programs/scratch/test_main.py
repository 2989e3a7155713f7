"""The program before and after jobs, run as slurmd runs it, with a directory below a scratch root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmfab.core.plan.phases.capability import program_files
from slurmfab.on_hosts.programs.scratch.main import watched

Around = Callable[[str, str], subprocess.CompletedProcess[str]]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir(mode=0o755)
    return path


@pytest.fixture
def around(tmp_path: Path, base: Path) -> Around:
    """Runs the prolog or the epilog of a job of the user of this process."""
    for name, text in program_files("programs.scratch.main"):
        place = tmp_path / "program" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"path": str(base), "mount": "", "node": "n1"}))

    def run(kind: str, job: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-E", "-S", "-s", str(tmp_path / "program/run.py"), kind, str(settings)],
            env={"SLURM_JOB_ID": job, "SLURM_JOB_UID": str(os.getuid())},
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )

    return run


def test_program_then_makes_the_directory_and_removes_it(base: Path, around: Around) -> None:
    assert around("prolog", "7").returncode == 0
    assert (base / "7").stat().st_mode & 0o7777 == 0o700
    (base / "7/data").mkdir()
    assert around("epilog", "7").returncode == 0
    assert not (base / "7").exists()
    assert list((base / ".slurmfab-gone").iterdir()) == []


def test_epilog_when_nothing_is_there_then_is_content(around: Around) -> None:
    assert around("epilog", "7").returncode == 0


@pytest.mark.parametrize("job", ["", "../etc", "0", "7/8"])
def test_prolog_when_the_job_is_none_then_fails_and_makes_nothing(base: Path, around: Around, job: str) -> None:
    done = around("prolog", job)
    assert (done.returncode, "slurmd gave no job" in done.stderr) == (1, True)
    assert list(base.iterdir()) == []


def test_prolog_when_others_can_change_the_directory_then_fails_with_the_reason(base: Path, around: Around) -> None:
    base.chmod(0o777)
    done = around("prolog", "7")
    assert (done.returncode, "writable for root alone" in done.stderr) == (1, True)
    assert around("epilog", "7").returncode == 0


def test_prolog_when_a_file_has_the_name_then_the_job_gets_its_directory(base: Path, around: Around) -> None:
    (base / "7").write_text("x")
    assert around("prolog", "7").returncode == 0
    assert (base / "7").is_dir()


def test_watched_when_the_work_waits_for_ever_then_the_caller_does_not() -> None:
    began = time.monotonic()
    reason = watched(lambda _: time.sleep(5), 0.2, to_the_end=False)
    assert (reason, time.monotonic() - began < 4) == ("the disk has not answered for 0 s", True)


def test_watched_when_only_the_rest_takes_long_then_is_done() -> None:
    def work(tell: Callable[[str], None]) -> None:
        tell("done")
        time.sleep(5)

    began = time.monotonic()
    assert watched(work, 0.5, to_the_end=True) == ""
    assert time.monotonic() - began < 4


def test_watched_when_the_work_fails_then_tells_why_in_one_line() -> None:
    def work(_: Callable[[str], None]) -> None:
        raise OSError("no\nroom")

    assert watched(work, 10.0, to_the_end=True) == "no room"
