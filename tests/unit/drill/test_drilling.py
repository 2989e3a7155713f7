"""Drills on a Slurm in memory: which node is taken, what is refused, what is measured, and that all is taken back."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_slurm import FakeSlurm, job_line
from support import cluster, facts_of, prepared, run_over

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.drill import drilling, drills
from slurmfab.commands.drill.drilling import Measured, carry_out, is_over, is_served, listed, named, only_node
from slurmfab.commands.drill.drills import DRILLS
from slurmfab.commands.drill.results import Result, Verdict
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run
from slurmfab.core.status.snapshot import Node
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.nodes.states import NodeState
from slurmfab.on_hosts.agent.slurm.reading import SLURM_TIMEOUT

FOUR = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-4]'}]\nmonitoring: true\n"
NODES = ("n1", "n2", "n3", "n4")
IDLE = ("IDLE", "", "")
DOWN = ("DOWN+NOT_RESPONDING", "Not responding", "slurm")
DRAINED = ("IDLE+DRAIN", "slurmfab: health: GPU /dev/nvidia0 is gone", "root")
BROKEN = ("IDLE+DRAIN", "broken fan", "ann")
GPUS = Lock(hosts={node: HostLock(gpus=(Gpu("/dev/nvidia0", "a100", ""),)) for node in NODES})


@dataclass
class Drilled(FakeSlurm):
    """Nodes that notice a fault at once, and are well at once when it is over.

    Args:
        told: what was begun and ended, in order, as `link on n1` and `no link on n1`.
        sign: the state of a node with a fault.
        after: its state when the fault is over.
        refused: why a fault does not begin, by its name.
        late: how often a fault on a node is not taken back.
        comes: a job that begins just before a node is reserved.
        at: the host that was changed last.
        works: options and commands of test jobs.
    """

    told: list[str] = field(default_factory=list)
    sign: tuple[str, str, str] = DOWN
    after: tuple[str, str, str] = IDLE
    refused: dict[str, str] = field(default_factory=dict)
    late: int = 0
    comes: str = ""
    at: str = ""
    works: list[list[str]] = field(default_factory=list)
    limits: list[tuple[tuple[str, ...], float]] = field(default_factory=list)  # parts of Slurm asked for, and seconds

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        self.works += request.get("works", ())
        if request["op"] == "slurm":
            self.limits.append((tuple(request["parts"]), request.get("seconds", 0.0)))
        return super().call(host, request, heard)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        self.at = host
        for outcome, wanted in zip(super().outcomes(host, request), request["resources"], strict=True):
            message = self.refused.get(wanted["fault"], "") if wanted.get("begin") else ""
            if self.late and host in NODES and not wanted.get("begin"):
                self.late, message = self.late - 1, "no answer"
            yield {**outcome, "status": "failed" if message else "changed", "message": message}

    def change(self, wanted: Mapping[str, Any]) -> None:
        if wanted["kind"] != "fault":
            super().change(wanted)
            return
        name, begins = wanted["fault"], bool(wanted["begin"])
        self.told.append(name if begins else f"no {name}")
        if self.comes and begins:
            self.jobs.append(self.comes)
        if self.at in NODES and name not in self.refused:
            self.nodes[self.at] = self.sign if begins else self.after


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time is lost."""
    for module, name, seconds in (
        (drilling, "POLL_SECONDS", 0.001),
        (drills, "SPARE", 0.02),
        (drills, "RESTART", 0.02),
    ):
        monkeypatch.setattr(module, name, seconds)
    monkeypatch.setattr(drills, "SLURMD_TIMEOUT", 0)


def hosts(**more: Any) -> Drilled:
    """A cluster of four idle nodes, each with a GPU."""
    return Drilled(facts_of(cluster(FOUR), prepared), **{"nodes": dict.fromkeys(NODES, IDLE), **more})


