"""Slurm from elsewhere than the distribution: a signed repository, then a directory of files; and both taken back.

One lab goes through all of it, in this order: real hosts of Debian 13 with the Slurm of Debian sid.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from public_key import KEY
from stock import Stock
from suites import SUITES

from slurmfab.lab import slurm_repository

pytestmark = pytest.mark.lab

SUITE = "trixie"
"""The suite on which the Slurm of sid can be installed."""

REPOSITORY = f"""\
database: ctl
slurm:
  version: "26.05.*"
  source: {{uris: "file:{slurm_repository.PLACE}", suites: {slurm_repository.SUITE}, key: slurm.asc}}
"""
ANOTHER_SUITE = 'database: ctl\nslurm: {version: "26.05.*", source: {suite: sid}}\n'
DIRECTORY = 'database: ctl\nslurm: {version: "26.05.*", source: {directory: debs}}\n'

FROM_ELSEWHERE = r"""
dpkg-query -W -f '${Package} ${Version} ${source:Package}\n' | while read name version source; do
  apt-cache madison $name | awk -v version=$version -v place="%s" -F ' *[|] *' '
    $2 == version && index($3, place) { there = 1 }
    $2 == version && ! index($3, place) { also = 1 }
    END { exit ! there || also }' && echo $source $name
done; :
"""
"""Prints source and name of each installed package that a place alone has in this version."""

NO_OTHER_HAS = {"hwloc", "http-parser", "llhttp"}
"""Sources of what Slurm needs and Debian 13 has in an older version, or not at all."""

ASK_VERSION = "scontrol --version; dpkg-query -W -f '${Version}\\n' slurm-client"
OURS = (
    "ls /etc/apt/sources.list.d/slurmfab* /etc/apt/preferences.d/slurmfab* /etc/apt/keyrings/slurmfab* 2>/dev/null || :"
)


@pytest.fixture(scope="module")
def lab(stock: Stock) -> Iterator[DeployedLab]:
    """Bare hosts, of which n2 is not in the cluster file yet; the repository's packages lie beside it, too."""
    if SUITE not in SUITES:
        pytest.skip(f"the Slurm of Debian sid can be installed on {SUITE} alone")
    with stock.bare(SUITE, nodes=2, newer_slurm=True) as made:
        beside = made.inventory_path.parent
        repository = slurm_repository.ensure(SUITE, print)
        shutil.copy(repository / slurm_repository.KEY, beside / "slurm.asc")
        # As a site would: without a client library whose server has its socket elsewhere than that of Debian 13.
        shutil.copytree(repository / "pool", beside / "debs", ignore=shutil.ignore_patterns("libmariadb*", "mariadb*"))
        yield made


@pytest.fixture(scope="module")
def text(lab: DeployedLab) -> str:
    """The cluster file with one node and no word about Slurm's packages."""
    written = lab.inventory_path.read_text().replace("n[1-2]", "n1")
    return re.sub(r"^ *n2: .*\n|, n2: [^,}]+", "", written, flags=re.MULTILINE)


def sources_of(made: DeployedLab, place: str) -> set[str]:
    """The sources of which a host has packages that a place alone has in their versions; Slurm's are among them."""
    rows = [line.split() for line in made.on("ctl", FROM_ELSEWHERE % place).splitlines()]
    names = {name for source, name in rows if source == "slurm-wlm"}
    assert {"slurmctld", "slurmdbd", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin"} <= names, rows
    return {source for source, _ in rows}


def test_a_cluster_with_a_database_of_its_own_gets_the_slurm_of_another_suite_and_nothing_else(stock: Stock) -> None:
    if SUITE not in SUITES:
        pytest.skip(f"the Slurm of Debian sid can be installed on {SUITE} alone")
    with stock.bare(SUITE, nodes=1) as made:
        made.inventory_path.write_text(made.inventory_path.read_text() + ANOTHER_SUITE)
        made.deploy()
        assert made.on("ctl", ASK_VERSION).startswith("slurm-wlm 26.05.")
        # MariaDB's library is Debian 13's, whose server has another socket than that of sid.
        assert sources_of(made, " sid/") <= {"slurm-wlm", *NO_OTHER_HAS}
        assert made.deploy()["steps"] == []


def test_a_new_cluster_gets_the_slurm_of_the_repository(lab: DeployedLab, text: str) -> None:
    (lab.inventory_path.parent / "wrong.asc").write_text(KEY)
    lab.inventory_path.write_text(text + REPOSITORY.replace("slurm.asc", "wrong.asc"))
    refused = ended(lab.slurmfab("deploy"), 1)
    assert "is not the one in the file of slurm.source.key" in refused.stdout + refused.stderr
    assert lab.on("n1", OURS) == ""
    lab.inventory_path.write_text(text + REPOSITORY)
    lab.deploy()
    for host in ("ctl", "n1"):
        assert lab.on(host, ASK_VERSION).startswith("slurm-wlm 26.05.")
    assert lab.deploy()["steps"] == []


def test_nothing_else_comes_from_there(lab: DeployedLab) -> None:
    assert sources_of(lab, slurm_repository.PLACE) <= {"slurm-wlm", *NO_OTHER_HAS}
    # munge is in Debian alone, libhwloc15 in both: what Slurm needs is installed, and no other package is upgraded.
    assert f":{slurm_repository.SUITE} " not in lab.on("n1", "apt-get --simulate dist-upgrade")
    policy = lab.on("n1", "apt-cache policy slurmd libnuma1")
    assert "*** 26.05." in policy
    assert f"file:{slurm_repository.PLACE}" not in policy.partition("libnuma1:")[2]


def test_a_node_that_joins_gets_the_files_from_here_and_the_source_is_taken_back(lab: DeployedLab, text: str) -> None:
    lab.inventory_path.write_text(text + DIRECTORY)
    lab.deploy()
    assert [lab.on(host, OURS) for host in ("ctl", "n1")] == ["", ""]
    joined = succeeded(lab.slurmfab("add-node", lab.lab.host("n2").address, "--accept-new-host-keys"))
    assert "Pushed " in joined.stdout + joined.stderr
    assert lab.on("n2", ASK_VERSION).startswith("slurm-wlm 26.05.")
    checked = lab.slurmfab("check-cluster", "--json", "-")
    failed = [one for one in json.loads(checked.stdout)["checks"] if one["outcome"] == "failed"]
    assert (checked.returncode, failed) == (0, [])
    lab.inventory_path.write_text(lab.inventory_path.read_text().replace(DIRECTORY, ""))
    lab.deploy()
    assert lab.deploy()["steps"] == []
    assert lab.on("n2", ASK_VERSION).startswith("slurm-wlm 26.05."), "Slurm stays as it is without the key"
