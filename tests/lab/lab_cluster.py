"""A lab for tests: runs slurmfab on it as a user does, and runs commands on its hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deployed
import forked
import pytest

from slurmfab import lab
from slurmfab.base.errors import LabError
from slurmfab.lab import Lab

PROGRAM = [sys.executable, "-m", "slurmfab"]

AS_SLURM = "cd /tmp && runuser -u slurm -- "
"""What stands before srun and sbatch in a script of root's: Slurm takes no jobs of root."""

NOTED = ("deploy", "upgrade")
"""Tasks after which hosts have a Slurm of which a test can say that slurmfab deployed to it."""

noted: set[Path] = set()
"""The cluster files of labs whose hosts are noted already."""


@dataclass(frozen=True)
class DeployedLab:
    """A lab with its cluster file, and the operations that tests need.

    Args:
        lab: the lab.
        inventory_path: path of its cluster file.
    """

    lab: Lab
    inventory_path: Path

    def slurmfab(self, *words: str, stdin: str = "", cluster: bool = True) -> subprocess.CompletedProcess[str]:
        """Run slurmfab as a user does.

        Args:
            words: command-line arguments.
            stdin: text for standard input.
            cluster: whether to add `--cluster` with this cluster's file.
        """
        options = ["--cluster", str(self.inventory_path)] if cluster else []
        end = words.index("--") if "--" in words else len(words)
        done = program(*words[:end], *options, *words[end:], stdin=stdin, cwd=self.inventory_path.parent)
        if done.returncode == 0 and words[0] in NOTED:
            self.note(words[0])
        return done

    def note(self, task: str) -> None:
        """Remember for docs/supported.md what this lab's hosts are, once per lab or at each upgrade."""
        if task == "upgrade" or self.lab.cluster_file not in noted:
            noted.add(self.lab.cluster_file)
            # A test may have switched the host off meanwhile.
            with suppress(LabError):
                deployed.note(self.lab, self.on("ctl", deployed.FACTS, check=False))

    def deploy(self, *words: str) -> dict[str, Any]:
        """Run `deploy`, which must succeed, and return its JSON report."""
        return report(self.slurmfab("deploy", "--json", "-", *words))

    def deploy_file(self, text: str, *words: str) -> str:
        """Deploy with this cluster file, and return what the run printed; a second run has nothing to do."""
        self.inventory_path.write_text(text)
        done = self.slurmfab("deploy", "--json", "-", *words)
        assert report(done)["hosts"]
        again = self.deploy()
        assert again["steps"] == [], again["steps"]
        return done.stdout + done.stderr

    def checks(self, only: str = "", *words: str, task: str = "check-cluster") -> list[dict[str, Any]]:
        """The results of all checks, or of groups by commas, as `--json` tells them."""
        options = ("--only", only) if only else ()
        found: list[dict[str, Any]] = json.loads(self.slurmfab(task, "--json", "-", *options, *words).stdout)["checks"]
        return found

    def on(self, host: str, script: str, *, check: bool = True) -> str:
        """Run a shell script as root on a host without SSH, and return its standard output, stripped.

        Args:
            host: the host's name.
            script: text for `sh -c`.
            check: whether the test fails if the exit code is not 0.
        """
        done = lab.run(self.lab, host, ["sh", "-c", script])
        said = f"{decoded(done.stdout)}{decoded(done.stderr)}"
        assert done.returncode == 0 or not check, f"{host}: {script}: exit code {done.returncode}: {said}"
        return decoded(done.stdout).strip()

    def until(self, host: str, script: str, expected: str, patience: float = 60) -> None:
        """Wait until a shell script on a host prints the expected text.

        Args:
            host: the host's name.
            script: text for `sh -c`.
            expected: its whole standard output, stripped.
            patience: seconds until the test fails.
        """
        last = ""

        def has_come() -> bool:
            nonlocal last
            last = self.on(host, script, check=False)
            return last == expected

        eventually(has_come, lambda: f"{host}: {script}: {expected}, but at last: {last}", patience)


