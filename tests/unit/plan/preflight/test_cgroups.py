"""Control groups of a cluster: which hosts are left out, what the lock holds, and what is told of them."""

from __future__ import annotations

import dataclasses

import pytest
from support import USABLE, cluster, facts_of, prepared

from slurmfab.cluster.facts import Cgroup, HostFacts, cgroup_from
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.preflight import cgroups
from slurmfab.on_hosts.agent.facts.cgroups import assess

V1 = Cgroup("v1", ("cpuset", "memory", "devices"), swap=True)
TAKEN = Cgroup("v2", ("devices",), troubles=("cpuset on v1", "memory on v1"))
OFF = Cgroup("v1", ("cpuset", "devices"), troubles=("memory off",))
NONE = Cgroup("none", troubles=("nothing mounted",))
NO_SWAP = Cgroup("v1", V1.controllers)
UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
V2411 = SlurmVersion(24, 11)


@pytest.mark.parametrize(
    ("before", "now", "held"),
    [
        (None, NONE, NONE),
        (V1, USABLE, USABLE),
        (USABLE, V1, V1),
        (NONE, USABLE, USABLE),
        (NONE, TAKEN, TAKEN),
        (V1, TAKEN, V1),
        (V1, OFF, V1),
        (V1, Cgroup("v1", V1.controllers), V1),
        (Cgroup("v1", V1.controllers), V1, V1),
    ],
)
def test_the_lock_when_a_host_is_booted_otherwise_then_takes_up_what_is_not_less(
    before: Cgroup | None, now: Cgroup, held: Cgroup
) -> None:
    assert cgroups.pinned(before, now) == held
    assert cgroups.pinned(before, now, may_lose=True) == now


def deployed(**cgroup: Cgroup) -> tuple[Cluster, Lock]:
    """A cluster that is deployed, and its lock; hosts have version 1 where nothing else is said."""
    members = cluster()
    facts = facts_of(members, lambda name: prepared(name, cgroup=cgroup.get(name, V1)))
    return members, pin(members, Lock(), facts)


def seen(**cgroup: Cgroup) -> dict[str, HostFacts]:
    return {name: prepared(name, cgroup=one) for name, one in cgroup.items()}


def test_a_host_that_has_lost_its_control_groups_is_left_out_with_what_to_change() -> None:
    members, lock = deployed()
    found = cgroups.hosts_losing_limits(members, lock, seen(c1=NONE, n1=V1, n2=TAKEN))
    assert list(found) == ["n2"]
    for words in ("cpuset and memory taken by version 1", "hierarchy=0 ", "on every node", "--allow lost-limits"):
        assert words in found["n2"]


def test_a_host_that_has_lost_its_control_groups_takes_them_from_all_when_that_is_allowed() -> None:
    members, lock = deployed()
    facts = seen(c1=V1, n1=V1, n2=TAKEN)
    assert cgroups.hosts_losing_limits(members, lock, facts, {"lost-limits"}) == {}
    assert pin(members, lock, facts).hosts["n2"].cgroup == V1
    assert pin(members, lock, facts, may_lose=True).hosts["n2"].cgroup == TAKEN


@pytest.mark.parametrize(
    "before", [deployed(n1=NONE), deployed(n1=NONE, n2=NONE), (cluster(), Lock())], ids=["mixed", "none", "never"]
)
def test_nothing_is_lost_where_there_are_no_limits_yet(before: tuple[Cluster, Lock]) -> None:
    assert cgroups.hosts_losing_limits(*before, seen(c1=V1, n1=TAKEN, n2=TAKEN)) == {}


@pytest.mark.parametrize(
    ("there", "left_out"),
    [
        ({"c1": V1, "n1": V1, "n2": NONE}, ["n2"]),
        ({"c1": NONE, "n1": V1, "n2": NONE}, []),
        ({"c1": V1, "n1": NONE, "n2": TAKEN}, []),
        ({"c1": NONE, "n1": V1, "n2": V1}, []),
        ({"c1": V1, "n1": Cgroup("none", V1.controllers, swap=True), "n2": V1}, ["n1"]),
        ({"c1": V1, "n1": V1, "n2": NO_SWAP}, ["n2"]),
        ({"c1": NO_SWAP, "n1": V1, "n2": NO_SWAP}, []),
    ],
    ids=[
        "half and the controller",
        "half against the controller",
        "all nodes",
        "the controller alone",
        "a version that is none",
        "no swap",
        "most have no swap",
    ],
)
def test_at_a_first_deployment_a_node_that_says_it_has_no_control_groups_is_left_out_unless_most_have_none(
    there: dict[str, Cgroup], left_out: list[str]
) -> None:
    found = cgroups.hosts_losing_limits(cluster(), Lock(), seen(**there))
    assert list(found) == left_out
    assert all("--allow lost-limits" in reason for reason in found.values())
    assert cgroups.hosts_losing_limits(cluster(), Lock(), seen(**there), {"lost-limits"}) == {}


