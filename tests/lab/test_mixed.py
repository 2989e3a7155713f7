"""A cluster with a controller of Debian and compute nodes of Debian and of the stand-in for Enterprise Linux."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import words_of
from stock import Stock

from slurmfab.base.exit_codes import DONE, SOMETHING_TO_DO
from slurmfab.cluster.slurm.platform import DEBIAN, EL_SMD
from slurmfab.lab.el_standin import KEY, PLACE, SLURMS
from slurmfab.on_hosts.agent.dnf import slurm_repository

pytestmark = pytest.mark.lab

OTHERS = ("n2", "n4", "n5")  # the hosts with dnf; n3 and n4 join later, n5 is a login host
REPOSITORY = SLURMS[EL_SMD.word][0]
SLURM = f'{{packages: el-smd, version: "24.11.*", source: {{uris: "file:{PLACE}/{REPOSITORY}", key: slurm.asc}}}}'
TEXT = f"""\
login: n5
login_slurm: {SLURM}
nodes:
  - hosts: n1
  - hosts: n2
    slurm: {SLURM}
database: ctl
accounts: [{{name: physics}}]
users: [{{name: ada, uid: 4001, accounts: physics}}]
partitions: [{{PartitionName: main, Nodes: ALL, Default: YES}}]
"""
JOB = "cd / && runuser -u ada -- srun -A physics -N{} sh -c 'echo $SLURMD_NODENAME $(id -un)' | sort | xargs"
ON_RECORD = "sacct -X -n -P -a -u ada -o NNodes,State | sort -u | xargs"


@pytest.fixture(scope="module")
def deployed(stock: Stock) -> Iterator[DeployedLab]:
    others = tuple(f"{host}:{EL_SMD.word}" for host in OTHERS)
    with stock.bare("trixie", nodes=5, slurm_packages=DEBIAN.word, other_packages=others) as lab:
        for host in OTHERS:
            # Slurm's packages are to come from the source that the group of nodes names.
            lab.on(host, f"rm {slurm_repository.FOLDER}/lab-{REPOSITORY}.repo")
        (lab.inventory_path.parent / "slurm.asc").write_text(f"{lab.on('n2', f'cat {KEY}')}\n")
        begin = lab.inventory_path.read_text().partition("nodes:")[0]
        lab.inventory_path.write_text(re.sub(r", n[34]: [0-9.]+", "", begin) + TEXT)
        lab.deploy()
        yield lab


def test_bare_hosts_of_two_systems_when_deployed_then_each_has_its_packages_and_a_plan_is_empty(
    deployed: DeployedLab,
) -> None:
    assert {*DEBIAN.packages("controller")} <= {*deployed.on("ctl", "dpkg-query -W -f '${Package}\\n'").split()}
    assert {*EL_SMD.packages("compute")} <= {*deployed.on("n2", "rpm --query --all --queryformat '%{NAME}\\n'").split()}
    assert deployed.on("n2", f"grep -c excludepkgs= {slurm_repository.PATH}") == "1"
    assert deployed.on("n1", "ls /etc/yum.repos.d 2>/dev/null || echo none") == "none"
    succeeded(deployed.slurmfab("plan"))


def test_hosts_of_two_systems_when_deployed_again_then_nothing_changes(deployed: DeployedLab) -> None:
    assert deployed.deploy()["steps"] == []


def test_hosts_of_two_systems_when_checked_then_all_checks_pass(deployed: DeployedLab) -> None:
    succeeded(deployed.slurmfab("check-cluster"))


def test_a_job_on_both_systems_when_it_has_ended_then_it_is_on_record(deployed: DeployedLab) -> None:
    assert deployed.on("n5", JOB.format(2)) == "n1 ada n2 ada"
    deployed.until("ctl", ON_RECORD, "2|COMPLETED")


def test_nodes_of_two_systems_when_they_fetch_slurms_files_then_jobs_run_on_both(deployed: DeployedLab) -> None:
    text = deployed.inventory_path.read_text()
    deployed.deploy_file(f"{text}configless: true\n")
    assert deployed.on("ctl", JOB.format(2)) == "n1 ada n2 ada"
    succeeded(deployed.slurmfab("plan"))
    deployed.deploy_file(text)


def test_an_upgrade_when_it_is_to_a_suite_then_it_is_refused_because_not_all_have_suites(deployed: DeployedLab) -> None:
    refused = ended(deployed.slurmfab("upgrade", "--plan", "--suite", "sid"), 2)
    assert "--suite sid: n[2,5] would not get its Slurm" in words_of(refused)


def test_an_update_when_planned_then_hosts_of_both_systems_are_asked(deployed: DeployedLab) -> None:
    planned = deployed.slurmfab("update", "--plan", "--hosts", "n1,n2", "--json", "-")
    assert planned.returncode in (0, SOMETHING_TO_DO), words_of(planned)
    groups = json.loads(planned.stdout)["groups"]
    assert {host for group in groups for host in group["hosts"]} == {"n1", "n2"}


def test_scripts_when_ejected_then_each_host_installs_packages_of_its_own_system(
    deployed: DeployedLab, tmp_path: Path
) -> None:
    done = deployed.slurmfab("eject", "--to", str(tmp_path / "scripts"))
    assert done.returncode == DONE, words_of(done)
    texts = {host: (tmp_path / f"scripts/hosts/{host}.sh").read_text() for host in ("n1", "n2")}
    assert ("slurm-client" in texts["n1"], "slurm-slurmd" in texts["n1"]) == (True, False)
    assert ("slurm-client" in texts["n2"], "slurm-slurmd" in texts["n2"]) == (False, True)


def test_a_node_of_each_system_when_added_like_one_of_its_kind_then_jobs_run_on_all(deployed: DeployedLab) -> None:
    address = {host: deployed.lab.host(host).address for host in ("n3", "n4")}
    refused = deployed.slurmfab("add-node", address["n4"], "--accept-new-host-keys")
    assert "n4: it runs rocky, and the cluster file is for the distribution's packages there" in words_of(refused)
    for host, like in (("n3", "n1"), ("n4", "n2")):
        succeeded(deployed.slurmfab("add-node", address[host], "--like", like, "--accept-new-host-keys"))
    assert deployed.on("ctl", JOB.format(4)) == "n1 ada n2 ada n3 ada n4 ada"
    succeeded(deployed.slurmfab("plan"))


def test_a_node_of_the_other_system_when_removed_with_its_packages_then_they_are_gone(deployed: DeployedLab) -> None:
    succeeded(deployed.slurmfab("remove-node", "n4", "--purge", "--yes"))
    assert deployed.on("n4", "rpm --query --all 'slurm*'") == ""
