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
    """Watches the largest resident memory of a process and those that it starts, together, in KiB.

    What wait4(2) tells would include that of this process, of which a new one is a copy until it runs its own program.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.kib, self.over = pid, 0, threading.Event()

    def run(self) -> None:
        """Read it until the process is over."""
        pause = 0.02
        while not self.over.wait(pause):
            with suppress(OSError):  # one of them is over
                begun = time.monotonic()
                self.kib = max(self.kib, sum(map(resident, (self.pid, *children(self.pid)))))
                pause = max(pause, 20 * (time.monotonic() - begun))


def children(pid: int) -> list[int]:
    """The processes that a process has started, by any of its threads."""
    return [int(one) for file in Path(f"/proc/{pid}/task").glob("*/children") for one in file.read_text().split()]


def resident(pid: int) -> int:
    """The largest resident memory of a process so far, in KiB; 0 for one that has ended."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


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
