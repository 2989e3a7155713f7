"""A host with another kind of Slurm's packages than the cluster's, or with two, is refused with a way out."""

from __future__ import annotations

from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, host_facts, prepared

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.core.plan.preflight.hosts import unfit, unfit_newcomers

SMD = {"slurm-smd": "25.11.2-1", "slurm-smd-slurmd": "25.11.2-1"}
OURS = {"slurmd": "24.11.5-4", "slurm-client": "24.11.5-4"}
TOLD = {"slurmd": "25.11.2"}


def smd() -> Cluster:
    return cluster(THREE_HOSTS + '\nslurm: {packages: smd, version: "25.11.*"}\n')


def reason(wanted: Cluster, **differing: Any) -> str:
    """Why n1 is refused, whatever the controller has."""
    facts = {host: fact for host, fact in facts_of(wanted).items() if host == "n1"}
    assert facts
    found = unfit(wanted, {"n1": host_facts("n1", **differing)})
    assert unfit_newcomers(wanted, {"n1": host_facts("n1", **differing)}, "") == found
    return found.get("n1", "")


@pytest.mark.parametrize(
    ("packages", "versions", "words"),
    [
        ({}, {}, ()),
        ({"munge": "0.5", "libslurm-perl": "24.11"}, {}, ()),
        (OURS, {"slurmd": "24.11.5"}, ()),
        (
            SMD,
            TOLD,
            (
                "Slurm of SchedMD's packages (slurm-smd, slurm-smd-slurmd)",
                "the cluster file is for the distribution's packages",
                'slurm: {packages: smd, version: "25.11.*"}',
                "systemctl stop slurmctld slurmd slurmdbd; apt-get remove slurm-smd slurm-smd-slurmd",
            ),
        ),
        (
            {**SMD, **OURS},
            TOLD,
            ("two kinds of Slurm's packages", "slurmd", "apt-get remove slurm-smd slurm-smd-slurmd"),
        ),
        ({}, TOLD, ("Slurm 25.11.2 of no package that slurmfab knows (/usr/sbin/slurmd)", "dpkg -S /usr/sbin/slurmd")),
    ],
)
def test_another_kind_is_refused_with_a_way_out(
    packages: dict[str, str], versions: dict[str, str], words: tuple[str, ...]
) -> None:
    said = reason(cluster(), packages=packages, slurm_versions=versions)
    assert bool(said) == bool(words)
    assert [word for word in words if word not in said] == []


def test_a_cluster_of_schedmds_packages_takes_these_alone() -> None:
    assert reason(smd(), packages=SMD, slurm_versions=TOLD) == ""
    said = reason(smd(), packages=OURS, slurm_versions={"slurmd": "24.11.5"})
    assert "Slurm of the distribution's packages (slurm-client, slurmd)" in said
    assert "slurm: {packages: debian}" in said


def test_a_cluster_of_slurm_of_no_package_takes_hosts_that_have_one() -> None:
    built = cluster(THREE_HOSTS + '\nslurm: {packages: none, version: "25.11.*"}\n')
    assert reason(built, slurm_versions=TOLD) == ""
    assert "it has no Slurm, and slurmfab builds none" in reason(built)
    assert "Slurm of the distribution's packages (slurm-client, slurmd)" in reason(
        built, packages=OURS, slurm_versions={"slurmd": "24.11.5"}
    )
    kept = 'To keep it: slurm: {packages: none, version: "25.11.*"} in the cluster file.'
    assert kept in reason(cluster(), slurm_versions=TOLD)


def test_an_interrupted_installation_is_no_slurm_without_a_package() -> None:
    assert reason(smd(), slurm_versions=TOLD, unfinished_packages=("slurm-smd-slurmd",)) == ""


def test_deployed_hosts_are_not_refused() -> None:
    assert unfit(cluster(), facts_of(cluster(), prepared)) == {}
