"""Slurm's files as plain values, whoever wrote them."""

from __future__ import annotations

import time

import pytest

from slurmfab.cluster.slurm.conf_text import EACH_KEY, MOST_MEMBERS, MOST_NAMES, MOST_SIZE, parse
from slurmfab.core.impact.slurm_diff import differences

FOREIGN = """\
# NodeName=old
clustername=lab   # the name
SLURMCTLDHOST=a(10.0.0.1)
SlurmctldHost=b
SlurmctldPort=6817 SlurmdPort = 6818
SchedulerParameters=bf_continue,\\
bf_interval=30
KillWait=30
KillWait=60
MailProg="/bin/true -x"
Include more.conf
NodeName=DEFAULT CPUs=4 RealMemory=100
nodename=n[1-2],m1 State=UNKNOWN NodeAddr=10.0.0.[1-3] Feature=a\\#b
 NodeName = x9 CPUs=8
NodeName=n[3 CPUs=1
PartitionName=DEFAULT MaxTime=60
PartitionName=p Nodes=ALL
PartitionName=q Nodes=n1 maxtime=30
"""


def test_settings_when_spelled_in_any_case_then_are_found_and_the_last_of_several_counts() -> None:
    assert parse(FOREIGN).settings == {
        "clustername": "lab",
        "slurmctldhost": "a(10.0.0.1),b",
        "slurmctldport": "6817",
        "slurmdport": "6818",
        "schedulerparameters": "bf_continue,bf_interval=30",
        "killwait": "60",
        "mailprog": "/bin/true -x",
        "include": "more.conf",
    }


def test_nodes_when_described_by_default_lines_and_by_lists_then_each_has_its_own() -> None:
    nodes = parse(FOREIGN).nodes
    assert list(nodes) == ["n1", "n2", "m1", "x9", "n[3"]
    assert [nodes["m1"].of("m1", key) for key in ("nodeaddr", "cpus", "realmemory", "feature")] == [
        "10.0.0.3",
        "4",
        "100",
        "a#b",
    ]
    assert nodes["x9"].of("x9", "cpus") == "8"
    assert nodes["x9"].of("x9", "nodeaddr") == ""


def test_one_value_for_many_nodes_when_it_is_no_list_then_is_that_of_each() -> None:
    nodes = parse("NodeName=n[1-2] Port=7000").nodes
    assert nodes["n2"].of("n2", "port") == "7000"


def test_partitions_when_there_is_a_default_line_then_take_what_they_do_not_say() -> None:
    assert parse(FOREIGN).partitions == {
        "p": {"maxtime": "60", "nodes": "ALL"},
        "q": {"maxtime": "30", "nodes": "n1"},
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n   \n", "no assignment here\n"])
def test_a_text_that_says_nothing_when_read_then_has_nothing(text: str) -> None:
    said = parse(text)
    assert (said.settings, said.node_lines, said.partitions, said.lines) == ({}, (), {}, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NodeSet=fat Nodes=n[1-2]\nPartitionName=p Nodes=fat,n3", ("n1", "n2", "n3")),
        ("NodeSet=fat Feature=big\nPartitionName=p Nodes=fat", ("n3", "n4")),
        ("NodeSet=fat Feature=big,old Nodes=n1\nPartitionName=p Nodes=fat", ("n1", "n3", "n4")),
        ("NodeSet=all Nodes=ALL\nPartitionName=p Nodes=all", ("n1", "n2", "n3", "n4")),
        ("NodeSet=a Nodes=b\nNodeSet=b Nodes=a\nPartitionName=p Nodes=a", ("b",)),
        ("PartitionName=p Nodes=n2,n1", ("n2", "n1")),
        ("PartitionName=p", ()),
    ],
)
def test_a_partition_of_node_sets_when_asked_then_has_their_nodes(text: str, expected: tuple[str, ...]) -> None:
    said = parse(f"NodeName=n[1-2] Feature=small\nNodeName=n[3-4] Feature=ib,big\n{text}\n")
    assert said.partition_nodes["p"] == expected


def test_the_nodes_of_a_file_are_made_once() -> None:
    said = parse("NodeName=n[1-3]\n")
    assert said.nodes is said.nodes


def test_former_names_of_controllers_when_read_then_are_slurmctldhost() -> None:
    said = parse("ControlMachine=a\nControlAddr=10.0.0.1\nBackupController=b KillWait=60\n")
    assert said.settings == {"slurmctldhost": "a(10.0.0.1),b", "killwait": "60"}


