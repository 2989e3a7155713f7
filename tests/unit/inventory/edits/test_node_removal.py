"""Nodes taken out of what people wrote, and moved to other addresses, with the smallest difference."""

from __future__ import annotations

from itertools import product

import pytest
from edited_files import LINE_ENDS, STYLES, difference

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits import node_removal, writing

GONE = {
    "the last of a range": ["cn16"],
    "one in the middle": ["cn03"],
    "some of each group": ["cn01", "cn04", "cn10"],
    "a whole group": ["cn01", "cn02", "cn03", "cn04"],
    "all but one": [f"cn{number:02d}" for number in range(2, 17)],
}


@pytest.mark.parametrize(("style", "ends", "gone"), list(product(STYLES, LINE_ENDS, GONE)))
def test_without_nodes_when_the_file_is_written_in_any_style_then_only_these_nodes_are_missing(
    style: str, ends: str, gone: str
) -> None:
    text = STYLES[style].replace("\n", LINE_ENDS[ends])
    old = loading.parse(text, "cluster.yaml")
    left = [node for node in old.compute_nodes if node not in GONE[gone]]

    new_text = node_removal.without_nodes(text, GONE[gone])

    new = loading.parse(new_text, "cluster.yaml")
    assert {node: new.settings_of(node) for node in new.compute_nodes} == {node: old.settings_of(node) for node in left}
    assert new.addresses == {host: place for host, place in old.addresses.items() if host not in GONE[gone]}
    if ends == "dos":
        assert "\n" not in new_text.replace("\r\n", "")
    comments = {line.partition("#")[2] for line in text.splitlines() if line.lstrip().startswith("#")}
    assert comments <= {line.partition("#")[2] for line in new_text.splitlines()} | {" a comment inside"}


@pytest.mark.parametrize("style", STYLES)
def test_without_nodes_when_nodes_had_just_been_added_then_the_file_is_the_same_cluster_again(style: str) -> None:
    text = STYLES[style]
    longer = writing.with_nodes(
        text, ["cn17", "cn18"], {"cn17": "10.0.1.17"}, {"Weight": "5"}, endpoints={"cn18": "me@h:22"}
    )

    assert loading.parse(node_removal.without_nodes(longer, ["cn17", "cn18"]), "x") == loading.parse(text, "x")


@pytest.mark.parametrize(
    ("hosts", "lines"),
    [
        (
            ["cn16"],
            [
                "-   cn[01-16]:  10.0.1.[1-16]     # rack 1",
                "+   cn[01-15]:  10.0.1.[1-15]     # rack 1",
                "-   hosts:   cn[05-16]",
                "+   hosts:   cn[05-15]",
            ],
        ),
        (
            ["cn01", "cn02", "cn03", "cn04"],
            [
                "-   cn[01-16]:  10.0.1.[1-16]     # rack 1",
                "+   cn[05-16]:  10.0.1.[5-16]     # rack 1",
                "- - hosts: cn[01-04]     # the old ones",
                "-   Gres: 'gpu:pascal:2'",
            ],
        ),
    ],
)
def test_without_nodes_when_a_person_looks_then_the_difference_is_what_they_would_have_written(
    hosts: list[str], lines: list[str]
) -> None:
    text = STYLES["block"]
    assert difference(text, node_removal.without_nodes(text, hosts)) == lines


