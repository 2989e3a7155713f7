"""A node that is not there yet: Slurm takes jobs for it, nobody contacts it, and it joins when it is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, DeployedLab
from stock import Stock
from suites import SUITES

pytestmark = pytest.mark.lab

THERE = """\
nodes: [{hosts: "n[1-2]"}]
partitions: [{PartitionName: main, Nodes: "n[1-3]", Default: "YES"}]
topology: [{SwitchName: s1, Nodes: "n[1-3]"}]
future_nodes: [{hosts: n3, CPUs: 2, RealMemory: 1000, Feature: new}]
"""
LATER = THERE.replace("n[1-2]", "n[1-3]").partition("future_nodes")[0]
SUBMIT = f"{AS_SLURM}sbatch --parsable --output=/dev/null --mem=50 {{}} --wrap 'exec sleep {{}}'"


@pytest.fixture(scope="module", params=SUITES)
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, nodes=3, bare=("n3",)) as lab:
        yield lab


def test_a_node_that_is_not_there_yet_gets_jobs_that_wait_and_joins_beside_running_ones(cluster: DeployedLab) -> None:
    hosts = cluster.inventory_path.read_text().partition("nodes:")[0]
    cluster.deploy_file(hosts + THERE)
    assert cluster.on("ctl", "scontrol show partition main").count("TotalNodes=3 ") == 1
    assert "State=FUTURE" in cluster.on("ctl", "scontrol --future show node n3")
    assert cluster.on("ctl", "sinfo --noheader --partition=main --format=%N") == "n[1-2]"
    assert cluster.on("n3", "command -v slurmd || echo none") == "none"
    running = cluster.on("ctl", SUBMIT.format("--nodelist=n1", 3600))
    waiting = cluster.on("ctl", SUBMIT.format("--nodelist=n3", 1))
    cluster.until("ctl", f"squeue --noheader --job {running} --format=%T", "RUNNING")
    assert cluster.slurmfab("check-cluster").returncode == 0
    cluster.deploy_file(hosts + LATER)
    assert cluster.on("ctl", f"squeue --noheader --job {running} --format=%T") == "RUNNING"
    cluster.until("ctl", f"scontrol --oneliner show job {waiting} | grep --only-matching 'JobState=[A-Z]*'",
                  "JobState=COMPLETED")  # fmt: skip
    assert cluster.slurmfab("check-cluster").returncode == 0
