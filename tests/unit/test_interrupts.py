"""Ctrl-C while the program starts, at several moments: the loading of a module."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys

class Interruption:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)

moment = sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interruption())
START
"""
SLURMFAB = INTERRUPTED.replace("START", "from slurmfab.cli.main import main; main()")
FAB = INTERRUPTED.replace("START", "from fabric.main import program; program.run()")
WITHIN_PYDANTIC = """
import os, signal
from typing import Annotated
from pydantic import AfterValidator, TypeAdapter
from slurmfab.base import interrupts

def interrupted(value):
    os.kill(os.getpid(), signal.SIGINT)
    return value

signal.signal(signal.SIGINT, signal.default_int_handler)
interrupts.end_quietly()
interrupts.raise_again()
try:
    print(TypeAdapter(Annotated[int, AfterValidator(interrupted)]).validate_json(b"7"))
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("moment", ["slurmfab.cli.program", "slurmfab.cli.tasks", "slurmfab.cli.tasks.spelling"])
def test_ctrl_c_when_slurmfab_still_starts_then_is_one_line_and_130(moment: str) -> None:
    words = [sys.executable, "-c", SLURMFAB, moment, "doctor"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nInterrupted before anything was done.\n")


@pytest.mark.parametrize("moment", ["slurmfab.cli.tasks", "slurmfab.cli.tasks.deploy"])
def test_ctrl_c_when_fab_has_found_the_tasks_and_still_starts_then_is_one_line_and_130(moment: str) -> None:
    words = [sys.executable, "-c", FAB, moment, "--list"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nInterrupted before anything was done.\n")


def test_ctrl_c_when_a_task_has_begun_then_says_what_to_do() -> None:
    words = [sys.executable, "-c", SLURMFAB, "slurmfab.commands.doctor.examining", "doctor", "--local"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert (
        done.stderr == "\nInterrupted. Hosts finish the step that they are at. Run the same command again to go on.\n"
    )


def test_ctrl_c_when_pydantic_looks_at_a_file_then_waits_until_that_has_ended() -> None:
    words = [sys.executable, "-c", WITHIN_PYDANTIC]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\ninterrupted\n", "")


def test_ctrl_c_when_a_shell_has_it_ignored_then_is_ignored() -> None:
    ignoring = SLURMFAB.replace("signal.default_int_handler", "signal.SIG_IGN")
    words = [sys.executable, "-c", ignoring, "slurmfab.cli.tasks", "help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
