"""Replacing a node's machine: what may differ, and what the user has to accept."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import pytest
from support import SMALL, THREE_HOSTS, FakeHosts, cluster, facts_of, host_facts, prepared, run_over
from terminals import at_a_terminal, words_on

from slurmfab.base.errors import IdConflict, InputError, SlurmfabError
from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.nodes import replace
from slurmfab.commands.nodes.replace import NewMachine, ReplaceNodeOptions, host_lock, refuse_unsuited
from slurmfab.core.plan.pinned import pin
from slurmfab.hosts.host_keys import HostKey

NEW_KEY = HostKey("ssh-ed25519", "another+key")


def known() -> Inventory:
    return Inventory(cluster(), pin(cluster(), Lock(), facts_of(cluster(), prepared)), Path("cluster.yaml"))


def met(key: HostKey = NEW_KEY, **facts: object) -> NewMachine:
    return NewMachine(host_facts("n2", **{"ssh_host_keys": dict([key]), **facts}), key)


def sized(**differing: int) -> Hardware:
    return dataclasses.replace(SMALL, **differing)


def test_with_equal_hardware_the_lock_keeps_it_and_the_node_is_on_trial_with_its_new_key() -> None:
    old = known().lock.hosts["n2"]
    new = host_lock(known(), "n2", met(hardware=sized(RealMemory=15950)), ReplaceNodeOptions())
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
    with pytest.raises(InputError, match=rf"(?s)n2: its hardware differs from the lock.*{line}.*--accept-hardware"):
        host_lock(known(), "n2", met(**facts), ReplaceNodeOptions())
    accepted = host_lock(known(), "n2", met(**facts), ReplaceNodeOptions(accept_hardware=True))
    assert (accepted.hardware, accepted.gpus) == (facts.get("hardware", SMALL), facts.get("gpus", ()))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (met(services={"slurmd": "active"}), "slurmd runs there"),
        (met(HostKey("ssh-ed25519", "host+key+of+n1")), "the SSH host key of n1"),
        (met(codename="bookworm"), ""),
        (met(os_id="fedora"), "it runs fedora"),
    ],
)
def test_a_machine_that_cannot_be_the_node_is_refused_with_the_reason(machine: NewMachine, words: str) -> None:
    if not words:
        refuse_unsuited(known(), "n2", machine)
        return
    with pytest.raises(SlurmfabError, match=f"n2: .*{words}.*Nothing was changed"):
        refuse_unsuited(known(), "n2", machine)


def test_a_machine_where_a_users_uid_belongs_to_another_is_refused_before_any_change() -> None:
    with_ann = cluster(THREE_HOSTS + "users: [{name: ann}]\n")
    before = Inventory(with_ann, pin(with_ann, Lock(), facts_of(with_ann, prepared)), Path("cluster.yaml"))
    with pytest.raises(IdConflict, match="n2: UID 2000, wanted for ann, belongs to bob there"):
        refuse_unsuited(before, "n2", met(uids={2000: "bob"}))


def test_the_present_machine_may_run_its_slurmd() -> None:
    refuse_unsuited(known(), "n2", met(HostKey("ssh-ed25519", "host+key+of+n2"), services={"slurmd": "active"}))


@pytest.mark.parametrize(("host", "words"), [("c1", "its roles are controller;"), ("n9", r"not in .*known: n\[1-2\]")])
def test_only_hosts_whose_one_role_is_compute_can_be_replaced(host: str, words: str) -> None:
    with pytest.raises(InputError, match=f"{host}: {words}"):
        replace.refuse_other_roles(known(), host)
    replace.refuse_other_roles(known(), "n1")


def test_a_new_address_must_be_an_ip_address() -> None:
    assert replace.checked_address("10.0.0.33") == "10.0.0.33"
    with pytest.raises(InputError, match="--address n33: this is not an IP address"):
        replace.checked_address("n33")


def test_a_printed_new_machine_omits_the_password() -> None:
    assert "hush" not in repr(NewMachine(host_facts("n2"), NEW_KEY, "hush"))


@pytest.mark.parametrize(("typed", "goes_on"), [("y\n", True), ("\n", False)])
def test_a_replacement_when_somebody_can_answer_then_is_asked_about_before_the_node_is_drained(
    monkeypatch: pytest.MonkeyPatch, typed: str, goes_on: bool
) -> None:
    done: list[str] = []
    monkeypatch.setattr(replace, "refuse_jobs", lambda *_: None)
    monkeypatch.setattr(replace.older_copy, "refuse_early", lambda *_: None)
    monkeypatch.setattr(replace, "change", lambda _run, phase, *_: done.append(phase))
    monkeypatch.setattr(replace.add, "prepare_and_write", lambda *_: done.append("prepared"))
    monkeypatch.setattr(replace.commands, "deploy_and_accept", lambda *_: done.append("deployed"))
    shown = at_a_terminal(monkeypatch, typed)
    run = run_over(FakeHosts({}), cluster(), asks=True)
    with contextlib.nullcontext() if goes_on else pytest.raises(SlurmfabError, match="Nothing was changed"):
        replace.carry_out(run, "n2", THREE_HOSTS)
    assert done == ["slurmctld", *(["drain", "prepared", "deployed"] if goes_on else [])]
    assert "The machine that answers at 10.0.0.3 becomes n2" in words_on(shown)
    assert "Replace n2? [y/N]" in words_on(shown)
