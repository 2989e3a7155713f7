"""A cluster of Debian with compute nodes of Enterprise Linux: what each host gets, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import made_debs
import made_rpms
import pytest
from support import cluster, plan_input, prepared

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading, repository_key, slurm_package_files
from slurmfab.cluster.inventory.edits import slurm_key, writing
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.platform import DEBIAN, EL_SMD, Platform
from slurmfab.commands.bundle import making
from slurmfab.commands.doctor import hosts as doctor
from slurmfab.commands.rehearse import twin
from slurmfab.commands.upgrade import asking, target
from slurmfab.core.plan.phases import former, log_rotation, packages, slurm_source, users
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import enterprise_linux
from slurmfab.core.plan.preflight.hosts import unfit
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.dnf import slurm_repository
from slurmfab.on_hosts.agent.dnf.dnf_packages import DnfPackages
from slurmfab.on_hosts.agent.dnf.dnf_removals import DnfFormerPackages
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.identities.user import User
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages
from slurmfab.on_hosts.agent.packages.packages import Packages

GROUP = "packages: el-smd, version: '24.11.*', source: {uris: 'https://rpm.example.org/el9', key: slurm.asc}"
TEXT = f"""\
cluster: lab
addresses: {{c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}}
controllers: [c1]
database: {{host: c1}}
nodes:
  - hosts: n1
  - hosts: n2
    slurm: {{{GROUP}}}