def drilled(hosts: Drilled, name: str, node: str = "") -> tuple[Result, Run]:
    """The result of a drill, and its run."""
    run = run_over(hosts, cluster(FOUR), lock=GPUS, command="drill")
    verdict = carry_out(run, [DRILLS[name]], node, lambda _: None)
    return verdict.results[0], run


def test_a_fault_when_it_is_noticed_and_over_then_has_passed_and_is_in_the_record() -> None:
    slurm = hosts()
    result, run = drilled(slurm, "link")
    assert (result.outcome, result.host, result.cause) == ("passed", "n1", "")
    assert result.sign == "down, not responding (Not responding)"
    assert None not in (result.noticed, result.out, result.back)
    assert slurm.told == ["hold", "link", "no link", "no hold"]
    (step,) = run.steps
    assert (step.phase, step.host, step.outcomes[0].id) == ("drill", "n1", "drill:link")
    assert [change.name for change in step.outcomes[0].changes] == ["noticed", "out of service", "back", "lasted"]


def test_a_nodes_test_job_runs_inside_of_the_reservation() -> None:
    slurm = hosts()
    drilled(slurm, "gpu")
    assert [work[0] for work in slurm.works] == [f"--reservation={drilling.RESERVATION}"]


@pytest.mark.parametrize(
    ("more", "node", "cause"),
    [
        ({"jobs": [job_line(7, "n2")]}, "n2", "n2: has jobs: 7 (ann)"),
        ({"nodes": {**dict.fromkeys(NODES, IDLE), "n2": BROKEN}}, "n2", "n2: is idle, drain (broken fan)"),
        ({"nodes": dict.fromkeys(NODES, BROKEN)}, "", "n[1-4]: is idle, drain (broken fan)"),
        ({"nodes": {**dict.fromkeys(NODES, IDLE), "n2": ("IDLE+RESERVED", "", "")}}, "n2", "n2: is reserved"),
        ({"nodes": {**dict.fromkeys(NODES, IDLE), "n2": ("IDLE+POWERED_DOWN", "", "")}}, "n2", "n2: is asleep"),
        ({"nodes": {"n1": IDLE}}, "n2", "n2: slurmctld does not know it"),
    ],
)
def test_a_node_when_it_is_not_free_then_is_not_touched(more: dict[str, Any], node: str, cause: str) -> None:
    slurm = hosts(**more)
    result, run = drilled(slurm, "link", node)
    assert (result.outcome, result.cause, slurm.told) == ("not run", cause, [])
    assert list(run.steps) == []


def test_a_busy_node_when_another_one_is_free_then_that_one_is_taken() -> None:
    result, _ = drilled(hosts(jobs=[job_line(7, "n1")]), "gpu")
    assert (result.host, result.outcome) == ("n2", "passed")


def test_a_job_that_begins_before_the_reservation_when_slurm_refuses_it_then_nothing_is_done() -> None:
    slurm = hosts(refused={"hold": "Requested nodes are busy"})
    result, _ = drilled(slurm, "link", "n1")
    assert (result.outcome, result.cause) == ("not run", "n1: is not reserved: c1: Requested nodes are busy")
    assert "link" not in slurm.told


def test_a_job_that_slurm_tells_only_after_the_reservation_then_no_fault_is_brought_about() -> None:
    slurm = hosts(comes=job_line(9, "n1"))
    result, _ = drilled(slurm, "link", "n1")
    assert (result.outcome, result.cause) == ("not run", "n1: has jobs: 9 (ann)")
    assert slurm.told == ["hold", "no hold"]


def test_a_fault_that_refuses_to_begin_then_is_not_run_and_the_node_is_given_back() -> None:
    slurm = hosts(refused={"clock": "a container has the clock of its host, and of others"})
    result, _ = drilled(slurm, "clock")
    assert (result.outcome, result.cause) == ("not run", "n1: a container has the clock of its host, and of others")
    assert slurm.told == ["hold", "clock", "no hold"]