def test_a_line_that_begins_with_a_repeated_key_when_read_then_has_its_other_keys() -> None:
    assert parse("SlurmctldHost=a SlurmctldPort=7000\n").settings == {"slurmctldhost": "a", "slurmctldport": "7000"}


OURS = "ClusterName=x\nSlurmctldHost=ctl\nNodeName=n[1-2] CPUs=1\nPartitionName=main Nodes=ALL\n"
MOST_BYTES = 4 << 20  # of a host's file
HOSTILE = {
    "partitions of the same nodes": [f"PartitionName=p{one} Nodes=n[1-65000]" for one in range(30_000)],
    "partitions of other nodes": [f"PartitionName=p{one} Nodes=n[{one + 1}-65000]" for one in range(2000)],
    "partitions of all nodes": ["NodeName=a[1-65000]", *(f"PartitionName=p{one} Nodes=ALL" for one in range(30_000))],
    "node sets of a feature": [
        "NodeName=a[1-65000] Feature=f",
        *(f"NodeSet=s{one} Feature=f" for one in range(20_000)),
        *(f"PartitionName=p{one} Nodes=s0,s{one}" for one in range(20_000)),
    ],
    "many features": [
        *(f"NodeName=b{one} Feature=f{one},g" for one in range(20_000)),
        *(f"NodeSet=s{one} Feature=f{one},g" for one in range(20_000)),
    ],
    "nodes": [f"NodeName=b{one}x[1-65000] NodeAddr=b{one}y[1-65000]" for one in range(1000)],
    "long names": [f"PartitionName=p{one} Nodes={'x' * 240}{one}[1-65000]" for one in range(1000)],
    "keys of a default line": [
        "PartitionName=DEFAULT " + " ".join(f"a{one}=1" for one in range(100_000)),
        *(f"PartitionName=p{one}" for one in range(100_000)),
    ],
    "a long value of a default line": [
        "NodeName=DEFAULT State=FUTURE Feature=" + "a" * 1_000_000,
        *(f"NodeName=b{one}" for one in range(100_000)),
    ],
    "a repeated key": ["Prolog=a"] * 100_000,
    "a long word": ["a" * 4_000_000],
    "a long line in pieces": ["aaaa\\"] * 600_000,
    "an endless number": [f"PartitionName=main PriorityTier={'9' * 5000} Nodes=ALL", f"SlurmctldDebug={'9' * 5000}"],
    "numbers that are none": ["PartitionName=main PriorityTier=\u00b2 Nodes=ALL", "SlurmctldDebug=\u00b2"],
}


@pytest.mark.parametrize("lines", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_when_it_is_compared_then_it_costs_seconds_and_no_more_names_than_the_bounds(
    lines: list[str],
) -> None:
    text = "\n".join([OURS, *lines])
    assert len(text.encode()) <= MOST_BYTES, "an agent may send no more"
    since = time.process_time()
    found = differences({"slurm.conf": text}, {"slurm.conf": OURS})
    assert time.process_time() - since < 40, "without bounds these take hours, or more memory than there is"
    assert found
    said = parse(text)
    assert sum(map(len, said.partition_nodes.values())) <= MOST_MEMBERS
    assert sum(map(len, said.node_sets.values())) <= MOST_MEMBERS + 1
    assert sum(len(line.names) for line in said.node_lines) <= MOST_NAMES + len(lines)
    every = (*(line.settings for line in said.node_lines), *said.partitions.values())
    assert sum(EACH_KEY * len(one) + sum(map(len, one.values())) for one in every) <= MOST_SIZE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NodeName=n[1-10000]\n" + "".join(f"PartitionName=p{one} Nodes=ALL\n" for one in range(100)), True),
        ("NodeName=n[1-10000]\n" + "".join(f"PartitionName=p{one} Nodes=n[1-9999]\n" for one in range(100)), True),
        ("".join(f"NodeName=n{one} NodeAddr=10.0.0.1 CPUs=64 State=UNKNOWN\n" for one in range(65_536)), True),
        ("NodeName=n[1-65000]\n" + "".join(f"PartitionName=p{one} Nodes=ALL\n" for one in range(17)), False),
        (
            "NodeName=n[1-65000] NodeAddr=m[1-65000]\n" + "".join(f"NodeSet=s{x} Nodes=a[1-65000]\n" for x in range(3)),
            False,
        ),
        ("".join(f"PartitionName=p{one} Nodes=n{one}[1-65000]\n" for one in range(17)), False),
        ("\n".join(HOSTILE["many features"]), False),
    ],
)
def test_a_file_of_a_large_cluster_is_whole_and_one_that_is_too_much_says_so(text: str, expected: bool) -> None:
    assert parse(text).is_whole is expected
