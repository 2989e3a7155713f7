"""Hosts whose word is in the way of an import: each is left out alone, and the controller's word ends it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from found_clusters import KINDS, conf, found
from support import prepared

from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.found import FoundCluster, HostFiles, Takeover
from slurmfab.commands.import_cluster.hearing import hear
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.survey import survey

BASE = """\
ClusterName=lab
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/srv/slurm/state
NodeName=n[1-4] Sockets=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=15000
PartitionName=main Nodes=ALL
"""
NAMES = ("ctl", "n1", "n2", "n3", "n4")


def cluster(text: str = BASE, **hosts: Mapping[str, Any]) -> FoundCluster:
    """A controller and four nodes. `hosts`: what differs in the facts of some."""
    files = (conf("slurm.conf", text),)
    return found("24.11", dict.fromkeys(NAMES, files), hosts=hosts)


def heard(one: FoundCluster) -> tuple[FoundCluster, Takeover]:
    return hear(one, survey)


def with_files(one: FoundCluster, host: str, **changed: Any) -> FoundCluster:
    """A cluster in which a host answers something else about its files."""
    return dataclasses.replace(one, hosts={**one.hosts, host: dataclasses.replace(one.hosts[host], **changed)})


KNOWN = prepared("n1")


def munge(number: int, **others: int) -> Mapping[str, Any]:
    """What a node says whose munge has another number. `others`: who else has numbers there."""
    numbers = {number: "munge", **{taken: name for name, taken in others.items()}}
    kept = {taken: name for taken, name in KNOWN.uids.items() if name != "munge"}
    account = dataclasses.replace(KNOWN.accounts["munge"], uid=number, gid=number)
    return {
        "accounts": {**KNOWN.accounts, "munge": account},
        "groups": {**KNOWN.groups, "munge": number},
        "uids": {**kept, **numbers},
        "gids": {**kept, **numbers},
    }


MUNGE = KNOWN.accounts["munge"].uid
OLD, ROCKY = {"slurm_versions": {"slurmd": "20.02.1"}}, {"os_id": "rocky", "codename": "platform:el9"}
LIES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "an old Slurm": (OLD, "Slurm 20.02 is too old"),
    "another system": (ROCKY, "it runs rocky"),
    "another number of slurm": ({"uids": {0: "root", 4711: "slurm"}}, "has not the same UID on all hosts"),
    "the others' number of munge is another's": (
        munge(555, other=MUNGE),
        f"{MUNGE}, wanted for munge, belongs to other",
    ),
    "the controller's name": ({"hostname": "ctl"}, "it calls itself ctl, as ctl does"),
    "another node's name": ({"hostname": "n1"}, "it calls itself n1, as n1 does"),
    "a name of each host": ({"hostname": "localhost4"}, "by which each host means itself"),
    "a name of a server": ({"hostname": "relay"}, "which the cluster file names as another machine"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_node_whose_word_is_in_the_way_then_is_left_out_alone_and_told(lie: str) -> None:
    said, words = LIES[lie]
    text = f"{BASE}AccountingStorageExternalHost=relay\n"
    left, made = heard(cluster(text, n2=said))
    assert [*left.doubted] == ["n2"]
    assert sorted(left.hosts) == sorted(left.facts) == ["ctl", "n1", "n3", "n4"]
    (told,) = [remark for remark in made.remarks if remark.startswith("n2 is left out: ")]
    assert words in told
    assert told.endswith("It stays in slurm.conf as it is there; mend that, then deploy again.")
    assert not [remark for remark in made.remarks if "n2 did not answer" in remark]


def lock_of(one: FoundCluster, made: Takeover) -> Lock:
    """The lock of an import."""
    return first_lock(loading.parse(made.text, "it"), OldCluster(one))


@pytest.mark.parametrize(
    "said", [munge(555), munge(555, other=MUNGE)], ids=["has another", "denies that of the others"]
)
def test_a_number_of_munge_that_most_hosts_have_then_is_the_clusters_whatever_one_node_says(
    said: Mapping[str, Any],
) -> None:
    left, made = heard(cluster(n2=said))
    assert (lock_of(left, made).ids["munge.uid"], lock_of(left, made).ids["munge.gid"]) == (MUNGE, MUNGE)
    (told,) = [remark for remark in made.remarks if "n2" in remark]
    assert "munge" in told
    assert ("is left out" in told) == ("n2" in left.doubted), told


@pytest.mark.parametrize("lie", ["an old Slurm", "another system", "a name of each host"])
def test_a_controller_whose_word_is_in_the_way_then_ends_the_import_by_its_name(lie: str) -> None:
    said, _ = LIES[lie]
    packages = {"packages": {"slurmctld": "20.02.1-1"}} if lie == "an old Slurm" else {}
    with pytest.raises(SlurmfabError, match="ctl: ") as raised:
        heard(cluster(ctl={**said, **packages}))
    assert "is left out" not in str(raised.value)


def test_most_hosts_whose_word_is_in_the_way_then_end_the_import() -> None:
    with pytest.raises(SlurmfabError, match="it runs rocky"):
        heard(cluster(n1=ROCKY, n2=ROCKY, n3=ROCKY))
    left, _ = heard(cluster(n1=ROCKY, n2=OLD))
    assert [*left.doubted] == ["n1", "n2"]


def test_several_hosts_that_take_one_unknown_name_then_are_left_out() -> None:
    left, _ = heard(cluster(n1={"hostname": "new"}, n2={"hostname": "new"}))
    assert [*left.doubted] == ["n1", "n2"]


def test_a_node_that_slurm_conf_calls_by_a_name_keeps_it_and_who_takes_it_does_not() -> None:
    text = f"{BASE.replace('n[1-4] ', 'n[1-4] NodeHostName=c[1-4] ')}"
    names = {f"n{number}": {"hostname": f"c{number}"} for number in range(1, 5)}
    assert heard(cluster(text, **names))[0].doubted == {}
    assert [*heard(cluster(text, **names | {"n2": {"hostname": "c1"}}))[0].doubted] == ["n2"]


def test_files_and_daemons_of_one_node_at_odd_places_then_leave_out_that_node() -> None:
    one = cluster()
    (file,) = one.hosts["n2"].files
    moved = with_files(one, "n2", files=(dataclasses.replace(file, path="/home/x/slurm.conf"),))
    assert [*heard(moved)[0].doubted] == ["n2"]
    elsewhere = with_files(one, "n2", program="/home/x/slurmd", version="20.02.1")
    assert [*heard(elsewhere)[0].doubted] == ["n2"]
    assert heard(with_files(one, "n2", version="20.02.1"))[0].doubted == {}, "it counts nowhere"


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_that_nobody_lies_about_then_is_heard_whole(kind: str) -> None:
    left, made = heard(KINDS[kind]("24.11"))
    assert (left.doubted, made) == ({}, survey(KINDS[kind]("24.11")))


def test_one_of_many_hosts_then_is_found_by_halves() -> None:
    asked: list[int] = []

    def judge(one: FoundCluster) -> Takeover:
        asked.append(len(one.hosts))
        if "n77" in one.hosts:
            raise SlurmfabError("no.")
        return Takeover("")

    names = ("ctl", *(f"n{number}" for number in range(256)))
    facts = dict.fromkeys(names, cluster().facts["ctl"])
    left, _ = hear(FoundCluster("ctl", dict.fromkeys(names, HostFiles(())), facts, {}), judge)
    assert left.doubted == {"n77": "no."}
    assert len(asked) < 25