HEAD = "cluster: x\ncontrollers: [mn]\nnodes: [{hosts: 'n[1-3]'}]\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("addresses: {n3: 10.0.0.3}\n", "addresses: {}\n"),
        ("addresses:\n  n3: 10.0.0.3   # gone\n", "addresses: {}   # gone\n"),
        ("addresses:\n  n3: 10.0.0.3   # gone\n  n1: 10.0.0.1   # stays\n", "addresses:\n  n1: 10.0.0.1   # stays\n"),
        ("addresses:\n  n[1-3]: 10.0.0.[7,5,9]\n", "addresses:\n  n1: 10.0.0.7\n  n2: 10.0.0.5\n"),
        ("addresses: {n1: 10.0.0.1, n3: 10.0.0.3, mn: 10.0.0.9}\n", "addresses: {n1: 10.0.0.1, mn: 10.0.0.9}\n"),
        ("addresses: {n1: 10.0.0.1, n3: 10.0.0.3}\n", "addresses: {n1: 10.0.0.1}\n"),
        ("ssh: {endpoints: {n3: me@h}}\n", "ssh: {endpoints: {}}\n"),
        (
            "ssh:\n  user: me\n  endpoints:\n    n3: me@h\n    n2: me@g\n",
            "ssh:\n  user: me\n  endpoints:\n    n2: me@g\n",
        ),
        (
            "partitions: [{PartitionName: a, Nodes: ALL}, {PartitionName: b, Nodes: 'n[2-3]'}]\n",
            "partitions: [{PartitionName: a, Nodes: ALL}, {PartitionName: b, Nodes: 'n2'}]\n",
        ),
        (
            "partitions:\n- PartitionName: a\n  Nodes: [n3, n1]  # two\n",
            "partitions:\n- PartitionName: a\n  Nodes: [n1]  # two\n",
        ),
        (
            "partitions:\n- PartitionName: a\n  Nodes:\n  - n1\n  - n3 # third\n",
            "partitions:\n- PartitionName: a\n  Nodes:\n  - n1\n",
        ),
        ("partitions:\n- PartitionName: a\n  Nodes: n3\n", "partitions:\n- PartitionName: a\n  Nodes: []\n"),
        (
            "partitions:\n- PartitionName: a\n  Nodes:\n  - n3\n  MaxTime: 5\n",
            "partitions:\n- PartitionName: a\n  Nodes: []\n  MaxTime: 5\n",
        ),
    ],
)
def test_without_nodes_when_other_sections_name_the_node_then_it_goes_out_of_them(before: str, after: str) -> None:
    assert node_removal.without_nodes(HEAD + before, ["n3"]) == HEAD.replace("1-3", "1-2") + after


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        (["cn17"], "cn17: not a compute node"),
        (["mn01"], "mn01: not a compute node"),
        ([], "No host"),
        ([f"cn{number:02d}" for number in range(1, 17)], "at least one"),
    ],
)
def test_without_nodes_when_they_cannot_go_then_it_says_why(hosts: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        node_removal.without_nodes(STYLES["block"], hosts)


def test_without_nodes_when_an_anchor_holds_the_list_then_it_refuses_and_says_what_to_do() -> None:
    head = "cluster: x\ncontrollers: [mn]\nnodes:\n- hosts: &all n[1-3]\n"
    text = f"{head}partitions:\n- {{PartitionName: a, Nodes: *all}}\n"
    with pytest.raises(InputError, match="by hand"):
        node_removal.without_nodes(text, ["n3"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "addresses:\n  n[1-3]: 10.0.0.[1-3]  # rack\n",
            "addresses:\n  n[1-2]: 10.0.0.[1-2]  # rack\n  n3: 10.9.9.9\n",
        ),
        ("addresses: {n3: 10.0.0.3}\n", "addresses: {n3: 10.9.9.9}\n"),
        ("", "addresses:\n  n3: 10.9.9.9\n"),
        (
            "ssh: {user: me, endpoints: {n3: h}}\naddresses: {n3: 10.0.0.3}\n",
            "ssh: {user: me, endpoints: {}}\naddresses: {n3: 10.9.9.9}\n",
        ),
    ],
)
def test_with_address_when_a_host_has_moved_then_only_its_own_entries_differ(before: str, after: str) -> None:
    text = f"cluster: x\n{before}controllers: [mn]\nnodes: [{{hosts: 'n[1-3]'}}]\n"
    expected = text.replace(before or "cluster: x\n", after if before else f"cluster: x\n{after}", 1)
    assert node_removal.with_address(text, "n3", "10.9.9.9") == expected


