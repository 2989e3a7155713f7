"""Rolling reboots: what is refused, how many nodes reboot at a time, and when one is back or has failed."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_slurm import FakeSlurm, job_line
from support import cluster, facts_of, lost_words, prepared, run_over

from slurmfab.base.errors import HostError, InputError, Unreachable
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.nodes import reboot
from slurmfab.commands.nodes.reboot import RebootOptions
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run

FOUR = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-4]'}]\n"
NODES = ("n1", "n2", "n3", "n4")
IDLE = ("IDLE", "", "")
REQUESTED, ISSUED = ("MIXED+DRAIN+REBOOT_REQUESTED", "", ""), ("DOWN+DRAIN+REBOOT_ISSUED", "", "")
SOON = RebootOptions(minutes=0.001)


@dataclass
class Machines(FakeSlurm):
    """Nodes that go away and come back, each at its own look at Slurm.

    Args:
        dead: nodes that do not come back.
        asleep: nodes that Slurm has back although their machine was not restarted.
        away: the largest number of nodes that were away at one time.
        asked: the nodes whose reboot was asked for, in that order.
        busy: those that had jobs at the first look.
    """

    dead: tuple[str, ...] = ()
    asleep: tuple[str, ...] = ()
    away: int = 0
    asked: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        for wanted in request["resources"]:
            if wanted["kind"] == "node-reboot":
                self.asked.append(wanted["node"])
                self.nodes[wanted["node"]] = REQUESTED if self.jobs else ISSUED
        return super().outcomes(host, request)

    def pass_time(self, _: float) -> None:
        """What happens between two looks."""
        self.away = max(self.away, sum(state != IDLE for state in self.nodes.values()))
        for node, state in self.nodes.items():
            if state == REQUESTED and node not in self.busy:
                self.busy.append(node)
            elif state == REQUESTED:
                self.jobs = [line for line in self.jobs if f"|{node}|" not in line]
                self.nodes[node] = ISSUED
            elif state == ISSUED and node not in self.dead:
                self.nodes[node] = IDLE
                if node not in self.asleep:
                    self.facts[node] = dataclasses.replace(self.facts[node], boot=self.facts[node].boot + "+1")


def machines(**more: Any) -> Machines:
    wanted = cluster(FOUR)
    return Machines(facts_of(wanted, prepared, boot="1"), nodes=dict.fromkeys(NODES, IDLE), **more)


def rolled(hosts: Machines, names: tuple[str, ...] = NODES, wish: RebootOptions = SOON) -> tuple[Run, str]:
    """A finished reboot of these nodes, and its output."""
    run, told = run_over(hosts, cluster(FOUR)), io.StringIO()
    run.progress = Progress(told)
    reboot.roll(run, names, wish, hosts.pass_time)
    return run, told.getvalue()


def test_nodes_are_rebooted_one_at_a_time_in_the_users_order() -> None:
    hosts = machines()
    run, _ = rolled(hosts, ("n3", "n1", "n2"))
    assert (hosts.asked, hosts.away) == (["n3", "n1", "n2"], 1)
    assert [(step.phase, step.host) for step in run.steps] == [("reboot", "n3"), ("reboot", "n1"), ("reboot", "n2")]
    assert run.report().exit_code == 0


@pytest.mark.parametrize("at_once", [2, 3, 9])
def test_at_most_the_wanted_number_of_nodes_is_rebooted_at_once(at_once: int) -> None:
    hosts = machines()
    rolled(hosts, wish=RebootOptions(at_once=at_once))
    assert (hosts.away, hosts.asked) == (min(at_once, 4), list(NODES))


def test_waiting_for_jobs_is_printed_and_does_not_count_as_reboot_time() -> None:
    hosts = machines(jobs=[job_line(7, "n1")])
    run, told = rolled(hosts, ("n1",), RebootOptions(minutes=0.0001))
    assert "n1: waits for jobs: 7 (ann)." in told
    assert run.failed_hosts == {}


def test_no_other_node_is_rebooted_after_one_that_does_not_come_back() -> None:
    hosts = machines(dead=("n2",))
    run, told = rolled(hosts)
    assert hosts.asked == ["n1", "n2"]
    assert "not back 0.001 min after its reboot began: in Slurm it is down" in lost_words(run.failed_hosts)["n2"]
    assert "Not rebooted: n[3-4]." in told
    assert (run.report().exit_code, [step.host for step in run.steps]) == (1, ["n1"])


def test_no_other_node_is_rebooted_when_a_job_fails_on_one_that_is_back() -> None:
    hosts = machines(trial={"n1": "error: a container by enroot: no libnvidia-container.so.1"})
    run, told = rolled(hosts)
    assert lost_words(run.failed_hosts)["n1"] == (
        "a job on it failed: error: a container by enroot: no libnvidia-container.so.1. No other node is rebooted."
    )
    assert (hosts.asked, run.steps) == (["n1"], [])
    assert "Not rebooted: n[2-4]." in told


def test_nodes_that_are_rebooting_when_another_fails_are_waited_for() -> None:
    hosts = machines(dead=("n1",))
    run, _ = rolled(hosts, wish=RebootOptions(at_once=2, minutes=0.001))
    assert set(run.failed_hosts) == {"n1"}
    assert {step.host for step in run.steps} == set(hosts.asked) - {"n1"}


def test_a_node_that_is_in_service_without_a_reboot_fails() -> None:
    run, _ = rolled(machines(asleep=("n1",)), ("n1", "n2"))
    assert "the machine was not rebooted" in lost_words(run.failed_hosts)["n1"]


def test_a_node_that_slurm_refuses_to_reboot_fails_with_slurms_message() -> None:
    refused = {"node-reboot:n1"}
    run, _ = rolled(machines(wrong={"n1": set(), "c1": set(refused)}, failing={"c1": refused}), ("n1", "n2"))
    assert lost_words(run.failed_hosts) == {"n1": "Slurm does not reboot it: it cannot be done."}


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN*", "IDLE+REBOOT_REQUESTED"])
def test_a_node_out_of_service_is_refused_and_no_node_is_rebooted(state: str) -> None:
    hosts = machines()
    hosts.nodes["n2"] = (state, "loose cable", "ann")
    with pytest.raises(InputError, match=r"n2: it is .*loose cable.*\n.*Nothing was rebooted"):
        rolled(hosts)
    assert hosts.asked == []


def test_a_node_that_slurm_itself_drained_is_rebooted() -> None:
    hosts = machines()
    hosts.nodes["n2"] = ("IDLE+DRAIN", "Kill task failed", "root")
    run, _ = rolled(hosts, ("n2",))
    assert [step.host for step in run.steps] == ["n2"]


def test_an_unreachable_node_is_reported_before_any_reboot() -> None:
    hosts = machines()
    del hosts.facts["n4"]
    with pytest.raises(Unreachable, match="n4"):
        rolled(hosts)
    assert hosts.asked == []


def test_a_controller_that_does_not_answer_for_a_moment_is_asked_again() -> None:
    hosts = machines()
    looks = iter(["Slurmctld(primary) at c1 is UP\n", "", *["Slurmctld(primary) at c1 is UP\n"] * 50])

    def look() -> None:
        hosts.ping = next(looks)

    hosts.looked = look
    run, _ = rolled(hosts, ("n1",))
    assert [step.host for step in run.steps] == ["n1"]


def test_a_slurmctld_that_does_not_answer_at_first_is_an_error() -> None:
    with pytest.raises(HostError, match="slurmctld does not answer"):
        rolled(machines(ping=""))


@pytest.mark.parametrize(
    ("text", "names", "wish", "complaint"),
    [
        (FOUR, ("n1",), RebootOptions(at_once=0), "--at-once 0"),
        (FOUR, ("n1",), RebootOptions(minutes=0), "--timeout 0"),
        (FOUR, ("n1",), RebootOptions(text="a\nb"), "--reason"),
        (
            "cluster: x\ncontrollers: n1\nnodes: [{hosts: n1}]\n",
            ("n1",),
            RebootOptions(),
            "n1 is the primary controller",
        ),
        (FOUR + "slurm_conf: {RebootProgram: null}\n", ("n1",), RebootOptions(), "RebootProgram"),
    ],
)
def test_impossible_reboots_are_refused_before_any_host_is_contacted(
    text: str, names: tuple[str, ...], wish: RebootOptions, complaint: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    known = Inventory(cluster(text), Lock(), tmp_path_factory.mktemp("x") / "cluster.yaml")
    with pytest.raises(InputError, match=complaint):
        reboot.refuse_unfit(known, names, wish)
