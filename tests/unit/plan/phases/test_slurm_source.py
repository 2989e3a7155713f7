"""Where hosts get Slurm's packages from: an apt source, or files from the deployer; and what a plan makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.cluster.inventory.deb_files import DebFile
from slurmfab.commands.bundle import sending
from slurmfab.core.plan.phases import former, packages, slurm_source
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.packages.packages import Packages
from slurmfab.on_hosts.agent.slurm.package_source import SlurmSource

SUITE = "slurm: {version: '26.05.*', source: {suite: trixie-backports}}\n"
REPOSITORY = "slurm: {version: '26.05.*', source: {uris: 'https://a.example', suites: x, key: slurm.asc}}\n"
DIRECTORY = "slurm: {version: '26.05.*', source: {directory: debs}}\n"
BARE: dict[str, object] = {"packages": {}, "architecture": "amd64"}


def deb(name: str, depends: str = "", version: str = "26.05.5-1", architecture: str = "amd64") -> DebFile:
    fields = {"Package": name, "Version": version, "Architecture": architecture, "Depends": depends}
    return DebFile(Path(f"debs/{name}.deb"), fields, 1)


DEBS = (
    deb("slurm-client", "slurm-wlm-basic-plugins, libc6"),
    deb("slurm-wlm-basic-plugins", "libhwloc15 (>= 2.15)"),
    deb("libhwloc15", version="2.15.0-2"),
    deb("slurmd", architecture="arm64"),
    deb("slurmctld"),
    deb("slurmrestd"),
)


def wanted(more: str, **facts: object) -> PlanInput:
    known = cluster(THREE_HOSTS + more)
    return replace(
        prepared_input(known, **facts),
        slurm_keys={"slurm.asc": "KEY\n"},
        slurm_package_files={"debs": DEBS} if more == DIRECTORY else {},
    )


def test_hosts_without_the_key_have_no_source() -> None:
    (found,) = packages.resources(wanted(""), "n1")
    assert isinstance(found, Packages)
    assert (vars(found)["slurm"], vars(found)["slurm_version"]) == ((), "")
    assert former.resources(wanted(""), "n1") == ()


def test_another_suite_and_a_repository_are_there_before_the_packages() -> None:
    source, found = packages.resources(wanted(SUITE), "n1")
    assert source == SlurmSource(suite="trixie-backports", version="26.05.*", names=slurm_source.OWN_NAMES)
    assert isinstance(found, Packages)
    assert "slurmd" in vars(found)["slurm"]
    assert vars(found)["slurm_version"] == "26.05.*"
    source, _ = packages.resources(wanted(REPOSITORY), "c1")
    assert isinstance(source, SlurmSource)
    assert (source.uris, source.suites, source.components, source.key) == (
        ("https://a.example",),
        ("x",),
        ("main",),
        "KEY\n",
    )


@pytest.mark.parametrize("more", ["", DIRECTORY, SUITE + "bundle: a.tar\n"])
def test_a_source_goes_with_the_key_and_where_packages_come_from_here(more: str) -> None:
    assert SlurmSource() in former.resources(wanted(more, owned=("slurm-source",)), "n1")
    assert SlurmSource() not in former.resources(wanted(SUITE, owned=("slurm-source",)), "n1")


def test_a_new_host_gets_the_files_of_its_role_with_what_they_need_there() -> None:
    plan = wanted(DIRECTORY, **BARE)
    names = ["libhwloc15", "slurm-client", "slurm-wlm-basic-plugins", "slurmctld"]
    assert [one.name for one in sending.needed_files(plan, "c1")] == names
    (found,) = packages.resources(plan, "c1")
    assert isinstance(found, Packages)
    assert {*names, "munge"} <= {*found.names}
    assert "slurmctld=26.05.5-1" in found.versions
    assert "libhwloc15=2.15.0-2" in found.versions
    # slurmd is there for another architecture alone.
    assert "slurmd" not in [one.name for one in sending.needed_files(plan, "n1")]


def test_a_host_with_another_slurm_gets_no_file() -> None:
    plan = wanted(DIRECTORY, packages={"slurm-client": "24.11.5-4"}, architecture="amd64")
    assert slurm_source.in_files(plan, "c1", {"slurmctld"}) == ()


def test_an_installed_version_that_is_not_wanted_is_told_with_the_command_for_it() -> None:
    told = slurm_source.unwanted_versions(wanted(SUITE, packages={"slurm-client": "24.11.5-4"}))
    assert {host for host, _ in told} == {"c1", "n1", "n2"}
    assert "Slurm 24.11.5-4 is installed, and slurm.version is 26.05.*" in told[0][1]
    assert "upgrade" in told[0][1]
    assert slurm_source.unwanted_versions(wanted(SUITE, packages={"slurm-client": "26.05.5-1"})) == []
    assert slurm_source.unwanted_versions(wanted("", packages={"slurm-client": "24.11.5-4"})) == []


def test_a_plan_for_hosts_without_slurm_is_for_the_version_that_they_get() -> None:
    assert str(wanted(SUITE, **BARE).slurm_version) == "26.05"


def test_packages_that_need_each_other_come_once_and_what_is_not_there_is_left_to_apt() -> None:
    ring = replace(wanted(DIRECTORY, **BARE), slurm_package_files={"debs": (
        deb("slurmctld", "slurm-client"), deb("slurm-client", "slurmctld | other, libc6"), deb("other", "slurmctld"),
        deb("unasked"),
    )})  # fmt: skip
    assert [one.name for one in slurm_source.in_files(ring, "c1", {"slurmctld"})] == [
        "other",
        "slurm-client",
        "slurmctld",
    ]
    assert slurm_source.in_files(ring, "c1", {"munge"}) == ()
    assert slurm_source.in_files(ring, "elsewhere", {"slurmctld"}) == ()
    assert slurm_source.in_files(replace(ring, slurm_package_files={}), "c1", {"slurmctld"}) == ()


def test_a_host_that_has_the_same_version_already_gets_what_it_lacks() -> None:
    there = wanted(DIRECTORY, packages={"slurm-client": "26.05.5-1"}, architecture="amd64")
    assert "slurmctld" in [one.name for one in slurm_source.in_files(there, "c1", {"slurmctld"})]