def test_with_address_when_the_address_is_taken_then_it_says_by_whom() -> None:
    with pytest.raises(ClusterFileError, match="is already the address of cn01"):
        node_removal.with_address(STYLES["block"], "cn16", "10.0.1.1")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Nodes: a1", "Nodes: 'a[1-2]'"),
        ("Nodes: [a1]", "Nodes: [a1, a2]"),
        ("Nodes: []", "Nodes: [a2]"),
        ("Nodes: ALL", "Nodes: ALL"),
    ],
)
def test_with_nodes_when_a_partition_is_named_then_it_has_them_as_well(before: str, after: str) -> None:
    text = "cluster: x\ncontrollers: [mn]\nnodes:\n- hosts: a1\npartitions:\n- {{PartitionName: p, {}}}\n"
    new_text = writing.with_nodes(text.format(before), ["a2"], {}, partitions=["p"])
    assert new_text.replace('"', "'") == text.format(after).replace("hosts: a1", "hosts: a[1-2]")


def test_with_nodes_when_like_a_node_then_they_join_the_partitions_that_list_it() -> None:
    text = """\
cluster: x
controllers: [mn]
nodes:
- hosts: a[1-2]
partitions:
- {PartitionName: p, Nodes: a1}
- {PartitionName: q, Nodes: a2}
"""
    new = loading.parse(writing.with_nodes(text, ["b1"], {}, like="a1"), "x")
    assert [partition.nodes for partition in new.partitions] == [("a1", "b1"), ("a2",)]


def test_with_nodes_when_a_partition_is_unknown_then_it_names_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"nope: not a partition .*known: batch"):
        writing.with_nodes(STYLES["block"], ["cn17"], {}, partitions=["nope"])


WHOLE = """\
cluster: lab
ssh: {endpoints: {n2: "admin@10.0.0.3:2222"}}
addresses: {c1: 10.0.0.1, n1: 10.0.0.2, n2: 10.0.0.3, n3: 10.0.0.4}
controllers: [c1]
nodes: [{hosts: "n[1-3]", Weight: 5}]
partitions: [{PartitionName: main, Nodes: "n[1-3]"}]
slurm_conf: {SlurmdTimeout: 400}
"""
RIGHT = WHOLE.replace("n[1-3]", "n[1-2]").replace(", n3: 10.0.0.4", "")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("n1: 10.0.0.2", "n1: 10.0.0.9"),
        ("n2: 10.0.0.3}", "n2: 10.0.0.3, n3: 10.0.0.4}"),
        ("10.0.0.3:2222", "10.0.0.3:2223"),
        ("Weight: 5", "Weight: 6"),
        ('Nodes: "n[1-2]"', "Nodes: n1"),
        ("SlurmdTimeout: 400", "SlurmdTimeout: 401"),
        ("cluster: lab", "cluster: lap"),
        ('{hosts: "n[1-2]", Weight: 5}', "{hosts: n1, Weight: 5}"),
    ],
)
def test_without_nodes_when_an_edit_changed_anything_else_then_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    edited = RIGHT.replace(right, wrong)
    monkeypatch.setattr(node_removal, "_cut_until_done", lambda *_: edited)
    if not wrong:
        assert node_removal.without_nodes(WHOLE, ("n3",)) == RIGHT
        return
    assert edited != RIGHT
    with pytest.raises(InputError, match="nothing was changed"):
        node_removal.without_nodes(WHOLE, ("n3",))


def test_without_nodes_when_there_are_switches_then_they_are_at_none() -> None:
    text = (
        "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-3]'}]\ntopology:\n"
        "  - {SwitchName: s1, Nodes: 'n[1-2]'}  # rack 1\n  - SwitchName: s2\n    Nodes: n3\n"
    )
    new_text = node_removal.without_nodes(text, ["n2", "n3"])
    assert [switch.nodes for switch in loading.parse(new_text, "x").topology] == [("n1",), ()]
    assert "# rack 1" in new_text


def test_without_nodes_when_another_key_names_the_node_then_that_entry_is_named_with_its_line() -> None:
    text = 'cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-2]"}]\nfiles:\n  /etc/motd: {text: a, hosts: n2}\n'
    with pytest.raises(InputError, match=r"(?s)by hand first; nothing was changed.*file:5: .*hosts: \"n2\" is no host"):
        node_removal.without_nodes(text, ("n2",))