def test_a_fault_that_nothing_notices_then_has_failed_with_what_to_set() -> None:
    result, _ = drilled(hosts(sign=IDLE), "gpu")
    assert (result.outcome, result.noticed) == ("failed", None)
    assert result.cause.startswith("Slurm did not notice it within")
    assert "health: true" in result.repair


def test_a_node_that_is_never_out_of_service_then_has_failed() -> None:
    result, _ = drilled(hosts(sign=("IDLE+NOT_RESPONDING", "", "")), "link")
    assert result.outcome == "failed"
    assert "the node was neither drained nor down: idle, not responding" in result.cause


def test_a_node_that_does_not_come_back_then_has_failed_with_its_state() -> None:
    result, run = drilled(hosts(after=DRAINED), "gpu")
    assert (result.outcome, result.back) == ("failed", None)
    assert "after its end the node is idle, drain (slurmfab: health: GPU /dev/nvidia0 is gone)" in result.cause
    assert result.repair == "fab explain n1, and then fab resume n1"
    assert run.steps[0].has_failed


def test_a_node_that_slurm_leaves_down_since_it_was_silent_then_is_resumed_and_that_is_told() -> None:
    result, _ = drilled(hosts(after=DOWN), "link")
    assert (result.outcome, result.is_resumed, result.cause) == ("passed", True, "")
    assert "s after its end, resumed by slurmfab." in result.line


def test_a_node_that_answers_and_was_silent_twice_then_is_resumed_at_once() -> None:
    result, _ = drilled(hosts(after=("DOWN", "Not responding : Not responding", "slurm")), "link")
    assert (result.outcome, result.is_resumed) == ("passed", True)


def test_a_node_that_is_down_for_another_reason_then_is_left_as_it_is() -> None:
    result, _ = drilled(hosts(after=("DOWN+NOT_RESPONDING", "broken fan", "ann")), "link")
    assert (result.outcome, result.is_resumed) == ("failed", False)


def test_a_host_that_does_not_answer_when_the_fault_is_to_end_then_no_time_is_claimed() -> None:
    result, _ = drilled(hosts(late=1), "link")
    assert (result.outcome, result.back) == ("failed", None)
    assert result.cause == "it did not answer when the fault was to end, which then ended by itself"


def test_a_node_that_boots_when_the_fault_is_to_end_then_its_times_are_told() -> None:
    result, _ = drilled(hosts(late=1), "power")
    assert (result.outcome, result.back is None) == ("passed", False)


def test_a_node_on_which_no_job_runs_afterwards_then_has_failed() -> None:
    result, _ = drilled(hosts(trial={"n1": "error: no such device"}), "gpu")
    assert (result.outcome, result.cause) == ("failed", "a job on it failed: error: no such device")


def test_a_host_that_does_not_answer_then_is_not_run_and_the_node_is_given_back() -> None:
    slurm = hosts()
    del slurm.facts["n1"]
    result, _ = drilled(slurm, "gpu", "n1")
    assert (result.outcome, result.cause) == ("not run", "n1: nothing listens at port 22")
    assert slurm.told == ["hold", "no hold"]


@pytest.mark.parametrize(
    ("before", "now", "booted"),
    [
        ("2026-11-21T09:00:00", "2026-11-21T09:00:01", False),  # the same boot, as slurmd counts it twice
        ("2026-11-21T09:00:00", "2026-11-21T09:30:00", True),
        ("None", "2026-11-21T09:30:00", False),
        ("2026-11-21T09:00:00", "None", False),
    ],
)
def test_a_node_has_booted_if_its_boot_is_plainly_another_one(before: str, now: str, booted: bool) -> None:
    one = Node("n1", NodeState(frozenset({"IDLE"})), 1, 0, 0, 0, 1, 0, (), "", before)
    found = Measured()
    assert is_over(found, dataclasses.replace(one, boot=now), one) is booted
    assert (found.has_booted, found.out) == (booted, None)


