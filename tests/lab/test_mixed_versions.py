"""Hosts with another Slurm than the controller: what `apt` by hand did to a node, and a legal mixed state."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from stock import Stock
from suites import PACKAGES, SUITES

pytestmark = pytest.mark.lab

SOURCE = r"""
echo 'deb [signed-by=/srv/newer-slurm/key.asc] file:/srv/newer-slurm newer main' >/etc/apt/sources.list.d/newer.list
printf 'Package: *\nPin: release n=newer\nPin-Priority: 100\n' >/etc/apt/preferences.d/newer
apt-get -qq update
"""
"""Shell script by which a host knows the lab's repository with a newer Slurm."""

RUNS = "squeue -h -j {} -o %T"


@pytest.fixture(scope="module", params=[suite for suite in SUITES if suite == "trixie" and PACKAGES == "debian"])
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A deployed cluster with accounting and Slurm 24.11, whose hosts can get 26.05."""
    with stock.copy(request.param, nodes=2, database=True, newer_slurm=True) as made:
        with made.inventory_path.open("a") as text:
            text.write("\ndatabase: {host: ctl}\n")
        made.deploy()
        yield made


def upgraded(cluster: DeployedLab, host: str, *packages: str) -> None:
    """A host's packages as `apt` by hand makes them."""
    names = " ".join(f"{name}/newer" for name in (*packages, "slurm-client", "slurm-wlm-basic-plugins"))
    cluster.on(host, f"{SOURCE}DEBIAN_FRONTEND=noninteractive apt-get -qq -y install {names}")


def submitted(cluster: DeployedLab, options: str) -> str:
    """The number of a job of the slurm user's."""
    return cluster.on("ctl", f"cd /tmp && runuser -u slurm -- sbatch --parsable --mem=50 -o /dev/null {options}")


def test_a_node_that_apt_has_upgraded_by_hand_is_told_and_mended_as_told(cluster: DeployedLab) -> None:
    job = submitted(cluster, "-w n1 --wrap 'sleep 3600'")
    cluster.until("ctl", RUNS.format(job), "RUNNING")
    upgraded(cluster, "n1", "slurmd")

    plan = ended(cluster.slurmfab("plan"), 3)
    assert "its Slurm is 26.05" in plan.stderr, plan.stderr
    assert "apt-get install --allow-downgrades" in plan.stdout, plan.stdout
    checked = ended(cluster.slurmfab("check-cluster", "--only", "release"), 1)
    assert "refuses what a newer slurmd or command sends" in checked.stdout
    told = re.search(
        r"repair: (apt-get install --allow-downgrades [^;]*) there; then \w+ deploy --hosts n1", checked.stdout
    )
    assert told, checked.stdout

    cluster.on("n1", f"DEBIAN_FRONTEND=noninteractive {told[1]} -qq -y")
    cluster.deploy("--hosts", "n1")
    cluster.until("ctl", "sinfo -h -p main -n n1 -o %t", "mix")
    assert cluster.on("ctl", RUNS.format(job)) == "RUNNING"
    cluster.on("ctl", f"scancel {job}")
    assert cluster.slurmfab("check-cluster", "--only", "release").returncode == 0


def test_a_controller_of_a_newer_release_with_older_nodes_is_legal(cluster: DeployedLab) -> None:
    job = submitted(cluster, "-w n2 --wrap 'sleep 3600'")
    cluster.until("ctl", RUNS.format(job), "RUNNING")
    upgraded(cluster, "ctl", "slurmctld", "slurmdbd", "slurm-wlm-mysql-plugin")
    cluster.until("ctl", "scontrol ping | grep -c 'is UP'", "1")

    note = r"n\[1-2\] have Slurm 24\.11\.\d+, ctl has 26\.05\.\d+: that works"
    plan = cluster.slurmfab("plan")
    assert plan.returncode in {0, 4}, plan.stderr
    assert re.search(note, plan.stderr), plan.stderr
    cluster.deploy()
    assert cluster.on("ctl", RUNS.format(job)) == "RUNNING"
    cluster.on("ctl", f"scancel {job}")
    cluster.until("ctl", "sinfo -h -p main -o '%D %t'", "2 idle")

    checked = succeeded(cluster.slurmfab("check-cluster"))
    assert "note    n[1-2]: it has Slurm 24.11" in checked.stdout
    assert re.search(r"ok +jobs +one job runs on all nodes at once", checked.stdout), checked.stdout
