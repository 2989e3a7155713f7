"""Programs that the benchmarks time: what they took, and how failures read."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from benchmarks.programs import ProgramFailed, output_of, timed

BUSY = "import time\nbegun = time.process_time()\nwhile time.process_time() - begun < 0.2: pass"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@pytest.mark.parametrize("text", [BUSY, CHILD], ids=["itself", "its-child"])
def test_a_program_when_timed_then_tells_its_seconds_and_its_childrens_processor_time(text: str) -> None:
    sample = timed(python(text))
    assert sample.seconds >= 0.19
    assert sample.cpu_seconds >= 0.19


def test_a_program_when_timed_then_tells_its_own_largest_memory() -> None:
    held = bytearray(500 << 20)
    assert 200 < timed(python("import time; held = bytearray(200 << 20); time.sleep(0.2)")).peak_mib < 300
    del held


def test_a_program_when_it_reads_then_gets_the_text() -> None:
    timed(python("import sys; assert sys.stdin.read() == 'given'"), text="given")


def test_a_program_when_it_fails_then_its_exit_code_and_last_words_are_told() -> None:
    with pytest.raises(ProgramFailed, match=r"exit code 7: .*the last word"):
        timed(python("print('the last word'); raise SystemExit(7)"))
    timed(python("raise SystemExit(7)"), codes=(0, 7))


def test_a_program_when_it_hangs_then_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"sleep 60 & echo $! >{file}; wait"
    with pytest.raises(ProgramFailed, match="signal 9"):
        timed(["sh", "-c", script], patience=0.5)
    deadline = time.monotonic() + 50
    while is_alive(int(file.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process is there, and not merely waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_programs_when_run_then_do_not_see_what_would_change_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMFAB_CLUSTER", "/somewhere")
    assert "SLURMFAB_CLUSTER" in os.environ
    assert output_of(python("import os; print(os.environ.get('SLURMFAB_CLUSTER', 'nothing'))")) == "nothing\n"


def test_output_when_a_program_takes_too_long_then_is_a_failure_in_words() -> None:
    with pytest.raises(ProgramFailed, match="still running"):
        output_of(["sleep", "60"], patience=0.2)
