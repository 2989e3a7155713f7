"""Devices of nodes in gres.conf, hosts that read other files than most, and the program that is told of them."""

from __future__ import annotations

import dataclasses

import pytest
from found_clusters import CONFIGLESS, conf, found

from slurmfab.cluster.inventory.slurm_files import LARGEST_FILE
from slurmfab.commands.import_cluster import devices, survey
from slurmfab.commands.import_cluster.carried import reason_against
from slurmfab.commands.import_cluster.found import FoundCluster, FoundFile
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.places import shared_directory

BASE = """\
ClusterName=lab
SlurmctldHost=ctl
SlurmUser=slurm
NodeName=n[1-3] CPUs=4
PartitionName=main Nodes=ALL
"""
GRES = "NodeName=n[1-2] Name=gpu File=/dev/nvidia0\nName=shard Count=4\n"


def cluster(*fetching: str, own: str = "", link: str = "") -> FoundCluster:
    """A cluster of ctl and n1 to n3, of which some fetch their files, and n3 has a gres.conf of its own."""
    fetched = (FoundFile("/run/slurm/conf/slurm.conf", BASE),)
    texts = {host: fetched if host in fetching else (conf("slurm.conf", BASE),) for host in ("ctl", "n1", "n2", "n3")}
    texts["ctl"] = (FoundFile("/etc/slurm/slurm.conf", BASE, link=link), conf("gres.conf", GRES))
    if own:
        texts["n3"] = (*texts["n3"], conf("gres.conf", own))
    return found("24.11", texts, configless=fetching)


def test_lines_of_gres_conf_are_about_the_nodes_that_they_name_or_about_all() -> None:
    def names(node: str) -> list[str]:
        return [line["name"] for line in devices.lines_of(GRES, node)]

    assert (names("n1"), names("n3")) == (["gpu", "shard"], ["shard"])
    assert devices.gres_text(devices.lines_of(GRES, "n1")) == "name=gpu file=/dev/nvidia0; name=shard count=4"
    assert devices.gres_text(()) == "nothing"


def test_a_node_uses_its_own_gres_conf_or_that_of_the_controller_if_it_fetches_files() -> None:
    old = OldCluster(cluster("n1", own="Name=gpu Count=1\n"))
    assert [devices.text_of(old, node) for node in ("n1", "n2", "n3")] == [GRES, "", "Name=gpu Count=1\n"]


@pytest.mark.parametrize(
    ("fetching", "does", "told"),
    [
        ((), False, []),
        (("n1",), False, ["n1 fetch their files from slurmctld (configless), unlike most nodes"]),
        (("n1", "n2"), True, ["n3 have files of their own, unlike most nodes"]),
        (("n1", "n2", "n3"), True, []),
    ],
)
def test_nodes_that_read_other_files_than_most_are_told(fetching: tuple[str, ...], does: bool, told: list[str]) -> None:
    old = OldCluster(cluster(*fetching))
    assert survey.fetches(old) is does
    assert [one.partition(";")[0] for one in survey.other_ways_of_files(old)] == told


def test_nodes_that_did_not_answer_are_not_among_those_that_read_other_files() -> None:
    there = cluster("n1", "n2")
    hosts = {name: files for name, files in there.hosts.items() if name != "n3"}
    old = OldCluster(dataclasses.replace(there, hosts=hosts, unreachable={"n3": "off."}))
    assert [*survey.other_ways_of_files(old)] == []
    (lost,) = survey.lost_hosts(old)
    assert lost == "n3 did not answer: off. It stays in slurm.conf as it is there; deploy again when it answers."
    other = OldCluster(dataclasses.replace(there, unreachable={"db": "off."}))
    assert [one for one in survey.lost_hosts(other) if "It stays as slurm.conf names it; deploy again" in one]


def test_a_link_is_told_with_the_key_for_a_directory_that_all_share() -> None:
    (told,) = survey.other_ways_of_files(OldCluster(cluster(link="/shared/slurm/slurm.conf")))
    assert told.startswith("/etc/slurm/slurm.conf is a link to /shared/slurm/slurm.conf.")
    assert told.endswith("slurm_conf_directory: /shared/slurm.")


def test_a_host_with_another_slurm_conf_than_the_controllers_is_told_unless_it_fetches() -> None:
    there = cluster("n2")
    text = BASE.replace("CPUs=4", "CPUs=2")
    hosts = {
        name: dataclasses.replace(files, slurm_conf=text if name != "ctl" else BASE)
        for name, files in there.hosts.items()
    }
    hosts["n3"] = dataclasses.replace(hosts["n3"], slurm_conf="")
    (told,) = survey.other_variants(OldCluster(dataclasses.replace(there, hosts=hosts)))
    assert told.startswith("slurm.conf of n1 differs from the controller's, which counts: ")
    assert [*survey.other_variants(OldCluster(there))] == []


