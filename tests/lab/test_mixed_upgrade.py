"""A cluster of Debian and of the stand-in for Enterprise Linux: upgraded with a job at work, and back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab, ended, eventually, succeeded
from lab_user import words_of
from stock import Stock

from slurmfab.lab import el_repository, slurm_repository

pytestmark = pytest.mark.lab

SOURCE = 'slurm: {source: {uris: "file:/srv/newer-slurm", suites: newer, key: debs.asc}, version: "24.11.*"}\n'
TEXT = """\
database: ctl
nodes:
  - hosts: n1
  - hosts: n2
    slurm:
      packages: el-smd
      version: "24.11.*"  # as on Debian
      source: {uris: "file:/srv/newer-slurm", key: rpms.asc}
partitions: [{PartitionName: main, Nodes: ALL, Default: YES}]
"""
AS_SLURM = "cd /tmp && runuser -u slurm -- "
LONG = "i=0; while [ ! -e /tmp/enough ] && [ $i -lt 1200 ]; do i=$((i+1)); sleep 0.5; done; echo the end"
VERSIONS = "scontrol show node -o | sed 's/.*NodeName=\\([^ ]*\\).* Version=\\([0-9.]*\\)\\..*/\\1 \\2/' | sort | xargs"
NODES = "sinfo -N -o '%N %t %E'; squeue; tail -n 40 /var/log/slurm/slurmctld.log"
ON_ALL = f"{AS_SLURM}srun -N2 hostname | sort | xargs"


@pytest.fixture(scope="module")
def hosts(stock: Stock) -> Iterator[DeployedLab]:
    wanted = {"slurm_packages": "debian", "other_packages": ("n2:el-smd",), "newer_slurm": True}
    with stock.bare("trixie", nodes=2, **wanted) as made:
        for host, name in (("ctl", "debs.asc"), ("n2", "rpms.asc")):
            place = el_repository.newer_slurm(made.lab.spec, print, host)
            shutil.copy(place / slurm_repository.KEY, made.inventory_path.parent / name)
        begin = made.inventory_path.read_text().partition("nodes:")[0]
        made.deploy_file(begin + TEXT)
        made.deploy_file(begin + SOURCE + TEXT)  # the source has the newer Slurm alone
        yield made


def test_hosts_of_two_systems_when_upgraded_then_each_gets_its_packages_and_a_job_goes_on_and_they_go_back(
    hosts: DeployedLab,
) -> None:
    file = hosts.inventory_path.read_text()
    hosts.until("ctl", VERSIONS, "n1 24.11 n2 24.11")
    job = hosts.on("ctl", f"{AS_SLURM}sbatch --parsable -w n2 --mem=50 --wrap '{LONG}'")
    hosts.until("ctl", f"squeue -h -j {job} -o %t", "R")
    planned = ended(hosts.slurmfab("upgrade", "--plan", "--to", "26.05", "--json", "-"), 4)
    found = json.loads(planned.stdout)["hosts"]
    assert found["n1"]["offered"]["slurmd"].startswith("26.05")
    assert found["n2"]["offered"]["slurm-slurmd"].startswith("26.05")

    succeeded(hosts.slurmfab("upgrade", "--to", "26.05", "--yes"))
    hosts.until("ctl", VERSIONS, "n1 26.05 n2 26.05")
    assert hosts.inventory_path.read_text() == re.sub(r"24\.11", "26.05", file)
    hosts.on("n2", "touch /tmp/enough")
    hosts.until("ctl", f"sacct -nXP -j {job} -o State", "COMPLETED")
    assert hosts.on("ctl", ON_ALL) == "n1 n2"
    for task in ("plan", "check-cluster"):
        succeeded(hosts.slurmfab(task))

    (backup,) = (hosts.inventory_path.parent / f"{hosts.inventory_path.stem}.backups").glob("*.tar")
    back = succeeded(hosts.slurmfab("upgrade", "--back", str(backup), "--yes"))
    hosts.until("ctl", VERSIONS, "n1 24.11 n2 24.11", patience=120)
    assert hosts.inventory_path.read_text() == file
    # The state of the backup has the job, which has ended since.
    assert f"No longer at work: job {job} on n2." in words_of(back)
    hosts.on("ctl", f"scancel {job}")
    eventually(lambda: hosts.on("ctl", "sinfo -h -o '%D %t'") == "2 idle", lambda: hosts.on("ctl", NODES), patience=120)
    assert hosts.on("ctl", ON_ALL) == "n1 n2"