def test_a_new_node_without_swap_accounting_is_left_out_and_one_that_has_lost_it_is_not() -> None:
    _, lock = deployed()
    grown = cluster('cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-3]"}]\n')
    assert list(cgroups.hosts_losing_limits(grown, lock, seen(n2=NO_SWAP, n3=NO_SWAP))) == ["n3"]


def test_where_a_hand_made_cluster_is_taken_over_most_nodes_decide_as_at_a_first_deployment() -> None:
    members, lock = deployed()
    hosts = {host: dataclasses.replace(one, cgroup=None) for host, one in lock.hosts.items()}
    taken = dataclasses.replace(lock, hosts=hosts)
    assert list(cgroups.hosts_losing_limits(members, taken, seen(c1=V1, n1=V1, n2=NONE))) == ["n2"]


def test_where_the_cluster_file_does_without_control_groups_nobody_speaks_of_them() -> None:
    _, lock = deployed(n2=NONE)
    own = cluster("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-2]'}]\nslurm_conf: {TaskPlugin: task/none}\n")
    assert list(cgroups.cgroup_notices(own, lock, {}, V2411)) == []
    assert cgroups.hosts_losing_limits(own, deployed()[1], seen(n2=NONE)) == {}


def remarks(version: SlurmVersion = V2411, **cgroup: Cgroup) -> list[str]:
    members, lock = deployed(**cgroup)
    return list(cgroups.cgroup_notices(members, lock, {}, version))


def test_a_missing_bus_is_told_of_the_host_that_lacks_it() -> None:
    found = cgroup_from(assess(UNIFIED, "cpuset memory", "", [""], True, True))
    (line,) = remarks(n1=found, n2=USABLE)
    assert line.startswith("n1: version 2, and no D-Bus system bus")


def test_a_mixed_cluster_is_told_who_differs_in_what_at_which_cost_and_what_to_change() -> None:
    (line,) = remarks(n2=TAKEN)
    assert line.startswith(
        "n2: no control groups that Slurm can use: version 2 with cpuset and memory taken by version 1."
    )
    assert "So no node holds its jobs to cores, memory and devices" in line
    assert "Change there: systemd.unified_cgroup_hierarchy=0 on the kernel's command line" in line
    assert "the other nodes have version 1" in line


def test_hosts_with_the_same_trouble_are_told_in_one_line() -> None:
    (line,) = remarks(n1=NONE, n2=NONE)
    assert line.startswith("n[1-2]: no control groups that Slurm can use: nothing is mounted")
    assert "other nodes" not in line


def test_swap_space_that_one_kernel_does_not_account_is_told_of_that_one() -> None:
    (line,) = remarks(n1=Cgroup("v1", V1.controllers))
    assert line.startswith("n1: the kernel accounts no swap space. So jobs may grow into the swap space of every node.")
    assert "swapaccount=1" in line
    assert remarks(n1=Cgroup("v1", V1.controllers), n2=Cgroup("v1", V1.controllers)) == []


def test_equal_nodes_are_no_remark_before_slurm_calls_version_1_deprecated() -> None:
    assert remarks() == []
    assert remarks(SlurmVersion(25, 5), n1=USABLE, n2=USABLE) == []
    (line,) = remarks(SlurmVersion(25, 5), n1=USABLE)
    assert line.startswith("n2: control groups of version 1, which Slurm 25.05 takes with a warning.")


def test_a_host_that_has_lost_swap_accounting_since_it_joined_is_told() -> None:
    members, lock = deployed()
    facts = seen(n2=Cgroup("v1", V1.controllers))
    (line,) = cgroups.cgroup_notices(members, pin(members, lock, facts), facts, V2411)
    assert line.startswith("n2: the kernel accounts no swap space. Change there: swapaccount=1")
