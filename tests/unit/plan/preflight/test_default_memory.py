"""DefMemPerCPU is one line for all jobs: a new node's numbers do not make it small unless somebody allows that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import SMALL, THREE_HOSTS, cluster, facts_of, host_facts, prepared

from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.facts import Hardware
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.preflight.default_memory import hosts_lowering_memory
from slurmfab.core.plan.preflight.new_nodes import refuse_unsuited

MANY = replace(SMALL, CPUs=65533, CoresPerSocket=65533)  # of 16000 MiB
LITTLE, HALF, MUCH = (replace(SMALL, RealMemory=memory) for memory in (2000, 8000, 1 << 40))
SLURMD = {"slurmd": "24.11.5"}
MEMBERS = cluster()
KNOWN = pin(MEMBERS, Lock(), facts_of(MEMBERS, prepared))


def left_out(lock: Lock, text: str = THREE_HOSTS, allowed: tuple[str, ...] = (), **seen: Hardware) -> list[str]:
    facts = {host: prepared(host, hardware=hardware) for host, hardware in seen.items()}
    found = hosts_lowering_memory(cluster(text), lock, facts, allowed)
    assert all("--allow low-memory" in reason for reason in found.values())
    return list(found)


@pytest.mark.parametrize(
    ("c1", "n1", "n2", "expected"),
    [
        (SMALL, SMALL, SMALL, []),
        (SMALL, SMALL, MANY, ["n2"]),
        (SMALL, SMALL, LITTLE, ["n2"]),
        (SMALL, SMALL, HALF, []),
        (LITTLE, SMALL, SMALL, []),
        (MUCH, SMALL, HALF, []),
        (SMALL, SMALL, MUCH, []),
    ],
    ids=["alike", "many CPUs", "little memory", "half", "small controller", "large controller", "much"],
)
def test_at_a_first_deployment_the_middle_of_nodes_and_controller_decides_who_has_too_little(
    c1: Hardware, n1: Hardware, n2: Hardware, expected: list[str]
) -> None:
    assert left_out(Lock(), c1=c1, n1=n1, n2=n2) == expected
    assert left_out(Lock(), allowed=("low-memory",), c1=c1, n1=n1, n2=n2) == []
    assert left_out(Lock(), THREE_HOSTS + "slurm_conf: {DefMemPerCPU: 1000}\n", c1=c1, n1=n1, n2=n2) == []


def test_a_new_node_is_compared_with_the_nodes_in_the_lock_which_stay_whatever_they_have() -> None:
    grown = THREE_HOSTS.replace("n[1-2]", "n[1-3]").replace("[2-3]", "[2-4]")
    assert left_out(KNOWN, grown, n1=SMALL, n3=MANY) == ["n3"]
    assert left_out(KNOWN, grown, n1=SMALL, n3=HALF) == []
    poor = pin(MEMBERS, Lock(), facts_of(MEMBERS, lambda host: prepared(host, hardware=LITTLE)))
    assert left_out(poor, grown, n1=LITTLE, n3=LITTLE) == []
    known = Inventory(MEMBERS, KNOWN, Path("cluster.yaml"))
    fact = host_facts("n3", hardware=MANY)
    with pytest.raises(SlurmfabError, match=r"n3: .*1 MiB of memory for each CPU, and other nodes have 3\d\d\d"):
        refuse_unsuited(known, cluster(grown), {"n3": fact})
    refuse_unsuited(known, cluster(grown), {"n3": fact}, {"low-memory"})


def test_a_node_that_is_more_than_the_settings_of_its_own_line_is_judged_by_these() -> None:
    text = THREE_HOSTS.replace('{hosts: "n[1-2]"}', "{hosts: n1}, {hosts: n2, CPUs: 4, RealMemory: 15000}")
    assert left_out(Lock(), text, c1=SMALL, n1=SMALL, n2=MANY) == []


@pytest.mark.parametrize("kernel", [SMALL, None], ids=["the kernel has fewer", "no word of the kernel"])
def test_more_processors_than_the_kernel_has_when_slurmd_counts_them_then_the_lock_does_not_follow(
    kernel: Hardware | None,
) -> None:
    facts = {"n2": prepared("n2", hardware=MANY, kernel=kernel, slurm_versions=SLURMD)}
    assert pin(MEMBERS, KNOWN, {**facts_of(MEMBERS, prepared), **facts}).hosts["n2"] == KNOWN.hosts["n2"]


def test_fewer_processors_than_the_kernel_has_when_slurmd_counts_them_then_the_lock_follows() -> None:
    fewer = replace(SMALL, CPUs=2, ThreadsPerCore=1)
    facts = {"n2": prepared("n2", hardware=fewer, kernel=SMALL, slurm_versions=SLURMD)}
    assert pin(MEMBERS, KNOWN, {**facts_of(MEMBERS, prepared), **facts}).hosts["n2"].hardware == fewer