"""
ROCKY: dict[str, Any] = {
    "os_id": "rocky",
    "os_like": "rhel centos fedora",
    "codename": "el9",
    "packages": {"munge": "0.5.13-1", "slurm": "24.11.5-1.el9", "slurm-slurmd": "24.11.5-1.el9"},
    "architecture": "x86_64",
    "slurm_versions": {"slurmd": "24.11.5"},
}


def facts(text: str = TEXT, **differing: Any) -> dict[str, HostFacts]:
    """Deployed hosts: n2 of Enterprise Linux, with what differs there, and the others of Debian."""
    found = {host: prepared(host) for host in cluster(text).hosts}
    return {**found, "n2": replace(found["n2"], **{**ROCKY, **differing})}


def made(more: str = "", **differing: Any) -> PlanInput:
    known = plan_input(cluster(TEXT + more), facts(**differing))
    return replace(known, slurm_keys={"slurm.asc": "KEY\n"})


def kinds(some: tuple[Resource, ...]) -> set[type[Resource]]:
    return {type(one) for one in some}


@pytest.mark.parametrize(("host", "kind", "others"), [("n1", Packages, DnfPackages), ("n2", DnfPackages, Packages)])
def test_packages_when_hosts_are_of_two_systems_then_each_gets_its_own(
    host: str, kind: type[Resource], others: type[Resource]
) -> None:
    found = packages.resources(made(), host)
    assert kind in kinds(found)
    assert others not in kinds(found)


def test_a_source_when_a_group_names_one_then_only_its_nodes_have_it() -> None:
    assert slurm_source.resources(made(), "n1") == ()
    (source,) = slurm_source.resources(made(), "n2")
    assert isinstance(source, OwnedFiles)
    assert "baseurl=https://rpm.example.org/el9\n" in source.by_path()[slurm_repository.PATH].text


@pytest.mark.parametrize(("host", "platform"), [("c1", DEBIAN), ("n1", DEBIAN), ("n2", EL_SMD)])
def test_munges_user_when_planned_then_it_is_as_the_hosts_packages_make_it(host: str, platform: Platform) -> None:
    (munge,) = (one for one in users.resources(made(), host) if isinstance(one, User) and one.user == "munge")
    assert (munge.home, munge.shell) == (platform.munge.home, platform.munge.shell)


def test_logs_when_a_hosts_packages_do_not_rotate_them_then_slurmfab_does_there_alone() -> None:
    paths = {host: [path for one in log_rotation.resources(made(), host) for path in one.by_path()]
             for host in ("c1", "n2")}  # fmt: skip
    assert log_rotation.PATH not in paths["c1"]
    assert log_rotation.PATH in paths["n2"]


def test_packages_that_nothing_asks_for_when_removed_then_it_is_by_the_hosts_own_package_manager() -> None:
    known = made(added_packages=("site-tool",))
    known = replace(known, facts={**known.facts, "n1": prepared("n1", added_packages=("site-tool",))})
    assert kinds(former.resources(known, "n1")) == {FormerPackages}
    assert kinds(former.resources(known, "n2")) == {DnfFormerPackages}


def test_slurms_files_when_nodes_are_of_two_systems_then_they_are_those_of_one_system() -> None:
    of_one = cluster(TEXT.replace(f"    slurm: {{{GROUP}}}\n", ""))
    alone = plan_input(of_one, {host: prepared(host) for host in of_one.hosts})
    assert made().rendered == alone.rendered


@pytest.mark.parametrize(
    ("differing", "why"),
    [
        ({}, ""),
        ({"os_id": "debian", "os_like": "", "codename": "trixie"}, "it runs debian, and the cluster file is for Sch"),
        ({"packages": {"slurm-client": "24.11.5"}}, "it has Slurm of the distribution's packages (slurm-client)"),
        (
            {"slurm_versions": {"slurmd": "25.05.1"}},
            "its Slurm is 25.05.1, and slurmctld on c1 is 24.11.5, which",
        ),
        (
            {"slurm_versions": {"slurmd": "22.05.9"}},
            "its Slurm is 22.05.9, and slurmctld on c1 is 24.11.5, which",
        ),
        ({"slurm_versions": {"slurmd": "23.11.9"}}, ""),
    ],
)
def test_a_node_of_another_system_when_it_does_not_fit_then_it_alone_is_left_out(
    differing: dict[str, Any], why: str
) -> None:
    found = unfit(cluster(TEXT), facts(**differing))
    assert why in found.get("n2", "")
    assert found.keys() == ({"n2"} if why else set())


@pytest.mark.parametrize(
    ("series", "why"),
    [
        ("24.11", ""),
        ("23.11", ""),
        ("25.11", "gives it Slurm 25.11, and slurmctld on c1 is 24.11.5"),
        ("22.05", "Repair: name one of these there."),
    ],
)
def test_a_bare_node_when_its_group_names_a_version_then_slurmctlds_window_decides(series: str, why: str) -> None:
    text = TEXT.replace("24.11.*", f"{series}.*")
    found = unfit(cluster(text), facts(text, packages={}, slurm_versions={})).get("n2", "")
    assert why in found if why != "the first Slurm" else "slurmctld on c1 is 24.11.5" in found
    assert bool(found) == bool(why)


def test_a_host_of_another_system_when_no_group_says_so_then_the_keys_to_choose_from_are_named() -> None:
    text = TEXT.replace(f"    slurm: {{{GROUP}}}\n", "")
    said = unfit(cluster(text), facts(text))["n2"]
    assert "it runs rocky, and the cluster file is for the distribution's packages there" in said
    assert 'slurm: {packages: el-smd, version: "SERIES.*"}' in said
    assert "in a group of nodes, or as login_slurm" in said


def test_a_controller_when_its_group_has_packages_of_its_own_then_that_is_refused() -> None:
    with pytest.raises(ClusterFileError, match="c1 is a controller, whose packages the key slurm of the cluster says"):
        cluster(TEXT.replace("hosts: n2", "hosts: n2,c1"))


def test_a_key_when_it_needs_an_unknown_package_on_one_system_then_the_hosts_there_are_named() -> None:
    enterprise_linux.refuse_unfit(made())
    enterprise_linux.refuse_unfit(made("packages: {groups: [{hosts: n1, packages: [lmod]}]}\n"))
    with pytest.raises(InputError, match=r"^n2: the cluster file asks for .* it would need lmod there"):
        enterprise_linux.refuse_unfit(made("modules: lmod\n"))


def test_a_login_host_when_the_file_says_its_packages_then_it_may_have_another_system_than_the_controller() -> None:
    text = TEXT.replace("  - hosts: n2\n    slurm:", "login: n2\nlogin_slurm:")
    known = cluster(text)
    assert known.slurm_of("n2").packages == EL_SMD.word
    assert unfit(known, facts(text)) == {}
    made_of = replace(plan_input(known, facts(text)), slurm_keys={"slurm.asc": "KEY\n"})
    (found,) = (one for one in packages.resources(made_of, "n2") if isinstance(one, DnfPackages))
    assert found.names == EL_SMD.packages("login")
    with pytest.raises(ClusterFileError, match="c1 is a controller"):
        cluster(text.replace("login: n2", "login: [n2, c1]"))


@pytest.mark.parametrize(
    ("like", "groups"), [(None, ["n1,n3", "n2"]), ("n1", ["n1,n3", "n2"]), ("n2", ["n1", "n[2-3]"])]
)
def test_a_node_when_added_then_it_joins_the_group_with_packages_like_its_own(
    like: str | None, groups: list[str]
) -> None:
    grown = cluster(writing.with_nodes(TEXT, ("n3",), {"n3": "10.0.0.4"}, like=like))
    assert [len(group.hosts) for group in grown.nodes] == [2 if "3" in one else 1 for one in groups]
    assert grown.slurm_of("n3") == grown.slurm_of(like or "n1")


def test_a_bundle_when_made_then_it_has_what_hosts_with_the_downloaders_packages_need() -> None:
    known = cluster(TEXT)
    assert {"slurmctld", "slurmdbd", "mariadb-server"} <= {*making.names_for(known, "c1")}
    found = {*making.names_for(known, "n2")}
    assert {"munge", "slurm", "slurm-slurmd"} <= found
    assert not found & {"slurm-client", "slurmd", "mariadb-server", "slurm-slurmdbd"}


def test_keys_and_directories_when_read_then_each_is_known_by_its_place(tmp_path: Path) -> None:
    text = TEXT.replace(GROUP, "packages: el-smd, version: '24.11.*', source: {directory: rpms}")
    known = Inventory(
        loading.parse(f"{text}slurm: {{version: '24.11.*', source: {{directory: debs}}}}\n", "x"),
        Lock(),
        tmp_path / "cluster.yaml",
    )
    made_debs.saved(tmp_path / "debs/slurm-client_24.11.5-1_amd64.deb", Package="slurm-client", Version="24.11.5-1")
    made_rpms.saved(tmp_path / "rpms", "slurm", "24.11.5-1.el9")
    found = slurm_package_files.read(known)
    assert {place: [one.name for one in some] for place, some in found.items()} == {
        "debs": ["slurm-client"],
        "rpms": ["slurm"],
    }
    (tmp_path / "slurm.asc").write_bytes(b"\x99\x00\x01\x04")
    assert [*repository_key.read(replace(known, cluster=cluster(TEXT)))] == ["slurm.asc"]


@pytest.mark.parametrize(
    ("group", "suite", "why"),
    [
        (GROUP, "", ""),
        (GROUP, "sid", "--suite sid: n2 would not get its Slurm"),
        ("packages: none, version: '24.11.*'", "", "Slurm is of no package here"),
        ("packages: el-smd, version: '24.11.*', source: {directory: rpms}", "", "sends none from a directory"),
    ],
)
def test_an_upgrade_when_a_group_has_its_own_packages_then_only_what_no_source_has_is_refused(
    group: str, suite: str, why: str
) -> None:
    known = cluster(TEXT.replace(GROUP, group))
    if why:
        with pytest.raises(InputError, match=why):
            target.target_of(known, "" if suite else "26.05", suite)
    else:
        assert target.target_of(known, "26.05", suite).version == "26.05.*"


@pytest.mark.parametrize(
    ("version", "theirs"), [("26.05.*", "26.05.*"), ("26.05.5", "26.05.5"), ("26.05.5-1~bpo13+1", "26.05.5")]
)
def test_an_upgrade_when_its_version_is_one_of_a_package_then_other_kinds_get_slurms(version: str, theirs: str) -> None:
    known = cluster(TEXT)
    assert str(known.slurm_of("n2").series) == "24.11"
    new = known.with_slurm(SlurmPackages(version=version))
    assert str(new.slurm_of("n2").series) == "26.05"
    assert (new.slurm_of("n1").version, new.slurm_of("n2").version) == (version, theirs)
    assert new.slurm_of("n2").source == cluster(TEXT).slurm_of("n2").source
    text = slurm_key.with_versions(slurm_key.with_slurm(TEXT, new.slurm), new)
    assert cluster(text).slurms == new.slurms
    assert text.startswith(TEXT.replace("24.11.*", theirs))


def test_hosts_of_two_systems_when_asked_for_an_upgrade_then_each_is_asked_for_its_own_packages(tmp_path: Path) -> None:
    (tmp_path / "slurm.asc").write_bytes(b"\x99\x00\x01\x04")
    wanted = cluster(TEXT).with_slurm(SlurmPackages(version="26.05.5-1"))
    known = Inventory(wanted, Lock(), tmp_path / "cluster.yaml")
    ours, theirs = (asking.offer_request(known, host, "26.05.5-1") for host in ("n1", "n2"))
    assert (ours["manager"], ours["version"], "repo" in ours) == ("apt", "26.05.5-1", False)
    assert (theirs["manager"], theirs["version"], "repo" in theirs) == ("dnf", "26.05.5", True)
    assert asking.managers(wanted, ("n1", "n2")) == "apt and dnf"


def test_doctor_when_hosts_are_of_two_systems_then_each_is_judged_by_its_own_packages() -> None:
    there = {"n1": doctor.System("trixie", ("debian",)), "n2": doctor.System("el9", ("rocky", "rhel"))}
    assert [one.state for one in doctor.judged_system(there, cluster(TEXT).slurm_of)] == [doctor.ok("", "").state]
    swapped = {"n1": there["n2"], "n2": there["n1"]}
    assert [one.text[:3] for one in doctor.judged_system(swapped, cluster(TEXT).slurm_of)] == ["n2:", "n1:"]


def test_a_twin_when_nodes_are_of_two_systems_then_its_hosts_are_too() -> None:
    known = cluster(TEXT)
    chosen = twin.choose([(known, Lock())])
    assert twin.make("twin", chosen, [(known, Lock())], "trixie").spec.other_packages == ("n2:el-smd",)
    with pytest.raises(InputError, match="made of trixie, not of bookworm"):
        twin.make("twin", chosen, [(known, Lock())], "bookworm")
