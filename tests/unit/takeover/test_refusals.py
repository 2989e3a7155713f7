"""Clusters that cannot be imported: each reason with what was found and a way, all in one message."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from found_clusters import conf, found
from support import prepared

from slurmfab.base.errors import InputError
from slurmfab.commands.import_cluster.found import FoundCluster, FoundFile, HostFiles
from slurmfab.commands.import_cluster.survey import survey

BASE = """\
ClusterName=lab
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
NodeName=n[1-2] CPUs=4
PartitionName=main Nodes=ALL
"""


def cluster(text: str = BASE, **other: Any) -> FoundCluster:
    return found("24.11", {name: (conf("slurm.conf", text),) for name in ("ctl", "n1", "n2")}, **other)


def refusal(one: FoundCluster) -> str:
    with pytest.raises(InputError) as raised:
        survey(one)
    return str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("SlurmUser=slurm", "SlurmUser=slurm\nSlurmdUser=slurm", "SlurmdUser is slurm, and slurmfab runs"),
        ("SlurmUser=slurm", "SlurmUser=slurm\nAuthType=auth/slurm", "AuthType is auth/slurm"),
        ("SlurmUser=slurm", "SlurmUser=slurm\nCredType=cred/slurm", "CredType is cred/slurm"),
        ("SlurmUser=slurm", "SlurmUser=slurm\nFrontendName=fe1", "FrontendName: front ends"),
        ("/var/lib/slurm/slurmctld", "/var/spool/", "StateSaveLocation is /var/spool, which is a directory of the"),
        ("StateSaveLocation=/var/lib/slurm/slurmctld\n", "", "is /var/spool, Slurm's own default, which is"),
        ("CPUs=4", "CPUs=4 State=CLOUD", "n[1-2]: nodes with State=CLOUD come and go"),
        ("CPUs=4", "CPUs=4 State=future", "its slurm.conf names no compute nodes"),
        ("CPUs=4", "NodeHostName=n1 Port=[7001-7002] CPUs=4", "n1: several nodes of slurm.conf are this one"),
        ("n[1-2] CPUs=4", "-oProxyCommand=x CPUs=4", "'-oProxyCommand=x': NodeName and SlurmctldHost have to be"),
        ("n[1-2] CPUs=4", "../n1 CPUs=4", "'../n1': NodeName and SlurmctldHost have to be names of hosts."),
        ("SlurmctldHost=ctl\n", "", "its slurm.conf has no SlurmctldHost."),
        ("ClusterName=lab\n", "", "its slurm.conf has no ClusterName"),
        ("NodeName=n[1-2] CPUs=4\n", "", "its slurm.conf names no compute nodes."),
        ("PartitionName=main Nodes=ALL\n", "", "its slurm.conf has no partition."),
        ("slurmctld\n", "slurmctld\nSlurmctldPort=x\n", 'slurm_conf.SlurmctldPort: "x" is not a port'),
        ("/var/lib/slurm/slurmctld", "/usr/lib", "StateSaveLocation is /usr/lib, which is a directory of the system"),
        ("ClusterName=lab", "ClusterName=my.lab", "/clustername; then ClusterName=my-lab in slurm.conf"),
    ],
)  # fmt: skip
def test_a_slurm_conf_that_cannot_be_kept_is_refused_with_the_reason(old: str, new: str, reason: str) -> None:
    assert old in BASE
    message = refusal(cluster(BASE.replace(old, new)))
    assert reason in message
    assert "Nothing was written, here or on any host." in message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("SlurmUser=slurm\n", ""),
        ("SlurmUser=hpc\n", "slurm_user: hpc\n"),
        ("SlurmUser=root\n", "slurm_user: root\n"),
        ("", "slurm_user: root\n"),
    ],
)
def test_another_slurm_user_is_kept_and_so_are_its_files(line: str, told: str) -> None:
    text = BASE.replace("SlurmUser=slurm\n", line)
    users = {"uids": {0: "root", 450: "munge", 1800: "hpc", 64030: "slurm"}}
    everywhere = dict.fromkeys(("ctl", "n1", "n2"), users)
    one = survey(cluster(text, hosts=everywhere))
    assert (told in one.text) if told else ("slurm_user" not in one.text)
    assert not [remark for remark in one.remarks if "The first deployment" in remark]


@pytest.mark.parametrize(("number", "told"), [("64030", ""), ("1800", "slurm_user: hpc\n")])
def test_a_slurm_user_by_its_uid_is_that_user(number: str, told: str) -> None:
    users = {"uids": {0: "root", 450: "munge", 1800: "hpc", 64030: "slurm"}}
    one = survey(cluster(BASE.replace("=slurm", f"={number}", 1), hosts=dict.fromkeys(("ctl", "n1", "n2"), users)))
    assert (told in one.text) if told else ("slurm_user" not in one.text)
    assert not [remark for remark in one.remarks if "The first deployment" in remark]


def test_a_slurm_user_with_several_uids_is_refused_with_all_of_them() -> None:
    hosts = {"ctl": {"uids": {0: "root", 1800: "hpc"}}, "n1": {"uids": {0: "root", 1801: "hpc"}}}
    message = refusal(cluster(BASE.replace("SlurmUser=slurm", "SlurmUser=hpc"), hosts=hosts))
    assert "hpc, which is SlurmUser, has not the same UID on all hosts (ctl: 1800; n1: 1801; n2: none)" in message


def test_slurm_from_source_is_refused_with_its_place_and_a_way() -> None:
    one = cluster()
    hosts = {name: dataclasses.replace(files, program="/opt/slurm/sbin/slurmd") for name, files in one.hosts.items()}
    message = refusal(dataclasses.replace(one, hosts=hosts))
    assert "ctl,n[1-2]: Slurm 24.11.5 runs from /opt/slurm/sbin/slurmd, so it was built from source" in message
    assert "ln -s /opt/slurm/sbin/* /usr/local/sbin/; ln -s /opt/slurm/bin/* /usr/local/bin/ on these hosts" in message
    assert "Or move to the packages of the same or a later version" in message


def test_slurm_from_source_when_root_finds_its_programs_is_kept_and_its_packages_are_none() -> None:
    found = {"packages": {}, "slurm_versions": {"slurmd": "24.11.5", "scontrol": "24.11.5"}}
    one = cluster(hosts=dict.fromkeys(("ctl", "n1", "n2"), found))
    hosts = {name: dataclasses.replace(files, program="/opt/slurm/sbin/slurmd") for name, files in one.hosts.items()}
    assert 'slurm: {packages: none, version: "24.11.*"}' in survey(dataclasses.replace(one, hosts=hosts)).text


ROCKY = {"os_id": "rocky", "os_like": "rhel centos fedora", "codename": "el9"}


def everywhere(**facts: Any) -> FoundCluster:
    """The cluster with other facts of all hosts."""
    return cluster(hosts=dict.fromkeys(("ctl", "n1", "n2"), facts))


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (cluster(hosts={"n2": ROCKY}), "n2: it runs rocky, and ctl another system"),
        (everywhere(os_id="arch"), "ctl,n[1-2]: it runs arch; slurmfab deploys to Debian, Ubuntu and Enterprise Linux"),
        (everywhere(**{**ROCKY, "codename": "el8"}), "ctl,n[1-2]: it runs rocky (el8); of Enterprise Linux"),
        (
            everywhere(**ROCKY, packages={}, slurm_versions={"slurmd": "24.11.5", "scontrol": "24.11.5"}),
            "ctl,n[1-2]: it runs rocky, and slurmfab keeps Slurm of no package on Debian and Ubuntu alone. Move to ",
        ),
    ],
)
def test_hosts_of_other_systems_are_refused_by_name_with_the_reason(one: FoundCluster, told: str) -> None:
    hosts = {name: dataclasses.replace(files, program="/opt/slurm/sbin/slurmd") for name, files in one.hosts.items()}
    message = refusal(dataclasses.replace(one, hosts=hosts))
    assert told in message
    assert ("ln -s" in message) == any(facts.os_id == "debian" for facts in one.facts.values())


@pytest.mark.parametrize(("package", "word"), [("slurm", "el-smd"), ("slurm-libs", "el"), ("slurm-ohpc", "el-openhpc")])
def test_a_cluster_on_enterprise_linux_is_kept_with_its_packages(package: str, word: str) -> None:
    found = {**ROCKY, "packages": {package: "24.11.5-1.el9"}, "slurm_versions": {"slurmctld": "24.11.5"}}
    assert f'slurm: {{packages: {word}, version: "24.11.*"}}' in survey(everywhere(**found)).text


@pytest.mark.parametrize("line", ["StateSaveLocation=/tmp", "StateSaveLocation=/var/spool/", "#"])
def test_a_state_beside_other_things_when_it_is_refused_then_the_way_moves_it_without_losing_jobs(line: str) -> None:
    message = refusal(cluster(re.sub("StateSaveLocation=.*", line, BASE)))
    place = line.partition("=")[2].rstrip("/") or "/var/spool"
    default = ", Slurm's own default" if line == "#" else ""
    assert f"StateSaveLocation is {place}{default}, which is a directory of the system" in message
    assert f"find {place} -mindepth 1 -maxdepth 1 -user slurm" in message
    assert message.count("directory of the system") == 1


def test_a_federation_is_refused_by_its_name() -> None:
    assert "sacctmgr modify federation north set clusters-=lab" in refusal(cluster(federation="north"))


def test_a_slurm_that_is_too_old_is_refused_with_its_version() -> None:
    old = {"packages": {"slurmctld": "20.11.4-1"}}
    assert "Slurm 20.11 is too old" in refusal(cluster(hosts={"ctl": old}))


def test_a_slurm_conf_in_another_place_is_refused_with_its_path() -> None:
    one = cluster()
    place = HostFiles((FoundFile("/usr/local/etc/slurm.conf", BASE),), "/usr/sbin/slurmctld", slurm_conf=BASE)
    message = refusal(dataclasses.replace(one, hosts={**one.hosts, "ctl": place}))
    assert "ctl: slurm.conf is /usr/local/etc/slurm.conf, where Slurm's commands do not find it" in message
    assert "ln -s /usr/local/etc /etc/slurm" in message


def test_a_host_without_slurm_conf_is_refused_with_what_to_name() -> None:
    empty = FoundCluster("ctl", {"ctl": HostFiles(())}, {"ctl": prepared("ctl")}, {"ctl": "10.0.0.1"})
    assert "ctl has no slurm.conf that its daemons use. Name the host on which slurmctld runs" in refusal(empty)


def test_what_a_cluster_file_cannot_say_is_in_the_same_list_as_the_other_reasons() -> None:
    text = BASE.replace("SlurmUser=slurm\n", "AuthType=auth/slurm\nSlurmctldPort=x\n")
    message = refusal(cluster(text))
    assert [word in message for word in ("AuthType is auth/slurm", 'slurm_conf.SlurmctldPort: "x" is not a port')] == [
        True
    ] * 2


def test_several_reasons_are_in_one_message() -> None:
    text = BASE.replace("SlurmUser=slurm", "SlurmdUser=hpc\nAuthType=auth/none")
    message = refusal(cluster(text, federation="north"))
    assert [line.partition(" is ")[0] for line in message.splitlines() if line.startswith("  - ")] == [
        "  - SlurmdUser",
        "  - AuthType",
        "  - it",
    ]
