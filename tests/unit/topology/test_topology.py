"""From what hosts see to the switches of a cluster file."""

from __future__ import annotations

import pytest

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Switch
from slurmfab.cluster.inventory.edits.topology import with_topology
from slurmfab.commands.topology import fabric, showing
from slurmfab.commands.topology.fabric import Neighbours

NODES = ("n1", "n2", "n3")
TEXT = "cluster: lab\ncontrollers: [c1]\nnodes:\n  - hosts: n[1-3]  # all\n"
LEAF, SPINE, NAMELESS = "S-0a", "S-0c", "S-0d"


def seen(*names: str, at: str = "eno1") -> Neighbours:
    return Neighbours(lldp=tuple((at, name) for name in names))


def lines(switches: tuple[Switch, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.name, one.nodes or one.switches) for one in switches]


def test_switches_when_lldp_tells_them_then_nodes_are_at_leaves_below_one_switch() -> None:
    found = {"n1": seen("leaf2.example.org"), "n2": seen("leaf1"), "n3": seen("leaf1"), "c1": seen("core")}
    connected = fabric.by_lldp(found, NODES, ("c1", *NODES))
    assert lines(fabric.tree(connected)) == [
        ("leaf1", ("n2", "n3")),
        ("leaf2", ("n1",)),
        ("fabric", ("leaf1", "leaf2")),
    ]


def test_switches_when_there_is_one_then_none_is_above_it() -> None:
    assert lines(fabric.tree({"n1": ["s1"], "n2": ["s1"]})) == [("s1", ("n1", "n2"))]


def test_switches_when_two_carry_a_bond_then_both_are_one_switch() -> None:
    found = {node: seen("leaf1b", "leaf1a") for node in NODES}
    assert lines(fabric.tree(fabric.by_lldp(found, NODES, NODES))) == [("leaf1a-leaf1b", NODES)]


def test_neighbours_when_they_are_hosts_or_at_another_interface_then_they_do_not_count() -> None:
    found = {"n1": Neighbours(lldp=(("eno1", "N2.example.org"), ("eno2", "mgmt"), ("eno1", "leaf1")))}
    assert fabric.by_lldp(found, NODES, NODES, "eno1") == {"n1": ("leaf1",)}


def test_switches_when_infiniband_has_them_then_the_first_word_of_an_adapter_is_its_host() -> None:
    links = (
        (LEAF, "H-1", "n1 mlx5_0"), (LEAF, "H-2", "N2.example.org HCA-1"), (NAMELESS, "H-3", "n3 mlx5_0"),
        (NAMELESS, "H-4", "stranger mlx5_0"), (LEAF, SPINE, "MF0;spine:MQM8700/U1"), (LEAF, "H-5", ""),
    )  # fmt: skip
    switches = (
        (LEAF, "MF0;leaf01:MQM8700/U1"),
        (SPINE, "MF0;spine:MQM8700/U1"),
        (NAMELESS, "Quantum Mellanox Technologies"),
    )
    found = fabric.by_fabric(Neighbours(switches=switches, links=links), {name: name for name in NODES})
    assert found == {"n1": ("leaf01",), "n2": ("leaf01",), "n3": ("S-0d",)}


@pytest.mark.parametrize("name", ["leaf one/7", "-", "x" * 99, "leaf;[1-9]"])
def test_a_name_when_a_switch_chose_it_freely_then_it_becomes_one_that_slurm_takes(name: str) -> None:
    Switch(name=fabric.short_name(name), nodes=("n1",))


def test_the_cluster_file_when_it_has_no_switches_then_they_come_at_its_end() -> None:
    switches = fabric.tree({"n1": ["s1"], "n2": ["s2"], "n3": ["s2"]})
    text = with_topology(TEXT, switches)
    assert text == TEXT + (
        "\ntopology:\n  - SwitchName: s1\n    Nodes: n1\n  - SwitchName: s2\n    Nodes: n[2-3]\n"
        "  - SwitchName: fabric\n    Switches: s[1-2]\n"
    )
    assert with_topology(text, loading.parse(text, "it").topology) == text


def test_the_cluster_file_when_it_has_other_switches_then_they_are_replaced() -> None:
    old = TEXT + "topology: [{SwitchName: old, Nodes: 'n[1-3]'}]\nx11: true\n"
    text = with_topology(old, fabric.tree(dict.fromkeys(NODES, ("s1",))))
    assert "old" not in text
    assert [one.name for one in loading.parse(text, "it").topology] == ["s1"]


def test_the_cluster_file_when_a_node_has_no_switch_then_it_is_refused() -> None:
    with pytest.raises(ClusterFileError):
        with_topology(TEXT, fabric.tree({"n1": ["s1"]}))


def test_a_node_that_is_not_there_yet_stays_at_the_switch_of_the_file() -> None:
    old = (
        TEXT
        + "future_nodes: [{hosts: n9}]\ntopology: [{SwitchName: old, Nodes: 'n[1-3]'}, {SwitchName: s9, Nodes: n9}]\n"
    )
    future = showing.of_future_nodes(loading.parse(old, "it"))
    text = with_topology(old, fabric.tree({**dict.fromkeys(NODES, ("s1",)), **future}))
    assert lines(loading.parse(text, "it").topology) == [("s1", NODES), ("s9", ("n9",)), ("fabric", ("s1", "s9"))]


@pytest.mark.parametrize("text", ["", " ", "   n9", ".", " . mlx5_0", "n1.", "\u00a0"])
def test_a_description_when_a_host_has_set_it_to_anything_then_it_is_a_known_nodes_or_nobodys(text: str) -> None:
    found = Neighbours(switches=((LEAF, "leaf01"),), links=((LEAF, "H-1", text),))
    assert fabric.by_fabric(found, {"n1": "n1"}) == ({"n1": ("leaf01",)} if text == "n1." else {})


ODD = ("_", "__x", "-_-", "fabric", "fabric-0", "fabric-top", "ALL", "127", "null", "9" * 70, "a-" * 60, "[1-9]", "")


@pytest.mark.parametrize("other", ODD)
@pytest.mark.parametrize("name", ODD)
def test_switches_when_they_have_any_names_then_the_cluster_file_takes_them(name: str, other: str) -> None:
    found = fabric.by_lldp({"n1": seen(name), "n2": seen(other), "n3": seen(name, other)}, NODES, ())
    switches = fabric.tree(found)
    text = with_topology(TEXT, switches)
    assert showing.as_sets(loading.parse(text, "it").topology) == showing.as_sets(switches)
