"""What a cluster file may say of packages of the site's own."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError
from slurmfab.commands.bundle import making


def refusals(more: str) -> str:
    """What is wrong with a cluster file of three hosts that also says this."""
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    return "\n".join(error.value.complaints)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("packages: {all: [tree-]}", '"tree-" is not the name of a package'),
        ("packages: {all: [./tree.deb]}", "is not the path of a package"),
        ("packages: {all: ['tree=2 1']}", '"2 1" is not a version'),
        ("packages: {all: ['tree=*']}", '"*" is not a version'),
        ("packages: {all: [tree, tree=2*]}", '"tree" is listed twice'),
        ("packages: {all: [-o]}", "is not the name of a package"),
        ("packages: {everywhere: [tree]}", "unknown key"),
        ("packages: {compute: [slurmctld]}", "slurmfab installs slurmctld where the roles of hosts need it"),
        ("packages: {all: [munge=0.5*]}", "slurmfab installs munge"),
        ("packages: {all: [tree=1*], compute: [tree=2*]}", "tree=1* and tree=2* are for the same host (n[1-2])"),
        ("packages: {groups: [{hosts: n3, packages: [tree]}]}", '"n3" is no host of this cluster'),
        ("packages: {groups: [{hosts: [], packages: [tree]}]}", "it needs at least one host"),
        ("packages: {through: n1}", "controller"),
        ("packages: {through: controller}\nbundle: a.tar", "packages come from the bundle; remove one of the two"),
        (
            "packages: {through: controller}\nslurm: {packages: el, version: '22.05.*'}",
            "it is for a controller with apt; without one",
        ),
    ],
)
def test_packages_that_make_no_sense_are_refused_with_the_line(more: str, reason: str) -> None:
    assert reason in refusals(more)
    assert refusals(more).startswith("cluster.yaml:5: packages")


def test_a_host_has_the_packages_of_all_its_lists() -> None:
    lists = "{all: tree, compute: [htop=3.2*], login: [less], groups: [{hosts: n2, packages: [g++]}]}"
    found = cluster(f"{THREE_HOSTS}packages: {lists}\n")
    texts = {host: [one.text for one in found.packages.of_host(host, found.roles(host))] for host in found.hosts}
    assert texts == {"c1": ["tree"], "n1": ["htop=3.2*", "tree"], "n2": ["g++", "htop=3.2*", "tree"]}


def test_a_bundle_has_the_packages_of_all_hosts() -> None:
    found = cluster(f"{THREE_HOSTS}packages: {{all: tree, groups: [{{hosts: n2, packages: [htop=3.2*]}}]}}\n")
    assert {"tree", "htop", "slurmd"} <= set(making.names_for(found, "c1"))
    assert {"tree", "htop=3.2*", "slurmd"} <= set(making.texts_for(found, "c1"))
