"""Compute nodes restarted through Slurm, on real hosts with jobs on them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, report
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("restarted_lab", "reboot")]

NODES = ("n1", "n2", "n3")
BOOTED = 'date -d "$(uptime -s)" +%s'
LEAVE = "/var/tmp/the-job-may-end"
WAITING = f"until [ -e {LEAVE} ]; do sleep 0.2; done; rm {LEAVE}"
JOB = "scontrol --oneliner show job {} | grep -oE '(JobState|StartTime|ExitCode|Restarts)=[^ ]+' | paste -sd ' '"


@pytest.fixture
def cluster(restarted_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The lab with all nodes idle, before the test and after it."""
    restarted_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle")
    yield restarted_lab
    restarted_lab.on("ctl", "scancel --user=slurm")
    restarted_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle")


def boots(cluster: DeployedLab) -> dict[str, int]:
    """When each node was started, in seconds since 1970."""
    return {node: int(cluster.on(node, BOOTED)) for node in NODES}


def submit(cluster: DeployedLab, node: str, script: str) -> str:
    """The number of a job that runs on a node now."""
    job = cluster.on("ctl", AS_SLURM + f"sbatch --parsable -w {node} -o /dev/null --wrap '{script}'")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    return job


def until_it_says(process: subprocess.Popen[str], words: str) -> str:
    """What a program says on its standard error until these words are in it."""
    assert process.stderr is not None
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def test_nodes_are_restarted_one_after_the_other_and_jobs_end_before_or_run_on_elsewhere(cluster: DeployedLab) -> None:
    elsewhere, there = submit(cluster, "n1", "sleep 600"), submit(cluster, "n2", WAITING)
    before, running = boots(cluster), cluster.on("ctl", JOB.format(elsewhere))

    words = [*PROGRAM, "reboot", "n2,n3", "--reason", "new kernel", "--timeout", "2", "--json", "-", "--cluster"]
    words.append(str(cluster.inventory_path))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = until_it_says(process, f"n2: waits for jobs: {there} (slurm)")
        cluster.on("n2", f"touch /var/tmp/leave && chown slurm /var/tmp/leave && mv /var/tmp/leave {LEAVE}")
        out, rest = process.communicate(timeout=120)

    told = report(subprocess.CompletedProcess(words, process.returncode, out, said + rest))
    after = boots(cluster)
    assert [(step["phase"], step["host"]) for step in told["steps"]] == [("reboot", "n2"), ("reboot", "n3")]
    assert after["n1"] == before["n1"]
    assert before["n2"] < after["n2"] < after["n3"]
    assert cluster.on("ctl", JOB.format(elsewhere)) == running
    assert "JobState=COMPLETED" in cluster.on("ctl", JOB.format(there))
    assert "ExitCode=0:0" in cluster.on("ctl", JOB.format(there))
    assert cluster.on("ctl", "sinfo -h -p main -N -n n2,n3 -o '%N %t'").split() == ["n2", "idle", "n3", "idle"]
    assert cluster.on("ctl", AS_SLURM + "srun -N2 -w n2,n3 hostname | sort").split() == ["n2", "n3"]


def test_several_nodes_at_once_are_away_together(cluster: DeployedLab) -> None:
    before = boots(cluster)
    report(cluster.slurmfab("reboot", "n[1-3]", "--at-once", "3", "--timeout", "2", "--json", "-"))
    after = boots(cluster)
    assert all(before[node] < after[node] for node in NODES)
    assert max(after.values()) - min(after.values()) <= 4


def test_a_node_that_somebody_has_drained_is_refused_and_no_node_is_restarted(cluster: DeployedLab) -> None:
    before = boots(cluster)
    cluster.on("ctl", "scontrol update NodeName=n3 State=DRAIN Reason='loose cable'")
    try:
        done = cluster.slurmfab("reboot", "n[1-3]")
        assert (done.returncode, "n3" in done.stderr, "loose cable" in done.stderr) == (2, True, True)
        assert boots(cluster) == before
        assert cluster.on("ctl", "sinfo -h -p main -N -n n3 -o '%t %E'") == "drain loose cable"
    finally:
        cluster.on("ctl", "scontrol update NodeName=n3 State=RESUME")


def test_a_node_that_cannot_be_reached_is_not_restarted(cluster: DeployedLab) -> None:
    before = boots(cluster)
    cluster.on("n2", "systemctl stop ssh.socket ssh.service")
    try:
        done = cluster.slurmfab("reboot", "n[1-2]")
        assert (done.returncode, done.stderr.count("n2: ")) == (1, 1)
        assert boots(cluster) == before
    finally:
        cluster.on("n2", "systemctl start ssh.service")
