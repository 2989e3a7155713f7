"""What speaks against a host as a node of a cluster at work."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support import SMALL, THREE_HOSTS, cluster, facts_of, host_facts, prepared

from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.facts import Cgroup, Gpu, HostFacts, SlurmUse
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.preflight.new_nodes import refuse_unsuited, unsuited

GROWN = THREE_HOSTS.replace("n[1-2]", "n[1-3]").replace("[2-3]", "[2-4]")


def known() -> Inventory:
    members = cluster()
    return Inventory(members, pin(members, Lock(), facts_of(members, prepared)), Path("cluster.yaml"))


def settings(text: str) -> str:
    return GROWN.replace('{hosts: "n[1-3]"}', f'{{hosts: "n[1-2]"}}, {{hosts: n3, {text}}}')


@pytest.mark.parametrize(
    ("grown", "fact", "words"),
    [
        (GROWN, host_facts("n3", ssh_host_keys={"ssh-ed25519": "host+key+of+n1"}), "the SSH host key of n1"),
        (GROWN, host_facts("n3", hostname="n2"), "it calls itself n2, as n2 does"),
        (
            f"{GROWN}ssh: {{gateway: nas}}\n",
            host_facts("n3", hostname="nas"),
            "the cluster file names as another machine",
        ),
        (GROWN, host_facts("n3", services={"slurmd": "active"}), "slurmd runs there"),
        (
            GROWN,
            host_facts("n3", services={"slurmd": "activating"}, slurm_use=SlurmUse(daemons=("slurmd",))),
            "slurmd runs there",
        ),
        (GROWN, host_facts("n3", cgroup=Cgroup("v2", ("memory",))), "(version 2 with memory alone) can do less"),
        (settings("RealMemory: 64000"), host_facts("n3"), "gives it RealMemory=64000, and it has 16000"),
        (settings("CPUs: 8"), host_facts("n3"), "gives it CPUs=8, and it has 4"),
        (settings("Gres: 'gpu:a100:2'"), host_facts("n3", gpus=(Gpu("/dev/nvidia0"),)), "2 GPUs, and the host shows 1"),
        (settings("Gres: 'gpu:2'"), host_facts("n3"), "2 GPUs, and the host shows 0"),
    ],
)
def test_a_host_that_would_do_harm_when_it_wants_to_join_then_it_is_told_why(
    grown: str, fact: HostFacts, words: str
) -> None:
    assert words in unsuited(known(), cluster(grown), "n3", fact)
    with pytest.raises(SlurmfabError, match=r"n3: (.|\n)*Nothing was changed"):
        refuse_unsuited(known(), cluster(grown), {"n3": fact})


def test_a_host_with_all_keys_of_a_member_is_refused_and_one_with_a_key_that_a_member_claims_is_not() -> None:
    own, claimed = {"ssh-ed25519": "own", "ssh-rsa": "b"}, {"ssh-ed25519": "host+key+of+n1", "ssh-rsa": "b"}
    before = known()
    liar = dataclasses.replace(before.lock.hosts["n1"], host_keys=claimed)
    lied = dataclasses.replace(before, lock=dataclasses.replace(before.lock, hosts={**before.lock.hosts, "n1": liar}))
    assert unsuited(lied, cluster(GROWN), "n3", host_facts("n3", ssh_host_keys=own)) == ""
    copy = host_facts("n3", ssh_host_keys={**claimed, "ecdsa-sha2-nistp256": "c"})
    assert "the SSH host key of n1" in unsuited(lied, cluster(GROWN), "n3", copy)


@pytest.mark.parametrize(
    "fact",
    [
        host_facts("n3"),
        host_facts("n3", services={"slurmd": "failed"}),
        host_facts("n3", services={"slurmd": "activating"}),  # it has no slurm.conf, and listens on no port
        host_facts("n3", gpus=(Gpu("/dev/nvidia0", "a100"),)),
        host_facts("n3", hardware=dataclasses.replace(SMALL, CPUs=8, CoresPerSocket=4)),
    ],
)
def test_a_free_host_when_it_wants_to_join_then_nothing_speaks_against_it(fact: HostFacts) -> None:
    refuse_unsuited(known(), cluster(GROWN), {"n3": fact})


def test_a_host_in_its_own_place_when_it_is_looked_at_then_it_is_no_twin_of_itself() -> None:
    assert unsuited(known(), cluster(), "n2", prepared("n2")) == ""


def test_a_host_that_takes_the_limits_from_all_may_join_when_that_is_allowed_and_for_nothing_else() -> None:
    poor = host_facts("n3", cgroup=Cgroup("v2", ("devices",), troubles=("memory off",)))
    with pytest.raises(SlurmfabError, match=r"switched off at boot.*cgroup_enable=memory.*--allow lost-limits"):
        refuse_unsuited(known(), cluster(GROWN), {"n3": poor}, {"ClusterName"})
    refuse_unsuited(known(), cluster(GROWN), {"n3": poor}, {"lost-limits"})
    busy = dataclasses.replace(poor, services={"slurmd": "active"})
    assert "slurmd runs there" in unsuited(known(), cluster(GROWN), "n3", busy, {"lost-limits"})
