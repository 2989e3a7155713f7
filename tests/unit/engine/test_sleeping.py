"""Silent nodes that Slurm has powered down: named as asleep, woken when that is wanted, and else left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support import FakeHosts, cluster, facts_of, lost_words, prepared, run_over

from slurmfab.base.errors import Asleep, Unreachable
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.core.engine import requests, sleeping
from slurmfab.core.engine.requests import gather
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import Line

HOSTS = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
"""
POWER = "power: {nodes: n1, how: {command: {suspend: /opt/off, resume: /opt/on}}}\n"
CONF = "ClusterName=lab\nSuspendProgram=/usr/local/lib/slurmfab/suspend\n"
PING = "Slurmctld(primary) at c1 is UP\n"


class Sleepers(FakeHosts):
    """Hosts of which some are silent, and a slurmctld that has a state of each node; waking gives a node its facts.

    A node that has woken up refuses as many connections as `refusals` says.
    """

    refusals = 0

    def __init__(self, known: Cluster, states: Mapping[str, str], conf: str = CONF) -> None:
        everybody = facts_of(known, prepared)
        everybody["c1"] = dataclasses.replace(everybody["c1"], slurm_conf=conf)
        super().__init__({name: fact for name, fact in everybody.items() if name not in states})
        self.everybody: dict[str, HostFacts] = everybody
        self.states = states
        self.wrong = {"c1": {f"nodes-awake:{name}" for name in states}}
        self.when_changed = lambda _host, name: self.facts.update({name[12:]: self.everybody[name[12:]]})

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] == "slurm":
            shown = "".join(f"NodeName={name} State={state}\n" for name, state in self.states.items())
            return ({"slurm": {"ping": PING, "nodes": shown}},)
        if host in self.states and host in self.facts and self.refusals > 0:
            self.refusals -= 1
            raise Unreachable(host, "nothing listens at port 22.")
        return super().call(host, request, heard)


def asked(hosts: FakeHosts, known: Cluster, **options: Any) -> tuple[Run, set[str]]:
    run = run_over(hosts, known, **options)
    return run, set(gather(run, known.hosts))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("IDLE+POWERED_DOWN", "it is asleep: Slurm has switched it off while it is idle"),
        ("IDLE+DRAIN+POWERED_DOWN", "it is asleep"),
        ("IDLE+POWERING_DOWN", "Slurm is switching it off"),
        ("MIXED+POWERING_UP", "Slurm is switching it on"),
    ],
)
def test_a_silent_node_when_slurm_has_switched_it_off_then_it_is_asleep(state: str, words: str) -> None:
    known = cluster(HOSTS + POWER)
    run, there = asked(Sleepers(known, {"n1": state}), known)
    assert there == {"c1", "n2"}
    assert isinstance(run.failed_hosts["n1"], Asleep)
    assert words in lost_words(run.failed_hosts)["n1"]
    assert run.report().exit_code == 3


@pytest.mark.parametrize(
    ("state", "conf"),
    [("IDLE", CONF), ("DOWN+POWERED_DOWN", CONF), ("IDLE+POWERED_DOWN", "ClusterName=lab\n")],
)
def test_a_silent_node_when_it_ought_to_be_on_then_it_is_unreachable(state: str, conf: str) -> None:
    known = cluster(HOSTS + POWER)
    run, _ = asked(Sleepers(known, {"n1": state}, conf), known)
    assert type(run.failed_hosts["n1"]) is Unreachable


def test_sleeping_nodes_when_the_run_wakes_them_then_they_take_part() -> None:
    known = cluster(HOSTS + POWER)
    hosts = Sleepers(known, {"n1": "IDLE+POWERED_DOWN"})
    run, there = asked(hosts, known, wakes=True)
    assert (there, dict(run.failed_hosts)) == ({"c1", "n1", "n2"}, {})
    assert [step.phase for step in run.steps] == ["wake"]


def test_a_woken_node_when_its_sshd_is_later_than_slurmd_then_it_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "POLL_SECONDS", 0.0)
    known = cluster(HOSTS + POWER)
    hosts = Sleepers(known, {"n1": "IDLE+POWERED_DOWN"})
    hosts.refusals = 3
    run, there = asked(hosts, known, wakes=True)
    assert (there, dict(run.failed_hosts), hosts.refusals) == ({"c1", "n1", "n2"}, {}, 0)


def test_a_woken_node_when_its_sshd_never_listens_then_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "LATE_SSHD", 0.01)
    monkeypatch.setattr(requests, "POLL_SECONDS", 0.0)
    known = cluster(HOSTS + POWER)
    hosts = Sleepers(known, {"n1": "IDLE+POWERED_DOWN"})
    hosts.refusals = 1_000_000
    run, there = asked(hosts, known, wakes=True)
    assert (there, type(run.failed_hosts["n1"])) == ({"c1", "n2"}, Unreachable)


def test_a_node_when_it_may_no_longer_sleep_then_it_is_woken() -> None:
    known = cluster(HOSTS)
    hosts = Sleepers(known, {"n2": "IDLE+POWERED_DOWN"})
    assert asked(hosts, known)[1] == {"c1", "n1", "n2"}


def test_a_node_when_it_may_no_longer_sleep_then_a_plan_wakes_nothing() -> None:
    known = cluster(HOSTS)
    hosts = Sleepers(known, {"n2": "IDLE+POWERED_DOWN"})
    run = run_over(hosts, known, command="plan")
    assert set(gather(run, known.hosts, may_prepare=False)) == {"c1", "n1"}
    assert "fab deploy" in lost_words(run.failed_hosts)["n2"]


def test_a_node_when_the_sites_own_program_lets_it_sleep_then_it_sleeps_on() -> None:
    known = cluster(HOSTS + "slurm_conf: {SuspendProgram: /opt/off, ResumeProgram: /opt/on, SuspendTime: 600}\n")
    run, there = asked(Sleepers(known, {"n2": "IDLE+POWERED_DOWN"}), known)
    assert there == {"c1", "n1"}
    assert isinstance(run.failed_hosts["n2"], Asleep)


def test_a_node_when_it_does_not_wake_up_then_it_stays_asleep_and_the_step_has_failed() -> None:
    known = cluster(HOSTS + POWER)
    hosts = Sleepers(known, {"n1": "IDLE+POWERED_DOWN"})
    hosts.failing = {"c1": {"nodes-awake:n1"}}
    run, there = asked(hosts, known, wakes=True)
    assert there == {"c1", "n2"}
    assert isinstance(run.failed_hosts["n1"], Unreachable)
    assert run.report().exit_code == 1


@pytest.mark.parametrize(
    ("more", "host", "may"),
    [
        (POWER, "n1", True),
        (POWER, "n2", False),
        ("", "n1", False),
        (POWER.replace("nodes: n1", "nodes: [n1, n2], keep: n2"), "n2", False),
        (POWER.replace("nodes: n1", "nodes: [n1, n2], keep: n2"), "n1", True),
        ("slurm_conf: {SuspendProgram: /opt/off}\n", "n2", True),
        ("slurm_conf: {SuspendProgram: null}\n", "n2", False),
    ],
)
def test_nodes_that_may_sleep_are_those_of_the_cluster_file_or_all_with_a_program_of_the_site(
    more: str, host: str, may: bool
) -> None:
    assert sleeping.may_sleep(cluster(HOSTS + more), host) is may
