"""Another machine in a node's place: what may differ, and what nobody may overlook."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support import SMALL, THREE_HOSTS, cluster, facts_of, host_facts, prepared

from slurmfab.errors import IdConflict, InputError, SlurmfabError
from slurmfab.facts import Gpu, Hardware
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.nodes import replacement
from slurmfab.nodes.replacement import Met, Swap, host_lock, refuse_unsuited
from slurmfab.situation import pin

NEW_KEY = ("ssh-ed25519", "another+key")


def known() -> Inventory:
    return Inventory(cluster(), pin(cluster(), Lock(), facts_of(cluster(), prepared)), Path("cluster.yaml"))


def met(key: tuple[str, str] = NEW_KEY, **facts: object) -> Met:
    return Met(host_facts("n2", **{"ssh_host_keys": dict([key]), **facts}), key)


def sized(**differing: int) -> Hardware:
    return dataclasses.replace(SMALL, **differing)


def test_the_same_hardware_keeps_what_the_lock_holds_and_the_node_goes_on_trial_with_its_new_key() -> None:
    old = known().lock.hosts["n2"]
    new = host_lock(known(), "n2", met(hardware=sized(RealMemory=15950)), Swap())
    assert new.hardware == old.hardware
    assert new.host_keys == dict([NEW_KEY])
    assert (new.public_key, new.on_trial) == ("", True)


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"hardware": sized(CPUs=8, CoresPerSocket=4)}, "CPUs: 4 -> 8"),
        ({"hardware": sized(RealMemory=8000)}, "RealMemory: 16000 -> 8000"),
        ({"hardware": sized(RealMemory=32000)}, "RealMemory: 16000 -> 32000"),
        ({"gpus": (Gpu("/dev/nvidia0", "a100"),)}, "GPUs: none -> /dev/nvidia0 a100"),
    ],
)
def test_other_hardware_is_shown_and_refused_until_it_is_accepted(facts: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=rf"(?s)n2: it is other hardware.*{line}.*--accept-hardware"):
        host_lock(known(), "n2", met(**facts), Swap())
    accepted = host_lock(known(), "n2", met(**facts), Swap(accept_hardware=True))
    assert (accepted.hardware, accepted.gpus) == (facts.get("hardware", SMALL), facts.get("gpus", ()))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (met(services={"slurmd": "active"}), "slurmd runs there"),
        (met(("ssh-ed25519", "host+key+of+n1")), "the SSH host key of n1"),
        (met(codename="bookworm"), ""),
        (met(os_id="fedora"), "it runs fedora"),
    ],
)
def test_a_machine_that_cannot_be_the_node_is_refused_with_the_reason(machine: Met, words: str) -> None:
    if not words:
        refuse_unsuited(known(), "n2", machine)
        return
    with pytest.raises(SlurmfabError, match=f"n2: .*{words}.*Nothing was changed"):
        refuse_unsuited(known(), "n2", machine)


def test_a_machine_on_which_somebody_has_a_persons_number_is_refused_before_any_change() -> None:
    with_ann = cluster(THREE_HOSTS + "users: [{name: ann}]\n")
    before = Inventory(with_ann, pin(with_ann, Lock(), facts_of(with_ann, prepared)), Path("cluster.yaml"))
    with pytest.raises(IdConflict, match="n2: UID 2000, wanted for ann, belongs to bob there"):
        refuse_unsuited(before, "n2", met(uids={2000: "bob"}))


def test_the_machine_that_is_there_already_may_run_its_slurmd() -> None:
    refuse_unsuited(known(), "n2", met(("ssh-ed25519", "host+key+of+n2"), services={"slurmd": "active"}))


@pytest.mark.parametrize(("host", "words"), [("c1", "it is controller here"), ("n9", r"not in .*known: n\[1-2\]")])
def test_only_what_is_a_compute_node_alone_can_be_replaced(host: str, words: str) -> None:
    with pytest.raises(InputError, match=f"{host}: {words}"):
        replacement.refuse_other_roles(known(), host)
    replacement.refuse_other_roles(known(), "n1")


def test_a_new_address_is_an_ip_address() -> None:
    assert replacement.checked("10.0.0.33") == "10.0.0.33"
    with pytest.raises(InputError, match="--address n33: this is no IP address"):
        replacement.checked("n33")


def test_a_machine_that_was_met_does_not_show_the_password() -> None:
    assert "hush" not in repr(Met(host_facts("n2"), NEW_KEY, "hush"))
