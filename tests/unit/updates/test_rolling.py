"""Hosts updated a few at a time: drained, emptied, updated, rebooted, proved, given back, and where it stops."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_slurm import FakeSlurm, job_line
from support import cluster, facts_of, lost_words, prepared, run_over

from slurmfab.base.errors import InputError, SlurmfabError, Unreachable
from slurmfab.commands.update import updating
from slurmfab.commands.update.host_updates import HostUpdates
from slurmfab.commands.update.plan import UpdatePlan
from slurmfab.commands.update.rolling import Rolling, roll
from slurmfab.commands.update.updating import UpdateOptions
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.nodes.states import ACCEPTANCE_FAILED, FOR_UPDATE, our_reason
from slurmfab.on_hosts.agent.packages.updates import Candidate

FOUR = "cluster: lab\ncontrollers: [c1]\nlogin: [l1]\nnodes: [{hosts: 'n[1-4]'}]\n"
NODES = ("n1", "n2", "n3", "n4")
IDLE = ("IDLE", "", "")
TAR = HostUpdates((Candidate("tar", "1", "2", False),))
OURS = our_reason(FOR_UPDATE, "ann@laptop 2026-11-21T09:00")


@dataclass
class Machines(FakeSlurm):
    """Hosts that are updated, rebooted and proved as asked.

    Args:
        broken: hosts whose update fails.
        dead: hosts that do not come back from a reboot.
        unproved: nodes on which the job fails.
        needing: hosts that need a reboot.
        log: what was done, in order, with the hosts.
    """

    broken: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    needing: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] == "updates":
            if host not in self.facts:
                raise Unreachable(host, "nothing listens at port 22.")
            packages = [list(one) for one in TAR.packages]
            reboot = ["kernel 1 runs, 2 is installed"] if host in self.needing else []
            empty = {"kept": [], "removed": [], "stale": {}, "age": 1.0, "unfinished": "", "trouble": ""}
            return ({"updates": {**empty, "packages": packages, "reboot": reboot}},)
        return super().call(host, request, heard)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        for wanted in request["resources"]:
            if wanted["kind"] == "updates" and host in self.broken:
                self.failing.setdefault(host, set()).add("updates:1 package")
            if wanted["kind"] in ("updates", "machine-reboot"):
                self.wrong.setdefault(host, set()).add(
                    "updates:1 package" if wanted["kind"] == "updates" else "machine-reboot:now"
                )
            if not request["dry_run"]:
                nodes = wanted.get("nodes")
                self.log.append(f"{wanted['kind']} {','.join(nodes) if nodes else host}")
        return super().outcomes(host, request)

    def change(self, wanted: Mapping[str, Any]) -> None:
        super().change(wanted)
        if wanted["kind"] == "node-trial":
            for name in wanted["nodes"]:
                failed = our_reason(ACCEPTANCE_FAILED + "no", wanted["stamp"])
                self.nodes[name] = ("IDLE+DRAIN", failed, "root") if name in self.unproved else IDLE

    def pass_time(self, _: float) -> None:
        """What happens between two looks."""
        if self.jobs:
            self.jobs.pop()
        for host in {line.split()[1] for line in self.log if line.startswith("machine-reboot")} - set(self.dead):
            self.facts[host] = dataclasses.replace(self.facts[host], boot="2")


def machines(**more: Any) -> Machines:
    return Machines(facts_of(cluster(FOUR), prepared, boot="1"), nodes=dict.fromkeys(NODES, IDLE), **more)


def rolled(hosts: Machines, names: Iterable[str] = NODES, **more: Any) -> tuple[Run, str, str]:
    """A finished update of these hosts, its output, and the error that ended it."""
    run, told, error = run_over(hosts, cluster(FOUR)), io.StringIO(), ""
    run.progress = Progress(told)
    rolling = Rolling(**{"at_once": 2, **more})
    plan = UpdatePlan("lab", dict.fromkeys(names, TAR), reboots=rolling.reboots)
    try:
        roll(run, plan, rolling, hosts.pass_time)
    except SlurmfabError as stopped:
        error = str(stopped)
    run.progress.end()
    return run, told.getvalue(), error


def updated(hosts: Machines) -> list[str]:
    return [line.split()[1] for line in hosts.log if line.startswith("updates ")]


def test_nodes_come_first_in_batches_then_logins_and_the_controller_last() -> None:
    hosts = machines()
    run, _, error = rolled(hosts, ("c1", "l1", *NODES))
    assert error == ""
    steps = [line for line in hosts.log if line.split()[0] in ("node-drain", "node-trial")]
    assert steps == ["node-drain n1,n2", "node-trial n1,n2", "node-drain n3,n4", "node-trial n3,n4"]
    assert [sorted(updated(hosts)[:2]), sorted(updated(hosts)[2:4]), updated(hosts)[4:]] == [
        ["n1", "n2"],
        ["n3", "n4"],
        ["l1", "c1"],
    ]
    assert set(hosts.nodes.values()) == {IDLE}
    assert [step.host for step in run.steps if step.phase == "proof"] == list(NODES)


def test_jobs_are_waited_for_before_anything_is_updated() -> None:
    hosts = machines(jobs=[job_line(7, "n1")])
    _, told, _ = rolled(hosts, ("n1",))
    assert "Waiting for 7 (ann) on n1." in told
    assert (hosts.jobs, updated(hosts)) == ([], ["n1"])


def test_a_node_whose_jobs_do_not_end_in_time_stops_the_run_and_is_not_updated() -> None:
    hosts = machines(jobs=[job_line(7, "n1")])
    hosts.pass_time = lambda _: None  # type: ignore[method-assign]
    run, _, error = rolled(hosts, wait_minutes=0.00001)
    assert "jobs still run there" in lost_words(run.failed_hosts)["n1"]
    assert (updated(hosts), error.startswith("Stopped at n1. Not begun: n[3-4].")) == (["n2"], True)


def test_a_node_that_somebody_drained_is_updated_and_stays_drained() -> None:
    hosts = machines()
    hosts.nodes["n2"] = ("IDLE+DRAIN", "loose cable", "root")
    _, told, _ = rolled(hosts)
    assert hosts.nodes["n2"] == ("IDLE+DRAIN", "loose cable", "root")
    assert "n2: idle, drain (“loose cable”, root, 2026-11-21 09:00:00). It is updated, and stays so." in told
    assert "n2" in updated(hosts)
    assert "node-trial n1" in hosts.log


@pytest.mark.parametrize("reason", [OURS, OURS + " : Not responding", our_reason(ACCEPTANCE_FAILED + "x", "a@b c")])
def test_a_node_that_an_interrupted_update_drained_is_gone_on_with_and_given_back(reason: str) -> None:
    hosts = machines()
    hosts.nodes["n2"] = ("IDLE+DRAIN", reason, "root")
    rolled(hosts, ("n2",))
    assert (hosts.nodes["n2"], updated(hosts)) == (IDLE, ["n2"])


@pytest.mark.parametrize(
    "reason", [our_reason(FOR_UPDATE + " by hand", "ann@laptop 2026-11-21T09:00"), OURS + " : fan"]
)
def test_a_node_with_another_reason_beside_ours_stays_drained(reason: str) -> None:
    hosts = machines()
    hosts.nodes["n2"] = ("IDLE+DRAIN", reason, "root")
    rolled(hosts, ("n2",))
    assert hosts.nodes["n2"][1] == reason


def test_a_host_that_fails_stops_the_run_after_its_batch_and_stays_drained() -> None:
    hosts = machines(broken=("n1",))
    run, _, error = rolled(hosts, ("c1", *NODES))
    assert error == "Stopped at n1. Not begun: c1,n[3-4]. When that is repaired, the same command goes on."
    assert "it cannot be done" in lost_words(run.failed_hosts)["n1"]
    assert (hosts.nodes["n2"], hosts.nodes["n1"][0]) == (IDLE, "IDLE+DRAIN")
    assert FOR_UPDATE in hosts.nodes["n1"][1]


def test_a_node_whose_job_fails_stays_drained_and_stops_the_run() -> None:
    hosts = machines(unproved=("n2",))
    run, _, error = rolled(hosts)
    assert "left drained, since its job failed after the update" in lost_words(run.failed_hosts)["n2"]
    assert (error.startswith("Stopped at n2. Not begun: n[3-4]."), hosts.nodes["n1"]) == (True, IDLE)


def test_only_compute_nodes_that_need_it_are_rebooted_and_only_where_that_is_wanted() -> None:
    hosts = machines(needing={"n1", "l1"})
    _, told, _ = rolled(hosts, ("n1", "n2", "l1"))
    assert not [line for line in hosts.log if line.startswith("machine-reboot")]
    assert "n1: still to be rebooted: " in told
    _, told, _ = rolled(hosts, ("n1", "n2", "l1"), reboots=True)
    assert [line for line in hosts.log if line.startswith("machine-reboot")] == ["machine-reboot n1"]
    assert "l1: still to be rebooted, by hand" in told
    assert (hosts.facts["n1"].boot, hosts.nodes["n1"]) == ("2", IDLE)


def test_a_node_that_does_not_come_back_from_its_reboot_stops_the_run() -> None:
    hosts = machines(needing={"n1"}, dead=("n1",))
    run, _, error = rolled(hosts, at_once=1, reboots=True, reboot_minutes=0)
    assert "not back 0 min after its reboot began" in lost_words(run.failed_hosts)["n1"]
    assert error.startswith("Stopped at n1. Not begun: n[2-4].")
    assert "node-trial n1" not in hosts.log


def test_a_plan_tells_what_an_interrupted_update_left_and_which_hosts_are_silent() -> None:
    hosts = machines()
    hosts.nodes["n2"] = ("IDLE+DRAIN", OURS, "root")
    del hosts.facts["n4"]
    run = run_over(hosts, cluster(FOUR))
    plan = updating.make_plan(run, UpdateOptions(), fetches=False)
    assert (plan.left_drained, list(plan.lost), plan.exit_code) == (("n2",), ["n4"], 3)
    assert plan.due == tuple(host for host in cluster(FOUR).hosts if host != "n4")


def test_a_node_that_slurm_has_powered_down_is_named_as_asleep() -> None:
    hosts = machines()
    hosts.nodes["n4"] = ("IDLE+POWERED_DOWN", "", "")
    del hosts.facts["n3"], hosts.facts["n4"]
    run = run_over(hosts, cluster(FOUR))
    plan = updating.make_plan(run, UpdateOptions(), fetches=False)
    assert ("it is asleep" in plan.lost["n4"], "nothing listens" in plan.lost["n3"]) == (True, True)
    assert plan.exit_code == 3


def test_packages_that_dpkg_has_not_completed_are_completed_before_others_are_updated() -> None:
    hosts = machines()
    run = run_over(hosts, cluster(FOUR))
    plan = UpdatePlan("lab", {"n1": HostUpdates(unfinished="tar half-configured")})
    roll(run, plan, Rolling(), hosts.pass_time)
    assert updated(hosts) == ["n1", "n1"]


def test_a_wrong_size_is_refused_before_any_host_is_asked() -> None:
    with pytest.raises(InputError, match="--at-once none"):
        updating.batch_size(UpdateOptions(at_once="none").at_once, 4)
