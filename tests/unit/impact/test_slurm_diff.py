"""What differs between two versions of Slurm's files."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from slurmfab.core.impact.slurm_diff import Difference, differences, says_the_same

BASE = """\
ClusterName=lab
SlurmctldHost=c1(10.0.0.1)
SlurmdTimeout=300
NodeName=n[1-3] NodeAddr=10.0.0.[2-4] CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES
PartitionName=debug Nodes=n[1-2] MaxTime=60
"""


def told(before: str, after: str, file: str = "slurm.conf") -> list[str]:
    texts = {"slurm.conf": BASE}
    return [str(one) for one in differences({**texts, file: before}, {**texts, file: after})]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("SlurmdTimeout=300", "SlurmdTimeout=400", ["SlurmdTimeout: 300 -> 400"]),
        ("SlurmdTimeout=300", "slurmdtimeout = 400", ["SlurmdTimeout: 300 -> 400"]),
        ("SlurmdTimeout=300", 'SlurmdTimeout="300"', ["comments or order: changed"]),
        ("SlurmdTimeout=300", "slurmdtimeout=300", ["comments or order: changed"]),
        ("SlurmdTimeout=300", "SlurmdTimeout=300 # five minutes", ["comments or order: changed"]),
        ("SlurmdTimeout=300\n", "", ["comments or order: changed"]),
        ("SlurmdTimeout=300", "SlurmdTimeout=300\nKillWait=30", ["comments or order: changed"]),
        ("SlurmdTimeout=300", "SlurmdTimeout=300\nKillWait=60", ["KillWait: (default) -> 60"]),
        ("SlurmdTimeout=300", "SlurmdTimeout=300\nSlurmctldPort=6817\nJobRequeue=1", ["comments or order: changed"]),
        ("SlurmdTimeout=300", "SlurmdTimeout=300\nJobRequeue=0", ["JobRequeue: (default) -> 0"]),
        ("CPUs=4", "CPUs=4 Boards=1 SocketsPerBoard=4 ThreadsPerCore=1", ["comments or order: changed"]),
        (
            "CPUs=4",
            "Sockets=2 CoresPerSocket=2",
            [
                "nodes n[1-3]: SocketsPerBoard: (default) -> 2",
                "nodes n[1-3]: CoresPerSocket: (default) -> 2",
            ],
        ),
        ("CPUs=4", "Boards=2", ["nodes n[1-3]: Boards: (default) -> 2", "nodes n[1-3]: CPUs: 4 -> (default)"]),
        ("State=UNKNOWN", "", ["comments or order: changed"]),
        ("MaxTime=60", "MaxTime=1:00:00 Hidden=NO", ["comments or order: changed"]),
        ("MaxTime=60", "MaxTime=0-01", ["comments or order: changed"]),
        ("Default=YES", "Default=yes MaxTime=INFINITE State=up", ["comments or order: changed"]),
        ("Default=YES", "Default=YES RootOnly=YES", ["partition main: RootOnly: (default) -> YES"]),
        ("Nodes=n[1-2]", "Nodes=n2,n1", ["comments or order: changed"]),
        (
            "PartitionName=debug Nodes=n[1-2]",
            "NodeSet=a Nodes=n[1-2]\nPartitionName=debug Nodes=a",
            ["comments or order: changed"],
        ),
        ("ClusterName=lab", "ClusterName=Lab", ["comments or order: changed"]),
        ("c1(10.0.0.1)", "c1.example.org(10.0.0.1)", ["comments or order: changed"]),
        ("SlurmctldHost=c1(10.0.0.1)", "ControlMachine=c1\nControlAddr=10.0.0.1", ["comments or order: changed"]),
        ("SlurmdTimeout=300", "SlurmdTimeout=300\nNewKey=1", ["NewKey: (default) -> 1"]),
        (
            "c1(10.0.0.1)",
            "c1(10.0.0.1)\nSlurmctldHost=c2",
            ["SlurmctldHost: c1(10.0.0.1) -> c1(10.0.0.1),c2"],
        ),
        ("n[1-3] NodeAddr=10.0.0.[2-4]", "n[1-2] NodeAddr=10.0.0.[2-3]", ["node n3: removed"]),
        ("n[1-3] NodeAddr=10.0.0.[2-4]", "n[1-5] NodeAddr=10.0.0.[2-6]", ["nodes n[4-5]: added"]),
        ("n[1-3] NodeAddr=10.0.0.[2-4]", "n[1-3] NodeAddr=10.0.0.[2-3,9]", ["node n3: NodeAddr: 10.0.0.4 -> 10.0.0.9"]),
        ("RealMemory=4000", "RealMemory=3000", ["nodes n[1-3]: RealMemory: 4000 -> 3000"]),
        ("RealMemory=4000", "realmemory=4000", ["comments or order: changed"]),
        ("RealMemory=4000", "RealMemory=4000 Feature=big", ["nodes n[1-3]: Feature: (default) -> big"]),
        (
            "NodeName=n[1-3] NodeAddr=10.0.0.[2-4] CPUs=4",
            "NodeName=n3 NodeAddr=10.0.0.4 CPUs=4 RealMemory=4000\nNodeName=n[1-2] NodeAddr=10.0.0.[2-3] CPUs=2",
            ["nodes n[1-2]: CPUs: 4 -> 2"],
        ),
        ("MaxTime=60", "MaxTime=90", ["partition debug: MaxTime: 60 -> 90"]),
        ("PartitionName=debug Nodes=n[1-2] MaxTime=60\n", "", ["partition debug: removed"]),
        ("Default=YES", "Default=YES\nPartitionName=q Nodes=n1", ["partition q: added"]),
        ("Nodes=n[1-2]", "Nodes=n1,n2", ["comments or order: changed"]),
        ("Nodes=n[1-2]", "Nodes=n1", ["partition debug: Nodes: n[1-2] -> n1"]),
    ],
)
def test_a_change_of_slurm_conf_when_compared_is_told_in_slurms_sense(old: str, new: str, expected: list[str]) -> None:
    assert BASE.count(old) == 1
    assert told(BASE, BASE.replace(old, new)) == expected


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("MpiDefault=none\nPriorityMaxAge=7-0\nPriorityDecayHalfLife=168:00:00", "PriorityWeightAge=0", True),
        ("SlurmctldDebug=3\nSlurmdDebug=debug", "SlurmdDebug=5", True),
        ("SlurmctldDebug=4", "", False),
        ("SelectTypeParameters=CR_Core_Memory,CR_LLN", "SelectTypeParameters=cr_lln,cr_core_memory", True),
        ("SchedulerParameters=bf_continue,defer", "SchedulerParameters=defer,bf_continue", True),
        ("SchedulerParameters=bf_interval=30", "SchedulerParameters=bf_interval=60", False),
        ("PreemptMode=SUSPEND,GANG", "PreemptMode=gang,suspend", True),
        ("SuspendTime=INFINITE", "SuspendTime=-1", True),
        ("UsePAM=0\nTrackWCKey=no", "", True),
        ("PartitionName=p AllowAccounts=a,b MaxCPUsPerNode=UNLIMITED", "PartitionName=p AllowAccounts=b,a", True),
        ("PartitionName=p AllowQos=a,b", "PartitionName=p AllowQos=a", False),
        ("NodeName=n1 Feature=a,b Gres=gpu:A:2,shard:1K", "NodeName=n1 Features=b,a Gres=shard:1024,gpu:a:2", True),
        ("NodeName=n1 Gres=gpu", "NodeName=n1 Gres=gpu:1", True),
        ("NodeName=n1 Gres=gpu:1", "NodeName=n1 Gres=gpu:2", False),
        ("NodeName=n[1-2] CPUs=4", "NodeName=n2 Sockets=4\nNodeName=n1 CPUs=4 Boards=1 CoresPerSocket=1", True),
        ("# a \\\nKillWait=60", "KillWait=60", True),
    ],
)
def test_one_meaning_in_two_spellings_is_no_difference(one: str, other: str, is_same: bool) -> None:
    before, after = f"ClusterName=lab\n{one}\n", f"ClusterName=lab\n{other}\n"
    assert says_the_same("slurm.conf", before, after) == is_same


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("ConstrainCores=no\nCgroupPlugin=autodetect\n", "", True),
        ("constrainswapspace=YES", "ConstrainSwapSpace=yes", True),
        ("ConstrainCores=yes", "", False),
        ("CgroupMountpoint=/sys/fs/cgroup\nAllowedRAMSpace=100", "", True),
    ],
)
def test_cgroup_conf_is_compared_with_slurms_defaults(one: str, other: str, is_same: bool) -> None:
    assert says_the_same("cgroup.conf", one, other) == is_same


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("AccountingStorageHost=localhost", "AccountingStorageHost=10.0.0.1", ["comments or order: changed"]),
        ("", "AccountingStorageHost=c1", ["comments or order: changed"]),
        (
            "AccountingStorageHost=c1",
            "AccountingStorageHost=10.0.0.9",
            ["AccountingStorageHost: c1 -> 10.0.0.9"],
        ),
        ("SlurmctldHost=c1", "SlurmctldHost=c1(10.0.0.1)", ["comments or order: changed"]),
        ("SlurmctldHost=c1", "SlurmctldHost=c1(10.0.0.9)", ["SlurmctldHost: c1 -> c1(10.0.0.9)"]),
        ("NodeName=c1", "NodeName=c1 NodeAddr=10.0.0.1", ["comments or order: changed"]),
        ("NodeName=c1", "NodeName=c1 NodeAddr=10.0.0.9", ["node c1: NodeAddr: c1 -> 10.0.0.9"]),
    ],
)
def test_names_and_addresses_of_one_host_are_no_difference(before: str, after: str, expected: list[str]) -> None:
    names = {"c1", "10.0.0.1", "localhost"}
    texts = {"slurm.conf": f"ClusterName=lab\n{before}\n"}, {"slurm.conf": f"ClusterName=lab\n{after}\n"}
    found = differences(*texts, lambda one, other: one == other or {one, other} <= names)
    assert [str(one) for one in found] == expected


def test_equal_files_when_compared_do_not_differ() -> None:
    assert told(BASE, BASE) == []


def test_a_host_without_a_slurm_conf_when_compared_has_nothing_in_force_that_could_differ() -> None:
    assert differences({"slurm.conf": "", "cgroup.conf": ""}, {"slurm.conf": BASE}) == ()


def test_a_removed_node_when_told_carries_its_name_and_a_partition_all_of_its_nodes() -> None:
    gone, partition = differences(
        {"slurm.conf": BASE},
        {"slurm.conf": BASE.replace("n[1-3]", "n[1-2]").replace("[2-4]", "[2-3]").replace("PartitionName=main", "#")},
    )
    assert (gone.is_removed, gone.nodes) == (True, ("n3",))
    assert (partition.is_removed, partition.name, partition.nodes) == (True, "main", ("n1", "n2", "n3"))


def test_cgroup_conf_when_changed_is_told_by_its_own_keys() -> None:
    assert told("ConstrainCores=yes\n", "constraincores=no\nAllowedRAMSpace=95\n", "cgroup.conf") == [
        "ConstrainCores: yes -> no",
        "AllowedRAMSpace: (default) -> 95",
    ]


def test_gres_conf_when_changed_is_told_by_node() -> None:
    two = "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"
    one = "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1]\nNodeName=n2 Name=gpu Type=a100 File=/dev/nvidia0\n"
    gone = "Name=gpu Type=a100 File=/dev/nvidia[0-1]"
    assert told(two, one, "gres.conf") == [f"devices of n2: {gone} -> Name=gpu Type=a100 File=/dev/nvidia0"]
    assert told(two, "# none\n", "gres.conf") == [f"devices of n[1-2]: {gone} -> (none)"]
    assert told("", "AutoDetect=nvml\n", "gres.conf") == ["devices of all nodes: (none) -> AutoDetect=nvml"]
    assert told(two, "# two\n" + two, "gres.conf") == ["comments or order: changed"]


def test_a_gres_conf_that_is_to_go_when_compared_leaves_no_devices() -> None:
    before = {"slurm.conf": BASE, "gres.conf": "NodeName=n1 Name=gpu Count=1\n"}
    assert [str(one) for one in differences(before, {"slurm.conf": BASE})] == [
        "devices of n1: Name=gpu Count=1 -> (none)"
    ]


def test_a_difference_when_it_is_about_text_alone_names_its_file() -> None:
    assert differences({"slurm.conf": BASE}, {"slurm.conf": "# hello\n" + BASE}) == (
        Difference("slurm.conf", "text", "comments or order"),
    )


def ten_thousand_nodes() -> tuple[str, str]:
    """A slurm.conf, and one with a hundred nodes less and less memory on all others."""
    before = (
        "".join(f"Key{number}=1\n" for number in range(150))
        + "NodeName=cn[00000-09999] NodeAddr=10.[1-100].0.[1-100] CPUs=4 RealMemory=4000 State=UNKNOWN\n"
        + "PartitionName=main Nodes=ALL\n"
    )
    after = (
        before.replace("NodeName=cn[00000-09999]", "NodeName=cn[00000-09899]")
        .replace("10.[1-100]", "10.[1-99]")
        .replace("RealMemory=4000", "RealMemory=3000")
    )
    return before, after


def test_ten_thousand_nodes_when_some_go_and_others_change_are_compared_within_a_second() -> None:
    before, after = ten_thousand_nodes()
    begun = time.process_time()
    found = differences({"slurm.conf": before}, {"slurm.conf": after})
    assert time.process_time() - begun < 1
    assert [str(one) for one in found] == [
        "nodes cn[09900-09999]: removed",
        "nodes cn[00000-09899]: RealMemory: 4000 -> 3000",
    ]


def test_ten_thousand_nodes_when_compared_take_no_more_than_64_mib() -> None:
    before, after = ten_thousand_nodes()
    tracemalloc.start()
    differences({"slurm.conf": before}, {"slurm.conf": after})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
