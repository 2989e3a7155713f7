"""Acceptance jobs on real Slurm: figures that are good, bad and missing, interruptions, history, a shipped job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from lab_cluster import PROGRAM, DeployedLab
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "acceptance")]

JOBS = """
acceptance:
  speed: {script: jobs/speed.sh, hosts: "n[1-2]", pattern: '^speed: ([0-9.]+)', unit: GB/s, target: 100}
  pair: {script: jobs/pair.sh, nodes: 2, pattern: 'tasks: (.*)', target: 4, tasks: 2, user: ann, whole_nodes: false}
  silent: {script: jobs/silent.sh, nodes: 1, pattern: 'figure=(.*)'}
  broken: {script: jobs/broken.sh, hosts: n1, pattern: 'figure=(.*)'}
  endless: {script: jobs/endless.sh, hosts: n1, pattern: 'figure=(.*)', minutes: 1}
  greedy: {script: jobs/speed.sh, hosts: n3, gpus: all, pattern: 'x(.)'}
  nccl: {hosts: "n[1-2]", figures: {busbw: {target: 180}, average: {target: 400}}}
  memory: {hosts: n3, variables: {MIB: 4, DURATION: 0.2}, target: 0.01, tolerance: 50%}
"""
SCRIPTS = {
    "speed.sh": 'printf "speed: 7\\nspeed: %s\\n" "$(cat /srv/speed)"; printf "\\033[2Jspeed: 1\\n"',
    "pair.sh": 'echo "tasks: $SLURM_NTASKS"; id -un',
    "silent.sh": "echo figure=nan",
    "broken.sh": "echo figure=3; echo no such device >&2; exit 7",
    "endless.sh": "touch /tmp/endless; sleep 300",
}
HOSTS = ("ctl", "n1", "n2", "n3")
HISTORY = "/var/lib/slurmfab/acceptance/history.jsonl"


@pytest.fixture(scope="module")
def site(deployed_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The lab, with acceptance jobs; n1 is fast, and n2 is slow."""
    path = deployed_lab.inventory_path
    text = path.read_text()
    directory = path.parent / "jobs"
    directory.mkdir()
    for name, script in SCRIPTS.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    path.write_text(text + JOBS)
    for host in HOSTS:
        deployed_lab.on(host, "useradd --create-home --uid 4321 ann")
    speed(deployed_lab, n1="118.5", n2="90")
    yield deployed_lab
    path.write_text(text)
    for host in HOSTS:
        deployed_lab.on(host, "userdel --remove --force ann 2>/dev/null; rm -f /srv/speed")


def speed(lab: DeployedLab, **speeds: str) -> None:
    """What the job `speed` measures on nodes."""
    for node, figure in speeds.items():
        lab.on(node, f"echo {figure} >/srv/speed")


def accepted(lab: DeployedLab, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, results, and what people see."""
    done = lab.slurmfab("accept", "--json", "-", *words)
    assert done.stdout.startswith("{"), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.returncode, json.loads(done.stdout)["results"], done.stderr


def test_figures_are_judged_at_each_node_and_the_rest_says_why_there_is_none(site: DeployedLab) -> None:
    junit = site.inventory_path.parent / "accept.xml"
    only = "speed,pair,silent,broken,greedy,nccl"
    code, results, shown = accepted(site, "--only", only, "--junit", str(junit))
    found = {(one["job"], one["nodes"]): (one["verdict"], one["value"]) for one in results if one["job"] == "speed"}
    assert found == {("speed", "n1"): ("passed", 118.5), ("speed", "n2"): ("failed", 90.0)}, shown
    nccl = {(one["figure"], one["nodes"]): (one["verdict"], one["value"]) for one in results if one["job"] == "nccl"}
    assert {(key, verdict) for key, (verdict, _) in nccl.items()} == {
        (("busbw", "n1"), "passed"),
        (("busbw", "n2"), "passed"),
        (("average", "n1"), "failed"),
        (("average", "n2"), "failed"),
    }, shown
    others = {one["job"]: (one["verdict"], one["value"], one["words"]) for one in results if one["job"] != "speed"}
    assert others["pair"][:2] == ("passed", 4.0), shown
    assert others["silent"] == ("no figure", None, "'nan' is not a number; “figure=nan”"), shown
    assert others["broken"] == ("failed", None, "it ended with exit code 7: “no such device”"), shown
    assert others["greedy"] == ("not started", None, "Slurm has no GPUs on n3"), shown
    assert code == 1
    assert "-10.0 %  FAILED" in shown
    assert "\x1b" not in shown
    (suite,) = ET.fromstring(junit.read_text())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("10", "5", "1")
    site.until("ctl", "squeue -h; ls /var/lib/slurm/home/slurmfab-accept* 2>/dev/null", "")


def test_a_figure_that_has_become_worse_is_told_although_it_is_good_enough(site: DeployedLab) -> None:
    speed(site, n1="100")
    code, results, shown = accepted(site, "--only", "speed", "--hosts", "n1")
    speed(site, n1="118.5")
    assert (code, results[0]["verdict"], results[0]["has_fallen"]) == (0, "passed", True), shown
    assert "passed: worse than before: -15.6 % against the median of 1 earlier run (118.5)" in shown
    listed = site.slurmfab("accept", "--history", "--only", "speed", "--hosts", "n1", "--json", "-")
    changes = [(one["value"], one["change"]) for one in json.loads(listed.stdout)["entries"]]
    assert changes[0] == (118.5, None)
    assert changes[1] == (100.0, pytest.approx(-15.61, abs=0.01)), listed.stderr
    assert "-15.6 %" in listed.stderr
    site.on("ctl", f"echo damaged >>{HISTORY}")
    assert site.on("ctl", f"stat -c '%U %a' {HISTORY}") == "root 644"


def test_a_shipped_job_measures_the_memory_of_a_node(site: DeployedLab) -> None:
    code, results, shown = accepted(site, "--only", "memory", "--repeat", "2")
    assert code == 0, shown
    assert [(one["verdict"], one["unit"], one["nodes"]) for one in results] == [("passed", "GB/s", "n3")] * 2, shown
    assert all(one["value"] > 0.01 for one in results)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_leaves_no_job_behind(site: DeployedLab, by: signal.Signals) -> None:
    words = ["accept", "--only", "endless", "--cluster", str(site.inventory_path)]
    program = ["env", "--default-signal=INT", *PROGRAM]
    with subprocess.Popen([*program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        site.until("ctl", "squeue -h -o '%T %N'", "RUNNING n1")
        os.kill(running.pid, by)
        running.wait(timeout=60)
        assert running.returncode == (130 if by == signal.SIGINT else -by)
    site.until("ctl", "squeue -h", "")


def test_a_job_that_never_starts_is_told_with_slurms_reason(site: DeployedLab) -> None:
    other = site.on(
        "ctl", "runuser -u slurm -- sbatch --parsable -p slurmfab --exclusive -w n1 -o /dev/null --wrap 'sleep 300'"
    )
    try:
        code, results, shown = accepted(site, "--only", "speed", "--hosts", "n1", "--wait", "0")
    finally:
        site.on("ctl", f"scancel {other}")
    assert (code, results[0]["verdict"]) == (3, "not started"), shown
    assert results[0]["words"] == "Slurm's reason: Resources", shown
    site.until("ctl", "squeue -h", "")
