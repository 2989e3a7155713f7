"""Devices of nodes in gres.conf, hosts that read other files than most, and the program that is told of them."""

from __future__ import annotations

import dataclasses

import pytest
from found_clusters import CONFIGLESS, conf, found

from slurmfab.commands.import_cluster import devices, survey
from slurmfab.commands.import_cluster.found import FoundCluster, FoundFile
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.shared_directory import shared_directory

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