def test_a_preempt_type_is_decided_before_anything_is_compared() -> None:
    text = f"{CONFIGLESS}PreemptType=preempt/qos\nAccountingStorageType=accounting_storage/none\n"
    old = OldCluster(found("24.11", {"ctl": (conf("slurm.conf", text),)}))
    assert survey.decided_first(old) == {
        "PreemptType": "preempt/qos",
        "AccountingStorageType": "accounting_storage/none",
    }
    assert survey.slurm_packages(old) == {}


def test_one_host_that_reads_a_link_shares_it_with_nobody() -> None:
    linked = FoundFile("/etc/slurm/slurm.conf", BASE, link="/shared/slurm/slurm.conf")
    there = found("24.11", {"ctl": (linked,)})
    alone = dataclasses.replace(there, hosts={"ctl": dataclasses.replace(there.hosts["ctl"], mark="7 1")})
    assert shared_directory(OldCluster(alone)) == ""


def test_files_of_the_controller_come_from_its_daemon_or_else_from_its_directory() -> None:
    there = cluster()
    old = OldCluster(there)
    assert (old.texts["gres.conf"], old.texts["cgroup.conf"]) == (GRES, "")
    assert old.texts["slurm.conf"] == BASE
    facts = dataclasses.replace(there.facts["ctl"], gres_conf="", cgroup_conf="", slurm_conf="")
    files = (*there.hosts["ctl"].files, conf("cgroup.conf", "ConstrainCores=yes\n"))
    hosts = {**there.hosts, "ctl": dataclasses.replace(there.hosts["ctl"], files=files)}
    bare = OldCluster(dataclasses.replace(there, facts={**there.facts, "ctl": facts}, hosts=hosts))
    assert (bare.texts["gres.conf"], bare.texts["cgroup.conf"]) == (GRES, "ConstrainCores=yes\n")
    assert bare.texts["slurm.conf"] == BASE
    told = dataclasses.replace(facts, gres_conf="Name=gpu Count=2\n", cgroup_conf="ConstrainCores=no\n")
    asked = OldCluster(dataclasses.replace(there, facts={**there.facts, "ctl": told}, hosts=hosts))
    assert (asked.texts["gres.conf"], asked.texts["cgroup.conf"]) == ("Name=gpu Count=2\n", "ConstrainCores=no\n")


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("n1", "n1"),
        ("N1", "n1"),
        ("n1.example.org", "n1"),
        ("10.0.2.1", "n1"),
        ("localhost", "ctl"),
        ("127.0.0.1", "ctl"),
        ("nobody", ""),
        ("", ""),
        ("10.9.9.9", ""),
    ],
)
def test_a_host_is_found_by_its_names_and_addresses(name: str, host: str) -> None:
    assert OldCluster(cluster()).host_named(name) == host


@pytest.mark.parametrize(
    ("line", "controllers"),
    [
        ("SlurmctldHost=ctl", (("ctl", ""),)),
        ("SlurmctldHost=ctl(10.0.0.1)", (("ctl", "10.0.0.1"),)),
        ("SlurmctldHost=ctl.example.org", (("ctl", "ctl.example.org"),)),
        ("SlurmctldHost=ctl\nSlurmctldHost=n1", (("ctl", ""), ("n1", ""))),
        ("SlurmctldHost=ctl\nSlurmctldHost=back.example.org", (("ctl", ""), ("back", "back.example.org"))),
    ],
)
def test_controllers_have_the_names_of_their_hosts_and_their_addresses(
    line: str, controllers: tuple[tuple[str, str], ...]
) -> None:
    text = BASE.replace("SlurmctldHost=ctl", line)
    there = found("24.11", {host: (conf("slurm.conf", text),) for host in ("ctl", "n1", "n2", "n3")})
    assert OldCluster(there).controllers == controllers


@pytest.mark.parametrize(
    ("user", "name"), [("slurm", "slurm"), ("64030", "slurm"), ("slurm(64030)", "slurm"), ("99", "99"), ("", "")]
)
def test_a_user_is_known_by_name_or_number(user: str, name: str) -> None:
    assert OldCluster(cluster()).name_of(user) == name


def test_the_directory_of_slurms_files_is_that_of_slurm_conf_on_the_controller() -> None:
    assert OldCluster(cluster()).directory == "/etc/slurm"
    elsewhere = FoundFile("/opt/slurm/etc/slurm.conf", BASE)
    there = found("24.11", {"ctl": (elsewhere,)})
    assert OldCluster(there).directory == "/opt/slurm/etc"
    without = dataclasses.replace(there, hosts={"ctl": dataclasses.replace(there.hosts["ctl"], files=())})
    assert OldCluster(without).directory == "/etc/slurm"


def test_a_file_that_is_too_large_on_the_controller_stays_where_it_is() -> None:
    small, large = conf("x.conf", "a"), conf("x.conf", "a" * (LARGEST_FILE + 1))
    whole = conf("x.conf", "a" * LARGEST_FILE)
    old = OldCluster(cluster())
    assert reason_against(old, "x.conf", large, {"ctl": large}).startswith("it has 256 KiB, and at most 256")
    assert reason_against(old, "x.conf", small, {"ctl": small, "n1": large}) == ""
    assert reason_against(old, "x.conf", whole, {"ctl": whole}) == ""