@dataclass
class ExtendedLab:
    """A cluster, and the text of its file without what tests add."""

    lab: DeployedLab
    text: str

    def write(self, more: str) -> None:
        """Make this the end of the cluster file."""
        self.lab.inventory_path.write_text(self.text + more)

    def deploy(self, more: str, *words: str) -> str:
        """Deploy with this at the end of the cluster file; a second run has nothing to do. What the run printed."""
        return self.lab.deploy_file(self.text + more, *words)


@dataclass(frozen=True)
class Founded:
    """A cluster of a controller with the database and one node; a second node is not in its file yet.

    Args:
        lab: the lab.
        phases: the phases of the first deployment in which something was changed.
    """

    lab: DeployedLab
    phases: set[str]


def found(lab: DeployedLab, text: str) -> Founded:
    """Deploy with this cluster file of two nodes, but for the second one."""
    lab.inventory_path.write_text(
        text.replace("hosts: n[1-2]", "hosts: n1").replace(f", n2: {lab.lab.host('n2').address}", "")
    )
    return Founded(lab, {step["phase"] for step in lab.deploy()["steps"]})


def program(*words: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run slurmfab as a user does, without this process's SLURMFAB* variables.

    Args:
        words: command-line arguments.
        stdin: text for standard input.
        cwd: working directory; `None` for the current one.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURMFAB")}
    return forked.run(words, stdin=stdin, cwd=cwd, env=environment, timeout=1200)


def succeeded(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """A run, which must have succeeded."""
    return ended(done, 0)


def ended(done: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    """A run, which must have ended with this exit code."""
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON report of a run, which must have succeeded."""
    told: dict[str, Any] = json.loads(succeeded(done).stdout)
    return told


def eventually(condition: Callable[[], bool], what: str | Callable[[], str], patience: float = 60) -> None:
    """Wait until a condition is true, or fail the test.

    Args:
        condition: polled ten times a second, or less often if it takes long, as on a busy machine.
        what: text for the failure, or a function that returns it then.
        patience: seconds until the test fails.
    """
    deadline = time.monotonic() + patience
    while True:
        begun = time.monotonic()
        if condition():
            return
        if time.monotonic() > deadline:
            pytest.fail(f"not within {patience:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(max(0.1, 2 * (time.monotonic() - begun)))


def decoded(output: str | bytes) -> str:
    """Output of a program as text."""
    return output if isinstance(output, str) else output.decode(errors="replace")


IS_OLD = "test $(squeue -h -o %M | tr -d :) -gt 4"
SAVED = f"test /var/lib/slurm/slurmctld/job_state -nt /run/allocated && {IS_OLD} && echo saved"
"""Also that the job is some seconds old: a lab host boots in one, and boots are known to two (`lost_jobs.MARGIN`)."""

NODES_OUT = "sinfo -h -N -t down,drain,no_respond -o %N | sort -u"


def blackout_heals(cluster: DeployedLab, options: str = "") -> None:
    """Cut the power of all hosts under an allocation, which Slurm itself never ends, and wait for a whole cluster.

    Args:
        cluster: a cluster with the timer for losses of power, and two nodes in service.
        options: of salloc, for the slurm user.
    """
    ask = f"{AS_SLURM}salloc --no-shell -N2 {options} 2>&1 | sed -n 's,.*Granted job allocation ,,p'"
    job = cluster.on("ctl", f"touch /run/allocated; {ask}")
    cluster.until("ctl", SAVED, "saved")
    hosts = [host.name for host in cluster.lab.hosts]
    for host in hosts:
        lab.kill_host(cluster.lab, host)
    for host in reversed(hosts):
        lab.start_host(cluster.lab, host)
    cluster.until("ctl", f"squeue -h -o %i && {NODES_OUT} && scontrol ping | grep -c UP", "1", patience=150)
    said = cluster.on("ctl", "journalctl -q -u slurmfab-recovery -o cat")
    assert f"job {job} of slurm had no process left on n[1-2]: has ended" in said, said
    assert cluster.on("ctl", f"{AS_SLURM}srun -N2 {options} hostname | sort").split() == ["n1", "n2"]
