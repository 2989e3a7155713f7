"""`fab rehearse`: planted faults are named before the cluster is touched; a clean rehearsal tells what will happen."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rehearsed
import yaml
from lab_cluster import DeployedLab, program
from rehearsals import BASE, LAST_WEEK, REHEARSALS, Rehearsal, merged
from stock import Stock, part_in_turn
from suites import NEWEST

from slurmfab.lab import state

pytestmark = pytest.mark.lab

PARTS = 20
"""A run plays one of so many parts of the rehearsals; `TURN=all` plays all of them."""

TODAY = """
cd / && for who in ann bob; do
    runuser -u $who -- sbatch --parsable --mem=50 --output=/dev/null --wrap 'exec sleep 7200'
done
until [ "$(squeue --noheader --states=RUNNING | wc -l)" = 2 ]; do sleep 0.1; done
"""
UNTOUCHED = """
find /etc /usr/local/lib -xdev -type f ! -path '/etc/slurm/.*' -exec sha256sum {} + | sort
systemctl show --property=MainPID munge slurmctld slurmd slurmdbd mariadb
"""
"""Prints the files that a deployment may change, and which daemons run."""

RUNNING = "squeue --all --noheader --states=RUNNING --format='%A %u %S'"
LOGINS = "journalctl --sync; journalctl --unit=ssh --output=cat | grep --count Accepted"


@dataclass(frozen=True)
class Real:
    """The cluster that must not be touched: a lab of its own, on which users' jobs run."""

    lab: DeployedLab
    hosts: Mapping[str, Any]  # what its cluster file says of the hosts

    @property
    def place(self) -> Path:
        """The directory of the cluster file."""
        return self.lab.inventory_path.parent

    def write(self, change: Mapping[str, Any], files: Mapping[str, str]) -> None:
        """Write the cluster file with a change, and files beside it; those of an earlier change are gone."""
        for top in {Path(name).parts[0] for one in REHEARSALS for name in one.files}:
            if (self.place / top).is_dir():
                shutil.rmtree(self.place / top)
            else:
                (self.place / top).unlink(missing_ok=True)
        for name, text in files.items():
            path = self.place / name
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(text)
            path.chmod(0o755)
        whole = merged({**self.hosts, **yaml.safe_load(BASE)}, change)
        self.lab.inventory_path.write_text(yaml.safe_dump(whole, sort_keys=False))

    def state(self) -> dict[str, str]:
        """What a deployment would change, by host, and the jobs that run."""
        hosts = {host.name: self.lab.on(host.name, UNTOUCHED) for host in self.lab.lab.hosts}
        return {**hosts, "jobs": self.lab.on("ctl", RUNNING)}

    def logins(self) -> dict[str, int]:
        """How many logins each host has seen."""
        return {host.name: int(self.lab.on(host.name, LOGINS, check=False) or 0) for host in self.lab.lab.hosts}

    def rehearse(self, command: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """Rehearse a command: what it printed, and its JSON report, which is empty if it was refused."""
        told = self.place / "rehearsal.json"
        told.unlink(missing_ok=True)
        words = ("rehearse", "--cluster", str(self.lab.inventory_path), "--json", str(told), *shlex.split(command))
        done = program(*words, cwd=self.place)
        return done, json.loads(told.read_text()) if told.exists() else {}


@pytest.fixture(scope="module")
def real(stock: Stock) -> Iterator[Real]:
    with stock.copy(NEWEST, database=True, nodes=2, gpus=("n1:2",)) as lab:
        there = yaml.safe_load(lab.inventory_path.read_text())
        found = Real(lab, {key: value for key, value in there.items() if key != "partitions"})
        found.write({}, {})
        lab.deploy()
        lab.on("ctl", LAST_WEEK)
        # Beside the cluster file, each rehearsal would restore it.
        backup(found).rename(found.place / "good.tar")
        whole = (found.place / "good.tar").read_bytes()
        (found.place / "cut.tar").write_bytes(whole[: len(whole) // 2])
        lab.on("ctl", TODAY)
        yield found


def backup(real: Real) -> Path:
    """The archive of a backup that is made now."""
    done = real.lab.slurmfab("backup")
    assert done.returncode == 0, done.stdout + done.stderr
    return max(real.place.glob("*.backups/*.tar"), key=lambda path: path.stat().st_mtime)


@contextmanager
def watched(real: Real) -> Iterator[list[dict[str, int]]]:
    """Counts the logins on the cluster as soon as a second lab, the twin, is there."""
    counts: list[dict[str, int]] = []
    ended, others = threading.Event(), {*state.names()}

    def watch() -> None:
        while not ended.wait(0.2):
            if {*state.names()} - others:
                counts.append(real.logins())
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield counts
    finally:
        ended.set()
        watcher.join()


def in_turn_of_rehearsals(*, faulty: bool) -> list[Rehearsal]:
    """The rehearsals of this run's part, with or without a fault."""
    return list(part_in_turn([one for one in REHEARSALS if bool(one.fault) == faulty], PARTS))


@pytest.mark.parametrize("rehearsal", in_turn_of_rehearsals(faulty=True), ids=lambda one: one.name)
def test_a_planted_fault_is_named_by_the_rehearsal_and_the_cluster_is_untouched(
    real: Real, rehearsal: Rehearsal
) -> None:
    before = real.state()
    real.write(rehearsal.change, rehearsal.files)
    try:
        with watched(real) as counts:
            done, told = real.rehearse(rehearsal.command)
        logins = real.logins()
    finally:
        real.write({}, {})
    shown = "\n".join((*told["found"], *told["look_at"])) if told else done.stderr
    lacking = [words for words in rehearsal.wanted if words not in shown]
    rehearsed.note(rehearsal.name, done.returncode == rehearsal.code and not lacking)
    assert (done.returncode, lacking) == (rehearsal.code, []), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert real.state() == before
    assert counts in ([], [logins])


@pytest.mark.parametrize("rehearsal", in_turn_of_rehearsals(faulty=False), ids=lambda one: one.name)
def test_a_clean_rehearsal_tells_what_the_command_then_does(real: Real, rehearsal: Rehearsal) -> None:
    before = real.state()
    real.write(rehearsal.change, rehearsal.files)
    try:
        done, told = real.rehearse(rehearsal.command)
        assert done.returncode == 0, done.stdout + done.stderr
        assert real.state() == before
        ran = real.lab.deploy()
        assert changes(told) == changes(ran)
        assert changes(ran)
    finally:
        real.write({}, {})
        real.lab.deploy()


def changes(report: Mapping[str, Any]) -> dict[tuple[str, str], object]:
    """What a report says of resources that were not right, by host and phase, without times."""
    return {(step["host"], step["phase"]): step["outcomes"] for step in report["steps"]}
