"""`fab rehearse`: planted faults are named before the cluster is touched; a clean rehearsal tells what will happen."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rehearsed
import yaml
from lab_cluster import DeployedLab, program
from planted_files import planted
from rehearsals import BASE, LAST_WEEK, REHEARSALS, Rehearsal, merged
from stock import Stock, in_turn, part_in_turn
from touched import LOGINS, watched

from slurmfab.commands.rehearse.rehearsing import lab_name

pytestmark = pytest.mark.lab

PARTS = 35
"""A run plays one of so many parts of the rehearsals; `TURN=all` plays all of them. It is odd, so that a part comes on
one suite and then on the other."""

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

MUNGE_KEY = "munge.key"
"""What a restoration changes on a twin alone, which has a munge key of its own: the cluster has that of its backup."""

RUNNING = "squeue --all --noheader --states=RUNNING --format='%A %u %S'"


@dataclass(frozen=True)
class Real:
    """The cluster that must not be touched: a lab of its own, on which users' jobs run."""

    suite: str
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
        return {host.name: int(self.lab.on(host.name, LOGINS) or 0) for host in self.lab.lab.hosts}

    def rehearse(self, command: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """Rehearse a command: what it printed, and its JSON report, which is empty if it was refused.

        It is called, as root, where files have the names of modules and programs; none may be run.
        """
        there = planted(self.place)
        told = self.place / "rehearsal.json"
        told.unlink(missing_ok=True)
        words = (
            "rehearse",
            "--cluster",
            str(self.lab.inventory_path),
            "--json",
            str(told),
            "--",
            *shlex.split(command),
        )
        done = program(*words, cwd=self.place)
        assert there.was_run == []
        return done, json.loads(told.read_text()) if told.exists() else {}


@pytest.fixture(scope="module", params=in_turn("rehearse"))
def real(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Real]:
    with at_work(stock, request.param) as found:
        yield found


@contextmanager
def at_work(stock: Stock, suite: str, **wanted: object) -> Iterator[Real]:
    """The cluster with last week's jobs in its records and a backup of then, and jobs that run now.

    `wanted`: further arguments of the lab's specification.
    """
    with stock.copy(suite, database=True, nodes=2, gpus=("n1:2:A100-SXM4-40GB",), **wanted) as lab:
        there = yaml.safe_load(lab.inventory_path.read_text())
        found = Real(suite, lab, {key: value for key, value in there.items() if key != "partitions"})
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


def played(*, faulty: bool) -> pytest.MarkDecorator:
    """The mark of a test that plays this run's part of the rehearsals on any suite, with or without a fault."""
    some = [one for one in REHEARSALS if bool(one.fault) == faulty and not one.suite]
    return pytest.mark.parametrize("rehearsal", part_in_turn(some, PARTS), ids=lambda one: one.name)


@played(faulty=True)
def test_a_planted_fault_is_named_by_the_rehearsal_and_the_cluster_is_untouched(
    real: Real, rehearsal: Rehearsal
) -> None:
    require_named(real, rehearsal)


def require_named(real: Real, rehearsal: Rehearsal) -> None:
    """Rehearse, and require that the report has the wanted words and the cluster is as before."""
    before = real.state()
    real.write(rehearsal.change, rehearsal.files)
    try:
        with watched(real.logins, lab_name(real.lab.inventory_path)) as counts:
            done, told = real.rehearse(rehearsal.command)
        logins = real.logins()
    finally:
        real.write({}, {})
    shown = "\n".join((*told["found"], *told["look_at"])) if told else done.stderr
    lacking = [words for words in rehearsal.instead.get(real.suite, rehearsal.wanted) if words not in shown]
    rehearsed.note(real.suite, rehearsal.name, done.returncode == rehearsal.code and not lacking)
    assert (done.returncode, lacking) == (rehearsal.code, []), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert real.state() == before
    assert counts in ([], [logins])


@played(faulty=False)
def test_a_clean_rehearsal_tells_what_the_command_then_does(real: Real, rehearsal: Rehearsal) -> None:
    require_the_same(real, rehearsal)
    make_as_before(real)


@pytest.mark.skipif(shutil.which("age") is None, reason="there is no age on this machine")
def test_a_restoration_of_an_encrypted_backup_when_rehearsed_with_its_identity_then_does_what_that_told(
    real: Real,
) -> None:
    identity = real.place / "identity"
    subprocess.run(["age-keygen", "-o", str(identity)], check=True, capture_output=True)
    words = ("age-keygen", "-y", str(identity))
    public = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    real.write({"backup": {"directory": "/srv/backups", "encrypt_to": [public]}}, {})
    backup(real).rename(real.place / "sealed.tar")
    command = "restore sealed.tar --overwrite --abandon-jobs"
    done, told = real.rehearse(command)
    assert (done.returncode, told) == (2, {})
    assert "is encrypted to" in done.stderr
    require_the_same(real, Rehearsal("sealed", command=f"{command} --identity identity", code=0))
    make_as_before(real)


def make_as_before(real: Real) -> None:
    """Take a change back, and start the jobs of today again if they were ended, as by a restoration."""
    real.write({}, {})
    real.lab.deploy()
    if not real.lab.on("ctl", RUNNING):
        real.lab.on("ctl", TODAY)


def require_the_same(real: Real, rehearsal: Rehearsal) -> None:
    """Rehearse, carry the command out, and require that each step reports the same but for times."""
    before = real.state()
    real.write(rehearsal.change, rehearsal.files)
    done, told = real.rehearse(rehearsal.command)
    assert done.returncode == rehearsal.code, done.stdout + done.stderr
    assert real.state() == before
    # A file: on standard output an upgrade ends with what check-cluster says.
    there = real.place / "ran.json"
    ran = real.lab.slurmfab(*shlex.split(rehearsal.command), "--json", str(there))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    done_there, expected = changes(json.loads(there.read_text())), changes(told)
    if rehearsal.command.startswith("restore"):
        expected = {step: texts for step, texts in expected.items() if not any(MUNGE_KEY in text for text in texts)}
    assert expected == done_there
    assert done_there


def changes(report: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """What a report says of resources that were not right, by host and phase, without what is a matter of time.

    That is seconds, which nodes have registered when a new slurmctld is asked, and whether a slurmd has loaded new
    files by itself before it is looked at.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for step in report["steps"]:
        for one in step["outcomes"]:
            loads = [change["name"] for change in one.get("changes", ())] == ["loaded"]
            if not one["id"].startswith("slurm-nodes:") and not (one["id"] == "service:slurmd" and loads):
                text = re.sub(r"\b\d+ s\b", "N s", json.dumps(one))
                found.setdefault((step["host"], step["phase"]), []).append(text)
    return found
