"""Nodes of the stand-in for Enterprise Linux without a source: their packages are in a bundle of the controller's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended
from lab_user import Person, snapshots, words_of
from stock import Stock

from slurmfab.base.exit_codes import FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.commands.bundle import archive
from slurmfab.lab.el_standin import KEY, KILLER, PLACE, SLURMS
from slurmfab.on_hosts.agent.dnf import slurm_repository

pytestmark = pytest.mark.lab

SOURCE = f"{PLACE}/{SLURMS['el-smd'][0]}"
CLUSTER_FILE = """\
cluster: dark
ssh: {{user: root, key: {key}}}
slurm: {{packages: el-smd, version: "24.11.*", source: {{uris: "file:{source}", key: slurm.asc}}}}
addresses: {{ctl: {ctl}, n1: {n1}}}
controllers: [ctl]
nodes: [{{hosts: n1}}]
partitions: [{{PartitionName: main, Nodes: ALL, Default: YES}}]
"""
OF_DNF = (
    "rpm --query --all | sort; "
    "find /var/cache /var/lib/dnf /var/lib/slurmfab /etc/pki /etc/yum.repos.d -printf '%p %s %m %U\\n' | sort"
)
BROUGHT = "ls /var/lib/slurmfab/bundle 2>/dev/null || true"
JOBS = AS_SLURM + "srun -N{} hostname | sort | xargs"


@dataclass(frozen=True)
class Dark:
    """A controller that has its sources, and two compute nodes without any; the second is not in the cluster yet."""

    hosts: DeployedLab
    person: Person

    @property
    def file(self) -> Path:
        return self.person.cluster_file

    @property
    def bundle(self) -> Path:
        return archive.path_of(self.file, "el9", self.hosts.on("ctl", "uname -m"))

    def fab(self, *words: str, code: int = 0) -> str:
        """What slurmfab prints; its exit code is this one."""
        done = ended(self.person.slurmfab(*words), code)
        return words_of(done)


@pytest.fixture(scope="module")
def dark(stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dark]:
    person = Person.at(tmp_path_factory.mktemp("dark"))
    with stock.bare("trixie", nodes=2, slurm_packages="el-smd") as hosts:
        hosts.on("ctl", f"rm {slurm_repository.FOLDER}/lab-{SLURMS['el-smd'][0]}.repo")
        for node in ("n1", "n2"):
            hosts.on(node, f"rm {slurm_repository.FOLDER}/*; mv {PLACE} {PLACE}-away")
        addresses = {name: hosts.lab.host(name).address for name in ("ctl", "n1")}
        person.writes(CLUSTER_FILE.format(key=hosts.lab.ssh_key, source=SOURCE, **addresses))
        (person.cluster_file.parent / "slurm.asc").write_text(f"{hosts.on('ctl', f'cat {KEY}')}\n")
        person.has_seen(hosts.lab, "ctl", "n1", "n2")
        yield Dark(hosts, person)


def test_a_host_without_sources_when_there_is_no_bundle_then_it_is_left_out_and_told_of_bundles(dark: Dark) -> None:
    told = dark.fab("deploy", code=LEFT_OUT)
    assert "n1: dnf-packages:" in told
    assert f"the package source {slurm_repository.NAME} cannot be reached" in told
    assert "Offline hosts get packages from a bundle: slurmfab bundle" in told


def test_a_bundle_when_it_is_made_then_it_is_whole_and_nothing_has_changed_where_it_was_collected(dark: Dark) -> None:
    before = snapshots(dark.hosts, "ctl"), dark.hosts.on("ctl", OF_DNF)
    told = dark.fab("bundle")
    assert (snapshots(dark.hosts, "ctl"), dark.hosts.on("ctl", OF_DNF)) == before
    assert f"\nbundle: {dark.bundle.name}\n" in told
    made = archive.verified(dark.bundle)
    assert made.manifest.slurm == dark.hosts.on("ctl", "rpm --query --queryformat '%{VERSION}-%{RELEASE}' slurm")
    assert {"munge", "slurm", "slurm-slurmctld", "slurm-slurmd"} <= {*made.manifest.names}
    lock = json.loads(dark.file.with_name(f"{dark.file.stem}.lock.json").read_text())
    assert lock["bundles"] == {dark.bundle.name: made.digest}


def test_a_node_without_sources_when_deployed_then_the_bundle_has_its_packages_and_jobs_run(dark: Dark) -> None:
    dark.file.write_text(f"{dark.file.read_text()}bundle: {dark.bundle.name}\n")
    assert "of packages to n1 (" in dark.fab("deploy")
    assert dark.hosts.on("n1", BROUGHT) == ""
    assert dark.hosts.on("n1", "rpm --query --all 'mariadb*' slurm-slurmctld") == ""
    assert dark.hosts.on("ctl", JOBS.format(1)) == "n1"
    dark.fab("check-cluster")
    again = dark.fab("deploy")
    assert "nothing changed" in again
    assert "Pushed" not in again


def test_a_dnf_that_was_killed_on_such_a_node_when_deployed_again_then_the_bundle_completes_it(dark: Dark) -> None:
    files = f"{PLACE}-away/{SLURMS['el-smd'][0]}/*/slurm{{,-slurmd}}-2*.rpm"
    reinstall = f"bash -c 'dnf -q -y reinstall {files}' >/dev/null 2>&1"
    assert dark.hosts.on("n1", f"touch {KILLER}; {reinstall}; echo $?; rm {KILLER}") == "137"
    assert "unfinished" in dark.fab("plan", code=SOMETHING_TO_DO)
    assert "of packages to n1 (" in dark.fab("deploy")
    assert dark.hosts.on("n1", "rpm --verify --nodeps slurm slurm-slurmd | grep /usr/; dnf -q check") == ""
    dark.fab("plan")
    assert dark.hosts.on("ctl", JOBS.format(1)) == "n1"


def test_a_node_without_sources_when_added_then_the_bundle_has_its_packages(dark: Dark) -> None:
    assert "of packages to n2 (" in dark.fab("add-node", dark.hosts.lab.host("n2").address)
    assert dark.hosts.on("ctl", JOBS.format(2)) == "n1 n2"


def test_a_host_without_sources_when_it_shall_collect_a_bundle_then_it_says_so_and_nothing_is_left(dark: Dark) -> None:
    before = sorted(dark.file.parent.iterdir()), dark.bundle.stat().st_mtime_ns, dark.hosts.on("n1", OF_DNF)
    assert f"the package source {slurm_repository.NAME} cannot be reached" in dark.fab(
        "bundle", "--from", "n1", code=FAILURE
    )
    after = sorted(dark.file.parent.iterdir()), dark.bundle.stat().st_mtime_ns, dark.hosts.on("n1", OF_DNF)
    assert after == before


def test_a_directory_of_rpms_when_a_bundle_is_made_then_it_has_them_and_nodes_without_sources_get_them(
    dark: Dark,
) -> None:
    (folder,) = Path(f"/proc/{dark.hosts.lab.host('ctl').pid}/root{SOURCE}").glob("[!r]*")
    shutil.copytree(folder, dark.file.parent / "rpms")
    text = re.sub(r"source: \{[^}]*\}", "source: {directory: rpms}", dark.file.read_text())
    dark.file.write_text(text)
    dark.fab("deploy")
    assert dark.hosts.on("ctl", f"ls {slurm_repository.PATH} 2>/dev/null || true") == ""
    dark.hosts.on("ctl", f"mv {PLACE}/{SLURMS['el-smd'][0]} {PLACE}/away")
    before = dark.hosts.on("ctl", OF_DNF)
    dark.fab("bundle")
    assert (dark.hosts.on("ctl", OF_DNF), dark.hosts.on("ctl", BROUGHT)) == (before, "")
    assert {"munge", "slurm", "slurm-slurmd"} <= {*archive.verified(dark.bundle).manifest.names}
    dark.hosts.on("n1", "rpm --erase --nodeps slurm-slurmd slurm munge")
    assert "of packages to n1 (" in dark.fab("deploy")
    assert dark.hosts.on("ctl", JOBS.format(2)) == "n1 n2"
    assert "nothing changed" in dark.fab("deploy")
