"""Nodes that are not there yet: in the cluster file, in slurm.conf alone, and what comes of a change of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.nodes import membership
from slurmfab.core.impact.restart_requirements import Requirement, need
from slurmfab.core.impact.slurm_diff import differences
from slurmfab.core.plan.plan_input import PlanInput

FUTURE = """\
future_nodes:
  - {hosts: "n[3-9]", CPUs: 64, RealMemory: 256000, Feature: new}
  - {hosts: "g[1-2]", CPUs: 32, Gres: "gpu:h100:8,fast:2", AutoDetect: nvml}
partitions:
  - {PartitionName: main, Nodes: ALL, Default: YES}
  - {PartitionName: gpu, Nodes: "n1,g[1-2]", MinNodes: 3}
topology:
  - {SwitchName: s1, Nodes: "n[1-9]"}
  - {SwitchName: s2, Nodes: "g[1-2]"}
  - {SwitchName: top, Switches: "s[1-2]"}
"""


def grown(more: str = FUTURE) -> Cluster:
    return cluster(THREE_HOSTS + more)


def planned(more: str = FUTURE) -> PlanInput:
    return plan_input(grown(more), facts_of(grown(more), prepared))


def lines(of: PlanInput, key: str) -> list[str]:
    return [line for line in of.whole_files["slurm.conf"].splitlines() if line.startswith(f"{key}=")]


def test_nodes_that_are_not_there_yet_are_no_hosts_and_no_compute_nodes() -> None:
    found = grown()
    assert found.compute_nodes == ("n1", "n2")
    assert found.hosts == ("c1", "n1", "n2")
    assert found.nodes_in(found.partitions[1]) == ("n1",)


def test_slurm_conf_has_them_with_the_keys_of_the_file_and_in_partitions_and_at_switches() -> None:
    there = planned()
    assert lines(there, "NodeName")[1:] == [
        "NodeName=n[3-9] CPUs=64 RealMemory=256000 Feature=new State=FUTURE",
        "NodeName=g[1-2] CPUs=32 Gres=gpu:h100:8,fast:2 State=FUTURE",
    ]
    assert lines(there, "PartitionName")[1] == "PartitionName=gpu Nodes=g[1-2],n1 MinNodes=3"
    assert lines(there, "GresTypes") == ["GresTypes=fast,gpu"]
    assert "gres.conf" not in there.whole_files
    (topology,) = there.site_files
    assert "SwitchName=s1 Nodes=n[1-9]\nSwitchName=s2 Nodes=g[1-2]\n" in topology.text


def test_gres_of_nodes_that_are_not_there_yet_are_accounted_for() -> None:
    tracked = lines(planned(f"{FUTURE}database: c1\n"), "AccountingStorageTRES")
    assert tracked == ["AccountingStorageTRES=gres/fast,gres/gpu,gres/gpu:h100"]


def test_an_address_of_the_file_is_that_of_the_node() -> None:
    text = f"{THREE_HOSTS}{FUTURE}".replace("addresses: {", 'addresses: {"n[3-9]": "10.9.0.[3-9]", ')
    there = prepared_input(text)
    assert lines(there, "NodeName")[1].startswith("NodeName=n[3-9] NodeAddr=10.9.0.[3-9] CPUs=64 ")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("future_nodes: [{hosts: n2}]\n",
         'future_nodes[0].hosts: "n2" is a host of the cluster (compute); once it is there, take it out here'),
        ("future_nodes: [{hosts: c1}]\n", '"c1" is a host of the cluster (controller)'),
        ("future_nodes: [{hosts: n3}, {hosts: n3}]\n", '"n3" is already in future_nodes[0]'),
        ("future_nodes: [{hosts: default}]\n", '"default" is a reserved name in slurm.conf'),
        ("future_nodes: [{hosts: n3, State: CLOUD}]\n", "slurmfab writes State itself"),
        ("future_nodes: [{hosts: n3, cpus: 3}]\n", "unknown key"),
        ("future_nodes: [{hosts: n3}]\npartitions: [{PartitionName: p, Nodes: n4}]\n",
         '"n4" is not a compute node (known: n[1-3])'),
        ("future_nodes: [{hosts: n3}]\ntopology: [{SwitchName: s, Nodes: 'n[1-2]'}]\n", "n3 is connected to no switch"),
        ("future_nodes: [{hosts: n3}]\npartitions: [{PartitionName: p, Nodes: ALL, MinNodes: 4}]\n",
         "more than the 3 nodes of the partition"),
    ],
)  # fmt: skip
def test_a_mistake_in_nodes_that_are_not_there_yet_is_told(more: str, complaint: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        grown(more)
    assert complaint in str(refused.value)


LINE = "NodeName=n[3-4] CPUs=64 State=FUTURE\n"
BASE = "ClusterName=lab\nNodeName=n[1-2] CPUs=4 State=UNKNOWN\nPartitionName=main Nodes=ALL\n"


@pytest.mark.parametrize(
    ("before", "after", "shown", "need_22", "need_24"),
    [
        ("", LINE, ["nodes n[3-4]: State: (none) -> FUTURE CPUs=64"], "restart of slurmctld and slurmd", "reconfigure"),
        (LINE, "", ["nodes n[3-4]: State: FUTURE CPUs=64 -> (none)"], "restart of slurmctld and slurmd", "reconfigure"),
        (LINE, LINE.replace("64", "32"), ["nodes n[3-4]: State: FUTURE CPUs=64 -> FUTURE CPUs=32"],
         "restart of slurmctld and slurmd", "reconfigure"),
        (LINE, LINE.replace("FUTURE", "UNKNOWN"), ["nodes n[3-4]: added"],
         "restart of slurmctld and slurmd", "reconfigure"),
        (LINE, LINE.replace("State=FUTURE", "state=future"), ["comments or order: changed"],
         "nothing", "nothing"),
    ],
)  # fmt: skip
def test_a_change_of_such_nodes_is_told_and_needs_no_drained_node(
    before: str, after: str, shown: list[str], need_22: str, need_24: str
) -> None:
    found = differences({"slurm.conf": BASE + before}, {"slurm.conf": BASE + after})
    assert [str(one) for one in found] == shown
    for version, wanted in ((SlurmVersion(22, 5), need_22), (SlurmVersion(24, 11), need_24)):
        assert max((need(one, version) for one in found), key=[*Requirement].index).value == wanted


def test_a_node_that_goes_back_to_not_there_yet_has_to_be_drained_as_one_that_is_removed() -> None:
    there = LINE.replace("FUTURE", "UNKNOWN")
    gone, _ = differences({"slurm.conf": BASE + there}, {"slurm.conf": BASE + LINE})
    assert (str(gone), need(gone, SlurmVersion(24, 11))) == ("nodes n[3-4]: removed", Requirement.DRAINED)


def test_slurms_nodes_are_those_that_are_there() -> None:
    conf = parse(BASE + LINE)
    assert ([*conf.nodes], [*conf.future]) == (["n1", "n2"], ["n3", "n4"])


def test_slurmctld_of_22_05_stops_for_a_change_of_such_nodes_as_for_others() -> None:
    before = planned().whole_files["slurm.conf"]
    facts = facts_of(grown(), prepared, slurm_conf=before)
    assert not plan_input(grown(), facts).changes_nodes
    fewer = grown(FUTURE.replace("n[3-9]", "n[3-8]").replace("n[1-9]", "n[1-8]"))
    assert prepared_input(fewer, slurm_conf=before).changes_nodes


def test_add_node_says_how_a_node_that_is_not_there_yet_comes() -> None:
    known = Inventory(grown(), Lock(), Path("cluster.yaml"))
    with pytest.raises(
        InputError, match=r"n3: in future_nodes of cluster.yaml.*Move them to nodes there, then run .*deploy"
    ):
        membership.refuse_known(known, "n3")
