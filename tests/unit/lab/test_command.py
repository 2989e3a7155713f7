"""Programs on hosts, of which nobody knows how much they write, nor how long they take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurmfab.lab import command


def test_a_program_is_given_its_input_and_what_it_writes_and_its_exit_code_are_told() -> None:
    done = command.run_bounded(["sh", "-c", "cat; echo no >&2; exit 3"], "äöü\n", 60)
    assert (done.stdout, done.stderr, done.returncode) == ("äöü\n", "no\n", 3)


def test_a_program_that_writes_without_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MOST_OUTPUT", 1 << 20)
    done = command.run_bounded(["sh", "-c", "while :; do echo more; done"], "", 60)
    assert (done.returncode, 1 << 20 < len(done.stdout) < 2 << 20) == (-9, True)


def test_a_program_that_does_not_end_in_time_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        command.run_bounded(["sh", "-c", "exec sleep 60"], "", 0.1)


def test_a_tree_that_is_deeper_than_python_can_go_is_removed(tmp_path: Path) -> None:
    script = "import os; os.mkdir('top'); os.chdir('top'); [(os.mkdir('d'), os.chdir('d')) for _ in range(3000)]"
    subprocess.run(["python3", "-c", script], check=True, cwd=tmp_path)
    command.remove_tree(tmp_path / "top")
    assert not (tmp_path / "top").exists()
