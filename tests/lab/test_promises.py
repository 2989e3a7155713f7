"""Jobs that run while the cluster changes: none is hurt unasked, on real hosts with real Slurm of each suite."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, eventually, report
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
PARTITIONS = """\
partitions:
  - {PartitionName: main, Nodes: ALL, Default: YES}
  - {PartitionName: brief, Nodes: n2}
"""
SUMS = "sha256sum /etc/slurm/*.conf /etc/munge/munge.key /etc/hosts; systemctl show -p MainPID slurmctld slurmd"


@dataclass(frozen=True)
class Cluster:
    """A cluster of two compute nodes, whose file tests change and put back."""

    hosts: DeployedLab
    text: str

    @property
    def file(self) -> Path:
        return self.hosts.inventory_path

    def dangerous(self, name: str) -> str:
        """The cluster file with a change that hurts."""
        if name == "SelectType":
            return f"{self.text}slurm_conf: {{SelectType: select/linear, SelectTypeParameters: CR_Memory}}\n"
        if name == "SlurmdSpoolDir":
            return f"{self.text}slurm_conf: {{SlurmdSpoolDir: /srv/slurmd}}\n"
        if name == "partition-removed":
            return self.text.replace("  - {PartitionName: brief, Nodes: n2}\n", "")
        alone = self.text.replace("hosts: n[1-2]", "hosts: n1").replace("Nodes: n2", "Nodes: n1")
        return alone.replace(f", n2: {self.hosts.lab.host('n2').address}", "")

    def on(self, host: str, script: str) -> str:
        return self.hosts.on(host, script)

    def submit(self, options: str, *, waits: bool = False) -> str:
        """A job of the slurm user's that ends once /tmp/end-NUMBER is there; its number."""
        script = "until [ -e /tmp/end-$SLURM_JOB_ID ]; do sleep 0.1; done"
        submit = f"sbatch --parsable {options} --mem=50 -o /dev/null --wrap '{script}'"
        number = self.on("ctl", AS_SLURM + submit)
        if not waits:
            self.hosts.until("ctl", f"squeue -h -j {number} -o %T", "RUNNING")
        return number

    def alone(self, options: str) -> str:
        """A job that runs, and no other; its number."""
        self.on("ctl", "scancel -u slurm")
        self.hosts.until("ctl", "squeue -h | wc -l", "0")
        return self.submit(options)

    def end(self, number: str, node: str) -> None:
        """Let a job come to its end."""
        self.on(node, f"touch /tmp/end-{number}")
        eventually(lambda: self.state(number) == "COMPLETED", f"job {number} has completed")

    def state(self, number: str) -> str:
        """A job's state, also of one that has ended."""
        shown = self.on("ctl", f"scontrol -o show job {number} | grep -o ' JobState=[A-Z_]*'")
        return shown.strip().removeprefix("JobState=")

    def node(self, name: str) -> str:
        """State and reason of a node."""
        return self.on("ctl", f"sinfo -h -N -p main -n {name} -o '%t %E'")

    def sums(self) -> dict[str, str]:
        """What tells whether a deployment has changed a file or restarted a daemon."""
        return {host: self.on(host, SUMS) for host in HOSTS}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.hosts.slurmfab(*words)

    def started(self, *words: str, until: str) -> tuple[subprocess.Popen[str], str]:
        """slurmfab at work, once it has said this, and all that it said until then."""
        command = [*PROGRAM, *words, "--cluster", str(self.file)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        assert process.stdout is not None
        while until not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        return process, said


@pytest.fixture(scope="module", params=in_turn("promises"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Cluster]:
    with stock.copy(request.param, nodes=2) as hosts:
        text = hosts.inventory_path.read_text().partition("partitions:")[0] + PARTITIONS
        hosts.inventory_path.write_text(text)
        hosts.deploy()
        yield Cluster(hosts, text)


@pytest.fixture
def made(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with its file as it was before each test."""
    cluster.file.write_text(cluster.text)
    yield cluster
    cluster.file.write_text(cluster.text)


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> tuple[str, str]:
    """Jobs that run through these tests: one on n1, and one on n2 in the partition that is to go."""
    return cluster.submit("-w n1"), cluster.submit("-p brief")


def test_a_harmless_change_when_jobs_run_then_it_goes_through_and_both_counts_are_told(
    made: Cluster, jobs: tuple[str, str]
) -> None:
    made.file.write_text(f"{made.text}slurm_conf: {{SlurmdTimeout: 301}}\n")
    done = made.run("deploy", "--json", "-")
    told = report(done)
    assert told["jobs"] == {"before": 2, "after": 2, "ended": [], "lost": []}
    assert "Jobs: 2 ran before, 2 run now." in done.stderr
    assert [made.state(number) for number in jobs] == ["RUNNING", "RUNNING"]
    made.file.write_text(made.text)
    assert report(made.run("deploy", "--json", "-"))["jobs"]["after"] == 2
    assert report(made.run("deploy", "--json", "-"))["jobs"] is None


@pytest.mark.parametrize(("name", "hurt"), [
    ("SelectType", ("n1", "n2")),
    ("SlurmdSpoolDir", ("n1", "n2")),
    ("partition-removed", ("n2",)),
    ("node-removed", ("n2",)),
])  # fmt: skip
def test_a_dangerous_change_when_jobs_run_then_it_is_refused_with_their_names_and_nothing_is_changed(
    made: Cluster, jobs: tuple[str, str], name: str, hurt: tuple[str, ...]
) -> None:
    made.file.write_text(made.dangerous(name))
    before = made.sums()
    done = made.run("deploy")
    said = words_of(done)
    assert done.returncode == 1
    assert f"--allow {name}" in said
    assert "Nothing was changed." in said
    assert ("fab remove-node" in said) is (name == "node-removed")
    for job, node in zip(jobs, ("n1", "n2"), strict=True):
        assert (f"job {job} of slurm, on {node}" in said) is (node in hurt)
    assert made.sums() == before
    assert [made.state(number) for number in jobs] == ["RUNNING", "RUNNING"]


def test_a_dangerous_change_when_planned_then_the_plan_says_what_would_be_refused(
    made: Cluster, jobs: tuple[str, str]
) -> None:
    made.file.write_text(made.dangerous("SelectType"))
    plan = made.run("plan")
    assert plan.returncode == 4
    assert "--allow SelectType" in plan.stdout
    assert all(f"job {number} of slurm" in plan.stdout for number in jobs)


def test_draining_first_does_not_help_jobs_that_wait_in_a_partition_that_goes(made: Cluster) -> None:
    waiting = made.submit("-p brief -H", waits=True)
    made.file.write_text(made.dangerous("partition-removed"))
    done = made.run("deploy", "--drain-first")
    assert done.returncode == 1
    assert f"job {waiting} of slurm, pending in brief" in words_of(done)
    assert "UP" in made.on("ctl", "scontrol show partition brief | grep -o State=.*")
    made.on("ctl", f"scancel {waiting}")


def test_draining_first_for_a_partition_that_goes_then_its_job_ends_in_peace_and_others_go_on(
    made: Cluster, jobs: tuple[str, str]
) -> None:
    made.file.write_text(made.dangerous("partition-removed"))
    process, said = made.started("deploy", "--drain-first", until="Waiting for")
    assert f"{jobs[1]} (slurm) on partition brief" in said
    refused = made.hosts.on("ctl", AS_SLURM + "sbatch -p brief --wrap true 2>&1", check=False)
    assert "rain" in refused or "down" in refused, refused
    made.end(jobs[1], "n2")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "Jobs: 1 ran before, 1 runs now." in said
    assert made.node("n2") == "idle none"
    assert made.state(jobs[0]) == "RUNNING"
    made.file.write_text(made.text)
    assert made.run("deploy").returncode == 0


def test_draining_first_when_cut_off_then_it_is_told_and_the_next_goes_on_and_an_admins_drain_stays(
    made: Cluster,
) -> None:
    lasting = made.alone("-w n1")
    made.on("ctl", "scontrol update NodeName=n2 State=DRAIN Reason='fan is loud'")
    made.file.write_text(made.dangerous("SelectType"))
    process, said = made.started("deploy", "--drain-first", until="Waiting for")
    assert f"{lasting} (slurm) on n[1-2]" in said
    process.kill()
    process.wait()
    assert made.node("n1").startswith("drng slurmfab: drained by a deployment for a change of SelectType (")

    eventually(lambda: "another run" not in words_of(made.run("deploy")), "the killed run has let go")
    done = made.run("deploy")
    assert done.returncode == 1
    assert "n1: still drained by a deployment that was interrupted" in words_of(done)
    assert f"job {lasting} of slurm, on n1" in words_of(done)

    process, _ = made.started("deploy", "--drain-first", "--allow", "SelectType", until="Waiting for")
    waiting = made.submit("", waits=True)
    made.end(lasting, "n1")
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert "Jobs: 0 ran before, 0 run now." in said
    assert "select/linear" in made.on("ctl", "scontrol show config | grep ^SelectType")
    assert made.node("n2") == "drain fan is loud"
    made.hosts.until("ctl", f"squeue -h -j {waiting} -o '%T %N'", "RUNNING n1")
    made.end(waiting, "n1")
    made.on("ctl", "scontrol update NodeName=n2 State=RESUME")
    made.file.write_text(made.text)
    assert made.run("deploy").returncode == 0


def test_nodes_left_drained_after_the_change_when_deployed_then_they_are_told_until_draining_first_is_said(
    made: Cluster,
) -> None:
    mark = "slurmfab: drained by a deployment for a change of SelectType (ann@laptop 2026-11-21T09:00)"
    made.on("ctl", f"scontrol update NodeName=n1 State=DRAIN Reason='{mark}'")
    for words in (["plan"], ["deploy"]):
        done = made.run(*words)
        assert (done.returncode, "fab resume n1" in words_of(done)) == (0, True), words_of(done)
        assert made.node("n1").startswith("drain ")
    assert made.run("deploy", "--drain-first").returncode == 0
    assert made.node("n1").startswith("idle ")


def test_a_danger_that_is_allowed_by_name_then_goes_through_and_the_jobs_that_it_hit_are_named(made: Cluster) -> None:
    lasting, waiting = made.alone("-w n1"), made.submit("-p brief -H", waits=True)
    made.file.write_text(made.dangerous("partition-removed"))
    assert made.run("deploy", "--allow", "SelectType").returncode == 1
    done = made.run("deploy", "--allow", "partition-removed")
    assert done.returncode == 0, words_of(done)
    assert "Jobs: 1 ran before, 1 runs now." in words_of(done)
    assert f"Lost (allowed): job {waiting} (slurm)" in words_of(done)
    assert made.state(lasting) == "RUNNING"
    made.end(lasting, "n1")