def test_an_error_while_a_fault_lasts_then_it_is_taken_back_and_the_node_is_given_back() -> None:
    slurm, said = hosts(), io.StringIO()

    def fail() -> None:
        if "link" in slurm.told:
            raise KeyboardInterrupt

    slurm.looked = fail
    run = run_over(slurm, cluster(FOUR), command="drill", progress=Progress(said))
    with pytest.raises(KeyboardInterrupt):
        carry_out(run, [DRILLS["link"]], "n1", lambda _: None)
    assert slurm.told == ["hold", "link", "no link", "no hold"]
    assert "n1: the drill ends early, and its fault with it." in said.getvalue()
    assert "To have it back: fab resume n1" in said.getvalue()


def test_a_killed_slurmctld_when_a_job_is_gone_afterwards_then_has_failed() -> None:
    slurm = hosts(jobs=[job_line(7, "n2")])

    def forget() -> None:
        if slurm.told:
            slurm.jobs, slurm.ended = [], []

    slurm.looked = forget
    result, _ = drilled(slurm, "slurmctld")
    assert result.outcome == "failed"
    assert "LOST: job 7 (ann)" in result.cause


def test_a_killed_slurmctld_when_it_is_back_with_its_nodes_and_jobs_then_has_passed() -> None:
    slurm = hosts(jobs=[job_line(7, "n2")])
    result, _ = drilled(slurm, "slurmctld")
    assert (result.outcome, result.host, slurm.told) == ("passed", "c1", ["slurmctld", "no slurmctld"])


def test_a_slurmctld_that_is_away_when_asked_for_then_slurms_commands_wait_for_no_controller_on_standby() -> None:
    slurm = hosts()
    drilled(slurm, "slurmctld")
    began = next(number for number, (parts, _) in enumerate(slurm.limits) if parts == ())
    assert slurm.limits[began : began + 2] == [((), SLURM_TIMEOUT), (("partitions",), drilling.PATIENCE)]


def test_a_primary_that_does_not_answer_then_no_other_question_is_asked() -> None:
    slurm = hosts(ping="Slurmctld(primary) at c1 is DOWN\nSlurmctld(backup) at c2 is UP\n")
    assert not is_served(run_over(slurm, cluster(FOUR)), needs_primary=True)
    assert [parts for parts, _ in slurm.limits] == [()]


def test_a_failover_without_a_second_controller_is_not_run() -> None:
    result, _ = drilled(hosts(), "failover")
    assert (result.outcome, result.cause) == ("not run", "the cluster file names one controller")


def test_drills_are_listed_with_why_they_are_not_for_this_cluster() -> None:
    text = "\n".join(listed(run_over(hosts(), cluster(FOUR)).inventory, 300))  # without a lock
    assert all(name in text for name in DRILLS)
    assert "no: n[1-4]: has no GPU in the lock" in text
    assert "no: c1: the cluster file names one controller" in text
    assert "yes, unless it is a container" in next(line for line in text.splitlines() if line.startswith("clock "))


def test_names_that_are_none_are_refused_with_those_that_there_are() -> None:
    known = run_over(hosts(), cluster(FOUR)).inventory
    with pytest.raises(InputError, match=r"'fire' is no drill\. There are slurmctld, failover, power"):
        named("fire")
    with pytest.raises(InputError, match="these are 2 nodes"):
        only_node(known, "n[1-2]")
    with pytest.raises(InputError, match="c1: not a compute node"):
        only_node(known, "c1")


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [((), 0), (("passed",), 0), (("passed", "failed", "not run"), 1), (("passed", "not run"), 5)],
)
def test_the_exit_code_follows_the_worst_result(outcomes: tuple[Any, ...], code: int) -> None:
    assert Verdict("lab", tuple(Result("link", "n1", one) for one in outcomes), 1.0).exit_code == code
