"""Saved plans on real hosts: what was shown is done and nothing else, and what was changed in between is named."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, program, report, succeeded
from lab_user import running_lab, words_of
from suites import NEWEST

from slurmfab import lab
from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
LOSE_A_LINE = "sed -i '/ n1$/d' /etc/hosts"
EDIT = f"sed -i '/BEGIN slurmfab host keys/a # by hand' {KNOWN_HOSTS}"
UNDO_EDIT = f"sed -i '/^# by hand$/d' {KNOWN_HOSTS}"
OTHER_KEY = "head -c 128 /dev/urandom >/etc/munge/munge.key"
SUMS = f"sha256sum /etc/hosts {KNOWN_HOSTS} /etc/slurm/*.conf /etc/munge/munge.key"
FIRST = LabSpec(name="vfirst", suite=NEWEST, nodes=2)


@pytest.fixture
def whole_again(deployed_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The deployed lab, put right by a deployment after the test."""
    yield deployed_lab
    deployed_lab.deploy()
    deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle", patience=180)


def saved(cluster: DeployedLab, path: Path) -> dict[str, Any]:
    """Save a plan in which there is something to do, and return what it showed."""
    done = ended(cluster.slurmfab("plan", "--save", str(path), "--json", "-"), 4)
    assert f"Saved in {path}.\nNext: slurmfab deploy --plan {path} --cluster " in done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def applied(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Do what a saved plan shows; it knows its cluster file by itself."""
    return program("deploy", "--plan", str(path), *words, cwd=path.parent)


def things(told: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Host, phase and id of all that a report tells of."""
    return {(step["host"], step["phase"], one["id"]) for step in told["steps"] for one in step["outcomes"]}


def test_a_plan_is_refused_for_each_change_in_between_and_then_done_to_the_letter(
    whole_again: DeployedLab, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    whole_again.on("n2", LOSE_A_LINE)
    shown = saved(whole_again, path)
    assert things(shown) == {("n2", "hosts file", "block:/etc/hosts#hosts")}

    whole_again.on("n1", EDIT)
    refused = applied(path)
    assert refused.returncode == 1
    assert f"n1: block:{KNOWN_HOSTS}#host keys: it was correct, but was edited after the plan was saved." in words_of(
        refused
    )
    assert "Nothing was changed on any host." in refused.stderr
    whole_again.on("n1", UNDO_EDIT)

    before = {host: whole_again.on(host, SUMS) for host in ("ctl", "n1", "n3")}
    done = report(applied(path, "--json", "-"))
    assert things(done) == things(shown)
    assert {host: whole_again.on(host, SUMS) for host in before} == before

    again = applied(path)
    assert again.returncode == 1
    assert "n2: block:/etc/hosts#hosts: the plan adds 1 line; now nothing differs." in words_of(again)


def test_a_secret_that_changes_in_between_is_noticed_and_shown_nowhere(
    whole_again: DeployedLab, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    whole_again.on("n3", OTHER_KEY)
    saved(whole_again, path)
    sums = whole_again.on("n3", "sha256sum /etc/munge/munge.key | cut -c 1-32")
    assert sums not in path.read_text()
    whole_again.on("n3", OTHER_KEY)
    refused = applied(path)
    assert refused.returncode == 1
    assert "n3: file:/etc/munge/munge.key: it was edited after the plan was saved." in words_of(refused)


def test_a_plan_without_anything_to_do_does_nothing_and_says_so(deployed_lab: DeployedLab, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    succeeded(deployed_lab.slurmfab("plan", "--save", str(path)))
    empty = applied(path)
    assert empty.returncode == 0, words_of(empty)
    assert f"there is nothing to do in {path}." in empty.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """Hosts that nobody has deployed to."""
    with running_lab(FIRST, tmp_path_factory.mktemp("first")) as hosts:
        yield hosts


def test_a_first_deployment_by_a_saved_plan_does_what_was_shown_once_all_of_its_hosts_are_there(
    bare: DeployedLab, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    shown = saved(bare, path)
    lock = bare.inventory_path.with_suffix(".lock.json").read_bytes()
    lab.kill_host(bare.lab, "n2")
    refused = applied(path)
    lab.start_host(bare.lab, "n2")
    assert refused.returncode == 1
    assert "n2: it was part of the plan but is excluded now: " in words_of(refused)
    assert bare.inventory_path.with_suffix(".lock.json").read_bytes() == lock
    assert bare.on("n1", "getent passwd slurm || echo nobody") == "nobody"

    done = report(applied(path, "--json", "-"))
    assert things(done) <= things(shown)
    assert ("n1", "slurmd", "service:slurmd") in things(done)
    assert bare.slurmfab("plan").returncode == 0
    assert sorted(bare.on("ctl", AS_SLURM + "srun -N2 hostname").split()) == ["n1", "n2"]
