"""The health check as slurmd runs it, with a simulated scontrol that keeps one node in a file."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurmfab.core.plan.phases.capability import program_files

SCONTROL = """#!/bin/sh
echo "$*" >> {place}/asked
[ ! -e {place}/away ] || {{ echo 'Unable to contact slurm controller' >&2; exit 1; }}
case "$*" in
    *'show node'*) echo "NodeName=n1 Arch=x86_64 State=$(cat {place}/node)" ;;
    *State=DRAIN*) echo "MIXED+DRAIN Reason=${{4#Reason=}} [root@2026-11-21T18:00:13]" > {place}/node ;;
    *State=RESUME*) echo MIXED > {place}/node ;;
esac
"""


@dataclass
class Bed:
    """A node that is unhealthy if one file is missing, and the program as installed on hosts.

    Args:
        place: an empty directory.
    """

    place: Path

    def __post_init__(self) -> None:
        for name, text in program_files("programs.health.main"):
            path = self.place / "program" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        scontrol = self.place / "bin/scontrol"
        scontrol.parent.mkdir()
        scontrol.write_text(SCONTROL.format(place=self.place))
        scontrol.chmod(0o755)
        self.put("node", "MIXED")
        self.put("mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        settings = {
            "node": "n1", "mounts": ["/"], "mountinfo": str(self.place / "mountinfo"), "disk": {"/": "0%"},
            "state": str(self.place / "run/health.json"),
        }  # fmt: skip
        self.put("settings", json.dumps(settings))

    def put(self, name: str, text: str) -> None:
        (self.place / name).write_text(text)

    def fall_ill(self, *, ill: bool = True) -> None:
        self.put("mountinfo", "" if ill else "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the program with the standard library and its own files only."""
        # Programs run with a PATH of their own, so that is where the stand-in has to be.
        lines = (
            f"import sys; sys.path.insert(0, '{self.place}/program')",
            "from slurmfab.on_hosts.agent.core import resource",
            f"resource.SYSTEM_PATH = '{self.place}/bin:/usr/bin:/bin'",
            "from slurmfab.on_hosts.programs.health.main import main",
            f"sys.exit(main('{self.place}/settings', *{list(words)!r}))",
        )
        argv = [sys.executable, "-E", "-S", "-s", "-B", "-c", "\n".join(lines)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    def look(self) -> None:
        done = self.run()
        assert (done.returncode, done.stderr) == (0, "")

    @property
    def node(self) -> str:
        return (self.place / "node").read_text().strip()

    @property
    def asked(self) -> int:
        """Number of calls of scontrol."""
        path = self.place / "asked"
        return len(path.read_text().splitlines()) if path.exists() else 0

    @property
    def memory(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place / "run/health.json").read_text())
        return found


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


DRAINED = "MIXED+DRAIN Reason=slurmfab: health: nothing is mounted at / [root@2026-11-21T18:00:13]"


def test_a_node_that_is_well_when_looked_at_then_slurm_is_asked_once_and_nothing_is_written_again(bed: Bed) -> None:
    bed.look()
    path = bed.place / "run/health.json"
    before = path.stat()
    os.utime(path, (1, 1))
    for _ in range(2):
        bed.look()
    assert (bed.asked, bed.node, path.stat().st_ino) == (1, "MIXED", before.st_ino)
    assert path.stat().st_mtime > time.time() - 60


def test_a_node_that_falls_ill_when_it_is_well_twice_then_it_was_drained_and_is_back(bed: Bed) -> None:
    bed.look()
    bed.fall_ill()
    for _ in range(2):
        bed.look()
        assert bed.node == DRAINED
        assert bed.memory["causes"] == {"mount /": "nothing is mounted at /"}
    bed.fall_ill(ill=False)
    bed.look()
    assert bed.node == DRAINED
    bed.look()
    assert bed.node == "MIXED"
    asked = bed.asked
    bed.look()
    assert (bed.asked, bed.memory["causes"]) == (asked, {})


def test_a_node_that_was_drained_before_a_boot_when_it_is_well_then_it_is_given_back(bed: Bed) -> None:
    bed.put("node", DRAINED)
    bed.look()
    bed.look()
    assert bed.node == "MIXED"


def test_slurm_when_it_does_not_answer_then_the_node_is_drained_once_it_does(bed: Bed) -> None:
    bed.put("away", "")
    bed.fall_ill()
    bed.look()
    assert (bed.node, list(bed.memory["causes"])) == ("MIXED", ["mount /"])
    (bed.place / "away").unlink()
    bed.look()
    assert bed.node == DRAINED


def test_a_look_when_it_is_only_that_then_it_tells_and_does_nothing(bed: Bed) -> None:
    bed.fall_ill()
    told = bed.run("look")
    assert (told.returncode, json.loads(told.stdout)) == (0, {"causes": {"mount /": "nothing is mounted at /"}})
    assert (bed.asked, bed.node, (bed.place / "run").exists()) == (0, "MIXED", False)


@pytest.mark.parametrize("left", ["", "no JSON", "[]", '{"causes": {}, "stuck": {}, "told": ["x"]}'])
def test_what_the_last_look_left_when_it_cannot_be_used_then_it_is_made_anew(bed: Bed, left: str) -> None:
    (bed.place / "run").mkdir()
    (bed.place / "run/health.json").write_text(left)
    bed.fall_ill()
    bed.look()
    assert bed.node == DRAINED


def test_errors_of_a_gpu_when_somebody_has_them_forgotten_then_the_node_comes_back(bed: Bed) -> None:
    settings = json.loads((bed.place / "settings").read_text())
    log = "4,1,1000,-;NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.\n"
    (bed.place / "nvidia0").symlink_to("/dev/null")
    bed.put("kmsg", log)
    more = {"gpus": [f"{bed.place}/nvidia0"], "kernel_log": f"{bed.place}/kmsg", "nvidia_smi": "/no/such/program"}
    bed.put("settings", json.dumps({**settings, **more}))
    bed.look()
    assert "Xid 79" in bed.node
    assert bed.run("forget").returncode == 0
    bed.look()
    assert bed.node == "MIXED"


def test_two_looks_when_one_is_still_under_way_then_the_other_does_nothing(bed: Bed) -> None:
    bed.look()
    bed.fall_ill()
    with (bed.place / "run/health.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        bed.look()
        assert (bed.node, bed.memory["causes"]) == ("MIXED", {})
        assert "nothing is mounted" in bed.run("look").stdout
    bed.look()
    assert bed.node == DRAINED


def test_a_look_when_it_was_killed_after_it_had_drained_the_node_then_the_next_ones_give_it_back(bed: Bed) -> None:
    bed.look()
    hour = bed.memory["asked"]
    bed.put("node", DRAINED)
    (bed.place / "run/health.json").write_text(json.dumps({"asked": hour, "causes": {"mount /": "as it was"}}))
    for _ in range(2):
        bed.look()
    assert bed.node == "MIXED"


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_settings_when_they_cannot_be_used_then_that_is_said_without_a_traceback(bed: Bed, text: str) -> None:
    bed.put("settings", text)
    done = bed.run()
    assert (done.returncode, done.stderr) == (
        1, f"{bed.place}/settings is missing or has no node: fab deploy\n",
    )  # fmt: skip


def test_the_program_as_it_stays_on_a_host_needs_nothing_but_itself(bed: Bed) -> None:
    argv = [sys.executable, "-E", "-S", "-s", "-B", f"{bed.place}/program/run.py", f"{bed.place}/settings", "look"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"causes": {}}, "")
