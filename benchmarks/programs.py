"""Running programs: what they took, and a clear word when they fail; none of them runs for ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.results import Sample

PROGRAM = (sys.executable, "-m", "slurmfab")
"""slurmfab as a user would run it, from this tree."""

PATIENCE = 900.0
"""Seconds after which a program counts as hanging."""

TAIL = 6
"""How many of its last lines a failure shows."""


class ProgramFailed(Exception):
    """A program that did not do what it should; the text tells which, and its last words."""


def timed(
    argv: Sequence[str],
    *,
    text: str = "",
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    codes: Sequence[int] = (0,),
    patience: float = PATIENCE,
) -> Sample:
    """Run a program and tell what it took.

    Args:
        argv: program and arguments.
        text: its standard input.
        cwd: where it runs.
        environment: variables beside those of this process.
        codes: exit codes that count as success.
        patience: seconds after which it is killed, with all that it started.

    Raises:
        ProgramFailed: it ended with another exit code, or was killed.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        begun = time.monotonic()
        process = subprocess.Popen(
            argv, stdin=given, stdout=output, stderr=output, cwd=cwd, start_new_session=True,
            env=surroundings(environment or {}),
        )  # fmt: skip
        timer = threading.Timer(patience, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        memory = Memory(process.pid)
        memory.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
        finally:
            timer.cancel()
            memory.over.set()
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            output.seek(0)
            raise ProgramFailed(failure(argv, process.returncode, output.read().decode(errors="replace")))
    return Sample(round(seconds, 4), round(usage.ru_utime + usage.ru_stime, 4), round(memory.kib / 1024, 1))


class Memory(threading.Thread):
    """Watches the largest resident memory of a process, in KiB.

    What wait4(2) tells would include that of this process, of which a new one is a copy until it runs its own program.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.status, self.kib, self.over = Path(f"/proc/{pid}/status"), 0, threading.Event()

    def run(self) -> None:
        """Read it until the process is over."""
        with suppress(OSError):  # the process is over
            while not self.over.wait(0.02):
                found = re.search(r"^VmHWM:\s+(\d+) kB", self.status.read_text(), re.MULTILINE)
                self.kib = int(found[1]) if found else self.kib


def output_of(argv: Sequence[str], *, cwd: Path | None = None, patience: float = PATIENCE) -> str:
    """What a program prints.

    Raises:
        ProgramFailed: it failed, or took too long.
    """
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd, check=False,
                              timeout=patience, env=surroundings({}))  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(f"`{' '.join(argv)[:200]}` was still running after {patience:.0f} s.") from error
    if done.returncode:
        raise ProgramFailed(failure(argv, done.returncode, done.stdout + done.stderr))
    return done.stdout


def surroundings(more: Mapping[str, str]) -> dict[str, str]:
    """This process's variables without those that change what is measured, and some more."""
    ours = ("SLURMFAB", "ANSIBLE", "PYTHONPROFILE", "PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(ours)}, **more}


def failure(argv: Sequence[str], code: int, output: str) -> str:
    """What to say of a program that failed."""
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    words = " | ".join(output.strip().splitlines()[-TAIL:]) or "no message"
    return f"`{' '.join(argv)[:200]}` {how}: {words}"
