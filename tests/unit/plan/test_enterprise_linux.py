"""Enterprise Linux: what a plan has for it, and what is refused there with the reason."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_rpms
import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.base.paths import SLURM_HOME
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import rpm_files
from slurmfab.cluster.slurm.platform import DEBIAN, EL_SMD, Platform
from slurmfab.commands.bundle import making, sending
from slurmfab.commands.upgrade import target
from slurmfab.core.engine import notices
from slurmfab.core.plan import package_managers
from slurmfab.core.plan.phases import former, packages, slurm_source, ssh
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import enterprise_linux, hosts
from slurmfab.on_hosts.agent.dnf import slurm_repository
from slurmfab.on_hosts.agent.dnf.dnf_packages import DnfPackages
from slurmfab.on_hosts.agent.dnf.dnf_removals import DnfFormerPackages
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.files.selinux_settings import SelinuxSettings
from slurmfab.on_hosts.agent.identities.ssh_key import SshKey
from slurmfab.on_hosts.agent.upgrade.exchanged_rpms import DnfExchangedPackages

OWN = 'slurm: {packages: el-smd, version: "24.11.*"}\n'
REPOSITORY = OWN.replace("}", ", source: {uris: 'https://a.example/el9', key: slurm.asc}}")
ROCKY: dict[str, Any] = {
    "os_id": "rocky",
    "os_like": "rhel centos fedora",
    "codename": "el9",
    "packages": {"slurm": "24.11.5-1.el9", "slurm-slurmd": "24.11.5-1.el9"},
    "architecture": "x86_64",
}


def rocky(name: str, **differing: Any) -> HostFacts:
    return replace(prepared(name), **{**ROCKY, **differing})


def wanted(more: str = REPOSITORY, **differing: Any) -> PlanInput:
    known = cluster(THREE_HOSTS + more)
    return replace(plan_input(known, facts_of(known, rocky, **differing)), slurm_keys={"slurm.asc": "KEY\n"})


def reason(more: str, **differing: Any) -> str:
    """Why n1 is left out."""
    known = cluster(THREE_HOSTS + more)
    return hosts.unfit(known, facts_of(known, rocky, **differing)).get("n1", "")


def test_packages_when_planned_then_dnf_installs_schedmds_names_from_a_held_source() -> None:
    source, found = packages.resources(wanted(), "n1")
    assert isinstance(source, OwnedFiles)
    assert [path for path, *_ in source.files] == [slurm_repository.KEY, slurm_repository.PATH]
    text = source.by_path()[slurm_repository.PATH].text
    assert "baseurl=https://a.example/el9\n" in text
    assert f"excludepkgs={' '.join(EL_SMD.slurm_packages)}\n" in text
    assert isinstance(found, DnfPackages)
    assert found.names == ("munge", "openssh-clients", "slurm", "slurm-slurmd")
    assert found.slurm_version == "24.11.*"


def test_a_host_when_selinux_enforces_then_it_learns_of_slurms_keys_and_that_is_told_as_untried() -> None:
    enforcing = wanted(enforces_selinux=True)
    assert {*names_of(enforcing)} - {*names_of(wanted())} == {"policycoreutils-python-utils"}
    enterprise_linux.refuse_unfit(enforcing)
    settings, key = ssh.keys(enforcing, "n1")
    assert settings == SelinuxSettings(((f"{SLURM_HOME}/.ssh", "ssh_home_t"),))
    assert isinstance(key, SshKey)
    told = dict(notices.enforcing(enforcing))
    assert told.keys() == {"c1", "n1", "n2"}
    assert "never tried where one is enforced" in told["n1"]
    assert not dict(notices.enforcing(wanted()))


def test_nodes_that_jobs_open_when_planned_then_they_get_the_module_or_a_refusal_of_selinux() -> None:
    closed = wanted(REPOSITORY + "node_logins: with_job\n")
    assert {*names_of(closed)} - {*names_of(wanted())} == {"slurm-pam_slurm"}
    enterprise_linux.refuse_unfit(closed)
    with pytest.raises(InputError, match=r"n\[1-2\]: node_logins: with_job cannot be where SELinux enforces"):
        enterprise_linux.refuse_unfit(wanted(REPOSITORY + "node_logins: with_job\n", enforces_selinux=True))


def test_homes_of_users_when_planned_then_selinux_is_asked_about_the_directories_that_they_are_in() -> None:
    users = REPOSITORY + "users: [{name: ada, uid: 4001}, {name: bob, uid: 4002, home: /srv/bob}]\n"
    settings = ssh.keys(wanted(users), "n1")[0]
    assert isinstance(settings, SelinuxSettings)
    assert settings.homes == ("/home", "/srv")


def names_of(plan: PlanInput) -> tuple[str, ...]:
    """The packages of n1."""
    return next(one for one in packages.resources(plan, "n1") if isinstance(one, DnfPackages)).names


def test_a_source_when_the_file_names_none_any_more_then_it_goes() -> None:
    source, _ = packages.resources(wanted(OWN, owned=("slurm-source",)), "n1")
    assert source == OwnedFiles("slurm-source", ())


def test_packages_that_slurmfab_installed_when_nothing_asks_for_them_then_dnf_removes_them() -> None:
    assert former.resources(wanted(added_packages=("site-tool",)), "n1") == (DnfFormerPackages(("site-tool",)),)


def in_files(tmp_path: Path, *names: str, **differing: Any) -> PlanInput:
    """A plan with a directory that has these packages, each of which needs the first one."""
    files = [made_rpms.saved(tmp_path, name, "24.11.5-1.el9", "x86_64", names[0]) for name in names]
    known = wanted(OWN.replace("}", ", source: {directory: rpms}}"), **differing)
    return replace(known, slurm_package_files={"rpms": tuple(map(rpm_files.package_in, files))})


def test_rpms_in_a_directory_when_planned_then_a_host_gets_those_that_it_lacks_and_killed_ones(tmp_path: Path) -> None:
    names = ("slurm", "slurm-slurmctld", "slurm-slurmd")
    bare = in_files(tmp_path, *names, packages={})
    assert [one.name for one in sending.needed_files(bare, "n1")] == ["slurm", "slurm-slurmd"]
    assert sending.refusals(bare, ("c1", "n1")) == {}
    assert sending.needed_files(in_files(tmp_path, *names), "n1") == ()
    killed = in_files(tmp_path, *names, unfinished_packages=("slurm",))
    assert [one.name for one in sending.needed_files(killed, "n1")] == ["slurm"]


def test_rpms_in_a_directory_when_one_is_missing_then_the_host_that_needs_it_is_refused(tmp_path: Path) -> None:
    bare = in_files(tmp_path, "slurm", "slurm-slurmctld", packages={})
    (host, why) = sending.refusals(bare, ("c1", "n1")).popitem()
    assert host == "n1"
    assert why.startswith("it lacks slurm-slurmd, and the directory of slurm.source has no such package for x86_64")


@pytest.mark.parametrize(
    ("more", "differing", "words"),
    [
        (OWN, {}, ""),
        (OWN, {"codename": "el10"}, ""),
        (OWN, {"os_id": "ol", "os_like": "fedora"}, ""),
        (OWN, {"codename": "el8"}, "it runs rocky (el8); of Enterprise Linux, slurmfab knows 9 and 10: the python3 of"),
        (OWN, {"os_id": "centos", "os_like": "rhel fedora", "codename": ""}, "it runs centos (an old release); of"),
        ("", {}, "it runs rocky, and the cluster file is for the distribution's packages there"),
        (
            "",
            {},
            'slurm: {packages: el-openhpc, version: "SERIES.*"}, for all hosts, in a group of',
        ),
        (OWN, {"os_id": "debian", "os_like": "", "codename": "trixie"}, "it runs debian, and the cluster file is for"),
        (OWN, {"os_id": "arch", "os_like": ""}, "it runs arch; slurmfab deploys to Debian, Ubuntu and Enterprise"),
        (OWN, {"enforces_selinux": True}, ""),
        (OWN, {"packages": {"slurm-client": "24.11"}}, "it has Slurm of the distribution's packages (slurm-client)"),
    ],
)
def test_a_host_when_its_system_does_not_fit_then_it_is_left_out_with_the_reason(
    more: str, differing: dict[str, Any], words: str
) -> None:
    found = reason(more, **differing)
    assert words in found
    assert bool(found) == bool(words)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("modules: lmod\n", "it would need lmod there"),
        ("mail: {relay: mail.example.org, from: slurm@example.org}\n", "it would need ca-certificates, msmtp there"),
    ],
)
def test_a_key_that_is_not_there_yet_when_planned_then_it_is_refused(more: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        enterprise_linux.refuse_unfit(wanted(OWN + more))
    enterprise_linux.refuse_unfit(wanted(OWN + "packages: {all: [site-tool]}\n"))


def test_an_upgrade_when_planned_then_it_is_from_a_repository_alone_and_by_dnf() -> None:
    known = cluster(THREE_HOSTS + REPOSITORY)
    wanted_slurm = target.target_of(known, "26.05", "")
    assert (wanted_slurm.version, wanted_slurm.source) == ("26.05.*", known.slurm.source)
    source = slurm_source.of_upgrade(known.slurm, {"slurm.asc": "KEY\n"})
    assert isinstance(source, OwnedFiles)
    assert [path for path, *_ in source.files] == [slurm_repository.KEY, slurm_repository.PATH]
    assert package_managers.kinds(EL_SMD).exchanged is DnfExchangedPackages
    with pytest.raises(InputError, match="dnf knows no suites"):
        target.target_of(known, "", "sid")
    with pytest.raises(InputError, match="sends none from a directory"):
        target.target_of(cluster(THREE_HOSTS + OWN.replace("}", ", source: {directory: rpms}}")), "26.05", "")


def test_a_bundle_when_planned_then_hosts_have_no_source_of_slurmfabs_and_a_killed_dnf_is_completed_from_it() -> None:
    known = wanted(REPOSITORY + "bundle: a.tar\n", unfinished_packages=("slurm",))
    enterprise_linux.refuse_unfit(known)
    (found,) = packages.resources(known, "n1")
    assert isinstance(found, DnfPackages)
    assert sending.needs_some(known, "n1")
    assert sending.package_texts((found,)) == found.names


def test_a_bundle_when_it_would_need_what_only_debian_has_then_it_is_refused() -> None:
    known = cluster(THREE_HOSTS + OWN + "packages: {all: [site-tool]}\n")
    enterprise_linux.refuse_bundle(known, "c1", making.names_for(known, "c1"))
    known = cluster(THREE_HOSTS + OWN + "modules: lmod\n")
    with pytest.raises(InputError, match="the bundle would need lmod"):
        enterprise_linux.refuse_bundle(known, "c1", making.names_for(known, "c1"))
    enterprise_linux.refuse_bundle(cluster(THREE_HOSTS + "modules: lmod\n"), "c1", ("lmod",))


def test_rpms_in_a_directory_when_there_is_a_bundle_then_hosts_get_them_from_that_alone(tmp_path: Path) -> None:
    files = in_files(tmp_path, "slurm", "slurm-slurmd", packages={})
    absent = sending.needed_files(files, "n1")
    assert {one.name for one in absent} == {"slurm", "slurm-slurmd"}
    bundled = replace(files, cluster=files.cluster.model_copy(update={"bundle": ("a.tar",)}))
    enterprise_linux.refuse_unfit(bundled)
    assert sending.needed_files(bundled, "n1") == ()
    assert sending.refusals(bundled, ("n1",)) == {}
    assert sending.needs_some(bundled, "n1")


@pytest.mark.parametrize(
    ("kind", "index", "found"),
    [
        (DEBIAN, "Package: slurm-client\nArchitecture: amd64\nVersion: 24.11.5-4\n", ("24.11.5-4",)),
        (
            EL_SMD,
            '<name>slurm</name>\n  <arch>x86_64</arch>\n  <version epoch="0" ver="24.11.5" rel="1.el9"/>',
            ("24.11.5", "1.el9"),
        ),
        (EL_SMD, "<name>slurm-slurmd</name>", None),
    ],
)
def test_the_index_of_a_bundle_when_read_then_it_tells_the_version_of_slurm(
    kind: Platform, index: str, found: tuple[str, ...] | None
) -> None:
    match = re.search(kind.manager.indexed % re.escape(kind.client), index, re.MULTILINE)
    assert (match and match.groups()) == found
