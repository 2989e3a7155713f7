"""Clusters made by hand are imported, and go through an upgrade of Slurm that is killed: files, jobs and ways stay.

On "trixie" alone, as in test_upgrade.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hand_made import HandMade, Jobs, made_by_hand, wait_for
from lab_cluster import ended, succeeded
from lab_user import Person, words_of
from stock import Stock
from suites import PACKAGES, SUITES
from test_upgrade import SOURCE, VERSIONS

from slurmfab.lab import slurm_repository

pytestmark = pytest.mark.lab

FILES = "cd /etc/slurm; sha256sum $(find -L . -name '*.conf' | sort)"
STOPPED = "systemctl is-active slurmctld | grep -cvx active"
PATIENCE = 400

KEPT, KILLED_AT = {"alone": True, "own-user": False}, {"alone": "", "own-user": "1 of 2 nodes are done"}
"""By kind of cluster, whether it is imported with `--keep-files`; and what the run has printed when it is killed, empty
for the moment at which slurmctld is stopped."""


@dataclass(frozen=True)
class Taken:
    """The cluster, who has imported it and deployed to it, and what it was before."""

    cluster: HandMade
    admin: Person
    jobs: Jobs
    files: dict[str, str]


def files(cluster: HandMade) -> dict[str, str]:
    """Checksums of Slurm's files, by host."""
    return {host: cluster.on(host, FILES) for host in cluster.hosts}


@pytest.fixture(scope="module", params=sorted(KEPT))
def taken(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Taken]:
    if "trixie" not in SUITES or PACKAGES != "debian":
        pytest.skip("the newer Slurm can be installed on trixie alone")
    kind, admin = request.param, Person.at(tmp_path_factory.mktemp(request.param))
    with made_by_hand(stock, kind, "trixie", newer_slurm=True) as cluster:
        made = cluster.lab.lab
        admin.has_seen(made, *(host.name for host in made.hosts))
        before = cluster.jobs(), files(cluster)
        options = ("--user", "root", "--key", str(made.ssh_key), *(["--keep-files"] if KEPT[kind] else []))
        succeeded(admin.slurmfab("import", "--hosts", made.host("ctl").address, *options))
        shutil.copy(slurm_repository.ensure("trixie", print) / slurm_repository.KEY, admin.cluster_file.parent)
        text = re.sub("^slurm:.*\n", "", admin.cluster_file.read_text(), flags=re.MULTILINE)
        assert KEPT[kind] is ("keep_files: true" in text)
        admin.writes(text + SOURCE)
        succeeded(admin.slurmfab("deploy"))
        yield Taken(cluster, admin, *before)


def has_come(taken: Taken, process: subprocess.Popen[str]) -> str:
    """Read a run's output until the moment at which it is killed, and return that output."""
    text, begun = KILLED_AT[taken.cluster.kind], time.monotonic()
    assert process.stdout
    said = ""
    while text and text not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    while not text and taken.cluster.on("ctl", f"{STOPPED} || :") != "1":
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() - begun < PATIENCE, "slurmctld was not stopped"
    return said


def test_a_cluster_made_by_hand_when_its_upgrade_is_killed_then_the_same_command_ends_it(taken: Taken) -> None:
    cluster, admin = taken.cluster, taken.admin
    upgrade = ("upgrade", "--to", "26.05", "--at-once", "1")
    ended(admin.slurmfab(*upgrade, "--plan"), 4)
    process = admin.start(*upgrade)
    has_come(taken, process)
    process.kill()
    process.wait()
    done = succeeded(admin.slurmfab(*upgrade, "--yes"))
    assert "Slurm 26.05 runs on all hosts." in words_of(done)
    assert all("26.05" in cluster.on(host, VERSIONS) for host in cluster.hosts)


def test_files_and_jobs_of_an_upgraded_cluster_made_by_hand_are_as_they_were(taken: Taken) -> None:
    cluster = taken.cluster
    assert files(cluster) == taken.files
    now = cluster.jobs()
    assert (now.jobs, now.processes) == (taken.jobs.jobs, taken.jobs.processes)
    before, after = ({line.rstrip() for line in one.history.splitlines()} for one in (taken.jobs, now))
    assert before <= after


def test_check_cluster_and_plan_when_that_cluster_was_upgraded_then_find_nothing(taken: Taken) -> None:
    done = taken.admin.slurmfab("check-cluster", "--json", "check.json")
    told = json.loads((taken.admin.directory / "check.json").read_text())
    assert [one for one in told["checks"] if one["outcome"] == "failed"] == [], words_of(done)
    succeeded(taken.admin.slurmfab("plan"))


def test_a_waiting_job_of_before_when_it_is_released_then_runs_with_the_new_slurm(taken: Taken) -> None:
    cluster = taken.cluster
    held = next(job for job, reason in cluster.pending.items() if reason == "JobHeldUser")
    cluster.on("ctl", f"scontrol release {held}")
    wait_for(cluster.lab, held, "RUNNING None")
