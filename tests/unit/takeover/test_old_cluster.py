"""A found cluster's own words: names and addresses of hosts, lines with their comments, and keys without a place."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from found_clusters import conf, found

from slurmfab.cluster.facts import Account, Hardware
from slurmfab.commands.import_cluster import nodes, places, refusals, settings
from slurmfab.commands.import_cluster.draft import Draft, comments_by_key, old_lines
from slurmfab.commands.import_cluster.found import FoundFile
from slurmfab.commands.import_cluster.old_cluster import OldCluster, short

BASE = """\
ClusterName=lab
SlurmctldHost=ctl(10.0.0.1)
SlurmUser=slurm
NodeName=n1 NodeAddr=10.0.0.11 CPUs=4
NodeName=n2 NodeHostName=box2 CPUs=4
PartitionName=main Nodes=ALL
"""


def old(text: str = BASE, **other: Any) -> OldCluster:
    return OldCluster(found("24.11", {name: (conf("slurm.conf", text),) for name in ("ctl", "n1", "n2")}, **other))


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("ctl", "ctl"), ("CTL", "ctl"), ("ctl.example.org", "ctl"), ("localhost", "ctl"), ("127.0.0.1", "ctl"),
        ("n1", "n1"), ("10.0.0.11", "n1"), ("10.0.0.99", ""), ("box2", "n2"), ("box2.example.org", "n2"),
        ("n9", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_host_is_known_by_its_names_and_addresses(name: str, host: str) -> None:
    assert old().host_named(name) == host


def test_what_slurm_conf_says_of_a_name_counts_before_what_hosts_tell() -> None:
    there = old()
    facts = {
        **there.found.facts,
        "n1": dataclasses.replace(there.found.facts["n1"], hostname="box2", addresses=("10.0.0.77",)),
    }
    told = OldCluster(dataclasses.replace(there.found, facts=facts))
    assert (told.host_named("box2"), told.host_named("10.0.0.77")) == ("n2", "n1")


@pytest.mark.parametrize(
    ("line", "controllers"),
    [
        ("SlurmctldHost=ctl", [("ctl", "")]),
        ("SlurmctldHost=ctl(10.0.0.1)\nSlurmctldHost=n1", [("ctl", "10.0.0.1"), ("n1", "")]),
        ("SlurmctldHost=ctl.example.org\nSlurmctldHost=c9.example.org", [
            ("ctl", "ctl.example.org"), ("c9", "c9.example.org"),
        ]),
    ],
)  # fmt: skip
def test_controllers_have_the_addresses_of_slurm_conf(line: str, controllers: list[tuple[str, str]]) -> None:
    assert [*old(BASE.replace("SlurmctldHost=ctl(10.0.0.1)", line)).controllers] == controllers


@pytest.mark.parametrize(
    ("lines", "host", "address"),
    [
        ("", "", ""),
        ("AccountingStorageHost=n1\n", "", ""),
        ("AccountingStorageType=accounting_storage/slurmdbd\n", "ctl", ""),
        ("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n", "ctl", ""),
        ("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n", "ctl", ""),
        ("AccountingStorageType=Accounting_Storage/SlurmDBD\nAccountingStorageHost=n1\n", "n1", ""),
        ("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=n1.b.org\n", "n1", "n1.b.org"),
        ("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=10.0.0.11\n", "n1", "10.0.0.11"),
        ("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=elsewhere\n", "", ""),
    ],
)
def test_the_database_is_on_the_host_that_slurm_conf_names_or_on_the_controller(
    lines: str, host: str, address: str
) -> None:
    there = old(BASE + lines)
    assert (there.database_host, there.database_address) == (host, address)


@pytest.mark.parametrize(
    ("line", "user"),
    [
        ("SlurmUser=slurm", "slurm"), ("SlurmUser=slurm(64030)", "slurm"), ("SlurmUser=1000(x)", "admin"),
        ("SlurmUser=4711", "4711"), ("KillWait=30", "root"),
    ],
)  # fmt: skip
def test_slurm_user_is_a_name_or_a_number_that_the_controller_knows(line: str, user: str) -> None:
    assert old(BASE.replace("SlurmUser=slurm", line)).slurm_user == user


def test_files_that_slurm_conf_includes_are_found_beside_it() -> None:
    text = f"{BASE}Include nodes.d/all.conf\n  include /srv/slurm/more.conf # ours\n# Include none.conf\n"
    there = old(text)
    assert "/etc/slurm/nodes.d/all.conf" in there.included["ctl"]
    assert not any("none" in path for path in there.included["ctl"])
    plain = found("24.11", {"ctl": (conf("slurm.conf", BASE), FoundFile("/etc/slurm/x.sh", "Include y\n"))})
    assert OldCluster(plain).included == {"ctl": frozenset()}


def test_a_slurm_conf_in_another_directory_is_told_with_its_hosts() -> None:
    elsewhere = (FoundFile("/opt/etc/slurm.conf", BASE),)
    texts = {"ctl": elsewhere, "n1": elsewhere, "n2": (conf("slurm.conf", BASE),)}
    there = OldCluster(found("24.11", texts))
    assert there.unusual_confs == {"/opt/etc/slurm.conf": ["ctl", "n1"]}
    assert there.directory == "/opt/etc"
    fetching = OldCluster(found("24.11", texts, configless=("n1",)))
    assert fetching.unusual_confs == {"/opt/etc/slurm.conf": ["ctl"]}
    assert old().directory == "/etc/slurm"


def test_a_host_that_did_not_answer_has_the_name_of_slurm_conf() -> None:
    there = old(BASE.replace("n2 NodeHostName=box2", "n2 NodeHostName=box2.b.org"))
    silent = OldCluster(dataclasses.replace(there.found, facts={"ctl": there.found.facts["ctl"]}))
    assert [silent.hostname(name) for name in ("n1", "n2", "l1.b.org")] == ["n1", "box2", "l1"]
    assert there.hostname("n2") == there.found.facts["n2"].hostname
    assert (short("a.b.c"), short("10.0.0.1"), short("fd00::1")) == ("a", "10.0.0.1", "fd00::1")


def test_comments_above_and_behind_a_line_are_its_own_and_decorations_and_keys_that_are_off_are_none() -> None:
    text = (
        "# of nobody\n\n# --- Limits ---\n#########\n# as agreed\nKillWait=60 # seconds\n"
        "# MaxJobCount\n#MaxJobCount=5\nMaxJobCount=9\n# apart\n#\nWaitTime=1\n"
    )
    assert comments_by_key(text) == {"killwait": ("Limits", "as agreed", "seconds")}
    assert next(line.pairs for line in old_lines("A=1 B=2\nC=3\\\n4\n")) == (("A", "1"), ("B", "2"))
    (line,) = old_lines("".join(f"# {number}\n" for number in range(20)) + "# " + "x" * 500 + "\nKillWait=60\n")
    assert len(line.comments) == 12
    assert (line.comments[0], line.comments[-1]) == ("9", "x" * 160)


def test_nodes_sets_and_states_that_the_file_does_not_have_are_told() -> None:
    text = BASE.replace("box2 CPUs=4", "box2 CPUs=4 State=DRAIN") + "NodeSet=fat Feature=big\nDownNodes=n1\n"
    told = [*nodes.remarks(old(text))]
    assert [one.partition(" ")[0] for one in told] == ["NodeSet", "State=DRAIN", "DownNodes"]
    assert "State=DRAIN of n2 is not" in told[1]
    assert [*nodes.remarks(old(BASE.replace("CPUs=4", "CPUs=4 State=UNKNOWN")))] == []


PASS = "a password does not come into the cluster file"


@pytest.mark.parametrize(
    ("file", "key", "value", "version", "reason"),
    [
        ("slurm.conf", "KillWait", "60", "24.11", ""),
        ("slurm.conf", "ClusterName", "x", "24.11", "it has a place of its own"),
        ("slurm.conf", "JobCompPass", "x", "24.11", PASS),
        ("slurm.conf", "accountingstoragepass", "x", "24.11", PASS),
        ("slurm.conf", "Prolog", "/a,/b", "22.05", "Slurm 22.05 runs the program of the last line alone"),
        ("slurm.conf", "Prolog", "/a,/b", "24.11", ""),
        ("slurm.conf", "Prolog", "/a", "22.05", ""),
        ("slurm.conf", "NoSuchKey", "1", "24.11", "no such key"),
        ("cgroup.conf", "ConstrainCores", "yes", "24.11", ""),
        ("cgroup.conf", "KillWait", "1", "24.11", "no such key"),
    ],
)
def test_a_key_without_a_place_in_the_file_has_its_reason(
    file: str, key: str, value: str, version: str, reason: str
) -> None:
    there = OldCluster(found(version, {"ctl": (conf("slurm.conf", BASE),)}))
    told = settings.reason_against(Draft("lab", ("ctl",)), there, file, key, value)
    assert reason in told
    assert bool(told) is bool(reason)


def test_keys_of_the_database_come_from_its_section_where_there_is_one() -> None:
    draft = Draft("lab", ("ctl",), database={"host": "ctl"})
    told = settings.reason_against(draft, old(), "slurm.conf", "AccountingStorageHost", "ctl")
    assert told == "it comes from the key database"
    assert not settings.reason_against(Draft("lab", ("ctl",)), old(), "slurm.conf", "AccountingStorageHost", "ctl")


@pytest.mark.parametrize(
    ("value", "left"),
    [("enable_configless", ""), ("a=1,Enable_Configless,b", "a=1,b"), ("a=1", "a=1"), ("", "")],
)
def test_the_option_of_configless_comes_from_its_key(value: str, left: str) -> None:
    assert settings.without_option(value) == left


FOUR = Hardware(CPUs=4, Boards=1, SocketsPerBoard=1, CoresPerSocket=4, ThreadsPerCore=1, RealMemory=16000)
CORES = {"CPUs": "8", "CoresPerSocket": "4"}


@pytest.mark.parametrize(
    ("settings_now", "hardware", "cores"),
    [
        ({}, FOUR, CORES),
        ({"CPUs": "8"}, FOUR, CORES),
        (CORES, FOUR, {"SocketsPerBoard": "2"}),
        (CORES, None, {"Boards": "1", "SocketsPerBoard": "2", "CoresPerSocket": "4", "ThreadsPerCore": "1"}),
    ],
)
def test_cores_of_a_node_are_those_of_its_line_and_then_what_slurm_completes(
    settings_now: dict[str, str], hardware: Hardware | None, cores: dict[str, str]
) -> None:
    assert nodes.layout({"cpus": "8", "corespersocket": "4"}, settings_now, hardware) == cores


@pytest.mark.parametrize(
    ("key", "actual", "given"),
    [
        ("RealMemory", "1000", {"Weight": "2", "RealMemory": "1000"}),
        ("RealMemory", "", {"Weight": "2", "RealMemory": "1"}),
        ("NodeAddr", "10.0.0.1", {"Weight": "2"}),
        ("NoSuchKey", "x", {"Weight": "2"}),
        ("CPUs", "4", {"Weight": "2", "CPUs": "4"}),
    ],
)
def test_a_node_gets_the_key_in_which_it_differs_if_a_group_can_have_it(
    key: str, actual: str, given: dict[str, str]
) -> None:
    assert nodes.corrected(old(), {"Weight": "2"}, "n1", key, actual) == given


def test_partitions_have_their_nodes_without_defaults_and_keys_that_slurm_lacks() -> None:
    text = (
        f"{BASE}NodeSet=fat Nodes=n2,n9\nPartitionName=fat Nodes=fat Default=NO MaxTime=60 NoSuchKey=1\n"
        "# of slurmfab\nPartitionName=slurmfab Nodes=n1\n"
    )
    found_ones = {one.name: one for one in nodes.partitions(old(text))}
    assert list(found_ones) == ["main", "fat"]
    assert (found_ones["main"].nodes, found_ones["fat"].nodes) == ("ALL", ("n2",))
    assert found_ones["fat"].settings == {"MaxTime": "60"}
    assert next(iter(nodes.unknown_keys(old(text))))[:2] == ("partition", "nosuchkey")


ONE, OTHER = Account(64030, 64030, "/", "/"), Account(970, 970, "/", "/")


@pytest.mark.parametrize(
    ("of_ctl", "of_n1", "named", "told"),
    [
        (ONE, ONE, {}, []),
        (OTHER, OTHER, {"slurm": 970}, []),
        (dataclasses.replace(OTHER, gid=971), dataclasses.replace(OTHER, gid=971), {}, []),
        (ONE, OTHER, {}, ["slurm has several UIDs: 970 on n1; 64030 on ctl. slurmfab uses one on all hosts"]),
    ],
)
def test_the_uid_of_slurm_is_named_where_it_is_one_and_not_the_usual_one(
    of_ctl: Account, of_n1: Account, named: dict[str, int], told: list[str]
) -> None:
    hosts = {"ctl": {"accounts": {"slurm": of_ctl}}, "n1": {"accounts": {"slurm": of_n1}}, "n2": {"accounts": {}}}
    there = old(hosts=hosts)
    assert places.ids(there) == named
    assert [one.partition(";")[0] + ";" + one.partition(";")[2].partition("; `")[0] for one in
            places.differing_ids(there)] == told  # fmt: skip


def test_ssh_goes_where_it_went_if_that_is_not_the_address_of_slurm_conf() -> None:
    reached = {"ctl": "10.0.0.1", "n1": "10.9.0.11", "n2": "box2.b.org"}
    there = old(addresses=reached, ssh={"endpoints": {"ctl": "ctl.b.org:2222", "n9": "n9:2222"}})
    found_places = places.places(there)
    assert found_places.controllers == ("ctl",)
    assert found_places.addresses == {"ctl": "10.0.0.1", "n1": "10.0.0.11"}
    assert found_places.endpoints == {"ctl": "ctl.b.org:2222", "n1": "10.9.0.11"}


@pytest.mark.parametrize(("name", "is_one"), [("n1", True), ("n1.b.org", True), ("n[1-2]", False), ("-x", False)])
def test_a_name_is_that_of_one_host(name: str, *, is_one: bool) -> None:
    assert refusals.is_host_name(name) is is_one


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("SlurmdUser=root\nAuthType=auth/munge\nCryptoType=cred/munge\n", []),
        ("SlurmdUser=0\n", []),
        ("SlurmdUser=ann(1000)\n", ["SlurmdUser is ann(1000), and"]),
        ("AuthType=auth/slurm\n", ["AuthType is auth/slurm, and slurmfab sets up auth/munge alone."]),
    ],
)
def test_daemons_run_as_users_and_with_credentials_that_slurmfab_sets_up(lines: str, told: list[str]) -> None:
    there = old(BASE + lines)
    found_ones = [*refusals.other_users(there), *refusals.other_authentication(there)]
    assert len(found_ones) == len(told)
    assert all(one.startswith(words) for one, words in zip(found_ones, told, strict=True))
