"""A host with another kind of Slurm's packages than the cluster's, or with two, is refused with a way out."""

from __future__ import annotations

from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, host_facts, prepared

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
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
        ({}, TOLD, ("Slurm 25.11.2 of no package that slurmfab knows", 'slurm: {packages: none, version: "25.11.*"}')),
    ],
)
def test_another_kind_is_refused_with_a_way_out(
    packages: dict[str, str], versions: dict[str, str], words: tuple[str, ...]
) -> None:
    said = reason(cluster(), packages=packages, slurm_versions=versions)
    assert bool(said) == bool(words)
    assert [word for word in words if word not in said] == []


BUILT = ("/usr/local/sbin/slurmd", "/usr/local/bin/srun", "/usr/local/lib/slurm")
UNIT = "/etc/systemd/system/slurmd.service"


@pytest.mark.parametrize(
    ("packages", "versions", "remains", "words"),
    [
        (
            {},
            {"slurmd": "25.11.2"},
            (*BUILT, UNIT),
            (
                f"Slurm 25.11.2 of no package: {', '.join((*BUILT, UNIT))}. It would",
                'To keep it: slurm: {packages: none, version: "25.11.*"} in the cluster file.',
                f"systemctl disable --now slurmd; rm -r {' '.join((*BUILT, UNIT))}; systemctl daemon-reload; ldconfig",
            ),
        ),
        (
            {},
            {"slurmd": "21.08.8"},
            BUILT[:1],
            ("Slurm 21.08.8 of no package", "while no job runs there: rm -r /usr/local/sbin/slurmd"),
        ),
        ({}, {}, (UNIT,), ("what it has: ", "a unit in /etc/systemd/system hides theirs", f"rm -r {UNIT}; systemctl")),
        (OURS, {"slurmd": "24.11.5"}, BUILT[1:2], ("programs in /usr/local come before theirs on PATH",)),
        ({}, {"slurmd": "25.11.2"}, ("/usr/sbin/slurmd",), ("(which have the same files)", "rm -r /usr/sbin/slurmd")),
    ],
    ids=["a build", "an old build", "a unit alone", "beside packages", "a build for /usr"],
)
def test_another_installation_is_told_by_what_was_found_there(
    packages: dict[str, str], versions: dict[str, str], remains: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = reason(cluster(), packages=packages, slurm_versions=versions, remains=remains)
    assert [word for word in words if word not in said] == []
    assert "Upgrade" not in said
    known = {word.strip(".,:;()") for word in said.split() if word.startswith("/")}
    assert known <= {*remains, "/usr/local", "/etc/systemd/system"}  # no path that was not found
    if "slurmd" in versions and versions["slurmd"] < "22.05":
        assert "To keep it" not in said


def test_another_installation_beside_the_packages_of_a_member_stays() -> None:
    members = Lock(hosts={"n1": HostLock("n1")})
    there = {"n1": host_facts("n1", packages=OURS, slurm_versions={"slurmd": "24.11.5"}, remains=BUILT)}
    assert unfit(cluster(), there, members) == {}
    assert "n1" in unfit(cluster(), there)


@pytest.mark.parametrize(
    ("wanted", "packages", "words"),
    [
        ("", {}, ("its distribution (jammy) has Slurm 21.08", "slurm: {packages: smd,")),
        (
            "",
            {"slurmd": "21.08.5-2ubuntu1", "slurm-client": "21.08.5-2ubuntu1"},
            (
                "its Slurm is 21.08.5 (slurm-client, slurmd)",
                "apt-get remove slurm-client slurmd; then slurm: {",
            ),
        ),
        (
            '\nslurm: {packages: smd, version: "25.11.*"}\n',
            {"slurmd": "21.08.5-2ubuntu1"},
            ("apt-get remove slurmd (docs/packages.md)",),
        ),
        ('\nslurm: {packages: smd, version: "25.11.*"}\n', {}, ()),
    ],
)
def test_the_slurm_of_ubuntu_22_04_is_told_with_what_to_take_in_its_place(
    wanted: str, packages: dict[str, str], words: tuple[str, ...]
) -> None:
    said = reason(cluster(THREE_HOSTS + wanted), codename="jammy", os_id="ubuntu", packages=packages)
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
