"""A deployed lab as tests use it: the program as a user runs it, hosts that can be broken and looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurmfab import lab
from slurmfab.lab import Lab

PROGRAM = [sys.executable, "-m", "slurmfab"]


@dataclass(frozen=True)
class DeployedLab:
    """A lab, its cluster file, and what one does with them.

    Args:
        lab: the lab.
        inventory_path: its cluster file.
    """

    lab: Lab
    inventory_path: Path

    def slurmfab(self, *words: str, stdin: str = "", cluster: bool = True) -> subprocess.CompletedProcess[str]:
        """Run slurmfab as a user would, with this cluster's file."""
        options = ["--cluster", str(self.inventory_path)] if cluster else []
        return program(*words, *options, stdin=stdin, cwd=self.inventory_path.parent)

    def deploy(self, *words: str) -> dict[str, Any]:
        """Deploy, which has to succeed, and return the report."""
        return report(self.slurmfab("deploy", "--json", "-", *words))

    def on(self, host: str, script: str, *, check: bool = True) -> str:
        """What a shell script prints on a host, where it is run as root without SSH."""
        done = lab.run(self.lab, host, ["sh", "-c", script])
        said = f"{decoded(done.stdout)}{decoded(done.stderr)}"
        assert done.returncode == 0 or not check, f"{host}: {script}: exit code {done.returncode}: {said}"
        return decoded(done.stdout).strip()

    def until(self, host: str, script: str, expected: str, patience: float = 60) -> None:
        """Wait until a shell script on a host prints this."""
        eventually(lambda: self.on(host, script, check=False) == expected, f"{host}: {script}: {expected}", patience)


def program(*words: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run slurmfab as a user would."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURMFAB")}
    return subprocess.run([*PROGRAM, *words], input=stdin, capture_output=True, text=True, cwd=cwd, timeout=600,
                          env=environment, check=False)  # fmt: skip


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON report of a run that succeeded."""
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def eventually(condition: Callable[[], bool], what: str | Callable[[], str], patience: float = 60) -> None:
    """Wait for a condition, and fail with its name, or with what is so in the end, when it does not come true."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {patience:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.1)


def decoded(output: str | bytes) -> str:
    """Output as text."""
    return output if isinstance(output, str) else output.decode(errors="replace")
