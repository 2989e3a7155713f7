"""New nodes drained and tested, and jobs cancelled, with a simulated Slurm; the lab tests use a real one."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from slurm_in_memory import STAMP, Slurm
from slurm_tables import environment, printed

from slurmfab.on_hosts.agent.core.resource import Outcome, apply
from slurmfab.on_hosts.agent.nodes import jobs as node_jobs
from slurmfab.on_hosts.agent.nodes.acceptance import NodeAcceptance
from slurmfab.on_hosts.agent.nodes.drain import NewNodeDrain
from slurmfab.on_hosts.agent.nodes.jobs import JobsEnded
from slurmfab.on_hosts.agent.packages.former_packages import removed

OURS = f"slurmfab: new, no job has run there yet ({STAMP})"
FAN = ("IDLE+DRAIN", "broken fan", "ann")


@dataclass
class TryingSlurm(Slurm):
    """A controller with jobs and reservations as well.

    Args:
        active: whether slurmctld runs.
        broken: nodes on which no job runs.
        hanging: the node whose jobs end only once it is down.
        held: why the jobs wait there; empty if they fail for another reason.
        reservation: the nodes of the trial's reservation, empty while there is none.
        trials: for each job that ran, the node, and whether the reservation held it then.
        jobs: squeue's lines.
        cancelled: ids that scancel was given.
    """

    active: bool = True
    broken: tuple[str, ...] = ()
    held: str = ""
    hanging: str = ""
    reservation: str = ""
    trials: list[tuple[str, bool]] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], *rest: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        def done(code: int = 0, out: str = "", err: str = "") -> subprocess.CompletedProcess[bytes]:
            return subprocess.CompletedProcess(argv, code, out.encode(), err.encode())

        program, words = argv[0], " ".join(argv[1:])
        options = dict(word.split("=", 1) for word in argv if "=" in word)
        if program == "systemctl":
            return done(out=f"ActiveState={'active' if self.active else 'inactive'}\n")
        if program == "srun":
            node = options["--nodelist"]
            is_open = self.nodes[node][0] == "IDLE" and node not in self.silent
            self.trials.append((node, node in self.reservation and is_open))
            if self.held and node in self.broken:
                return done(
                    1, err="srun: job 7 queued and waiting for resources\nsrun: error: Requested nodes are busy"
                )
            return done(1, err="srun: error: no route") if node in self.broken else done(out=f"{node}\n")
        if program == "squeue" and "--format=%r" in argv:
            return done(out=self.held + "\n")
        if program == "squeue":
            return done(out=printed([line.split("|") for line in self.jobs], argv, environment(rest, more)).decode())
        if program == "scancel":
            self.cancelled += argv[argv.index("--") + 1 :]
            self.jobs = self.jobs if self.hanging else [one for one in self.jobs if one.split("|")[0] not in argv]
            return done()
        if "reservation" in words and "create" in words:
            self.reservation = options["Nodes"]
        elif words.startswith("delete"):
            self.reservation = ""
        elif "show reservation" in words:
            return done(
                0 if self.reservation else 1,
                f"ReservationName=r StartTime=now EndTime=later Duration=1 Nodes={self.reservation}\n",
            )
        else:
            answer = super().run(argv, *rest, **more)
            self.jobs = [] if any("State=DOWN" in update for update in self.updates) else self.jobs
            return answer
        return done()


def gate(slurm: Slurm, *nodes: str, takes_over: bool = False) -> Outcome:
    return apply(NewNodeDrain(nodes, "new, no job has run there yet", STAMP, takes_over), slurm)


def trial(slurm: Slurm, *nodes: str) -> Outcome:
    return apply(NodeAcceptance(nodes, STAMP, seconds=0), slurm)


def test_a_node_in_no_partition_is_drained_as_no_job_can_run_there(root: Path) -> None:
    slurm = TryingSlurm(str(root), nodes={"n3": ("IDLE+DRAIN", OURS, "root"), "n4": ("IDLE+DRAIN", OURS, "root")})
    apply(NodeAcceptance(("n3", "n4"), STAMP, seconds=0, partitions=("", "main")), slurm)
    assert slurm.trials == [("n4", True)]
    assert (slurm.nodes["n4"][0], "it is in no partition" in slurm.nodes["n3"][1]) == ("IDLE", True)


def test_new_nodes_before_they_register_are_drained_with_who_and_when() -> None:
    slurm = TryingSlurm(nodes={"n1": ("IDLE", "", ""), "n3": ("UNKNOWN*", "", "")})
    assert gate(slurm, "n3").status == "changed"
    assert slurm.nodes["n3"][1] == OURS
    assert gate(slurm, "n3").status == "ok"


@pytest.mark.parametrize("state", [("IDLE", "", ""), ("MIXED", "", ""), FAN])
def test_nodes_in_service_or_drained_by_somebody_are_no_new_ones_to_the_gate(state: tuple[str, str, str]) -> None:
    slurm = TryingSlurm(nodes={"n3": state})
    assert gate(slurm, "n3").status == "ok"
    assert slurm.nodes["n3"] == state


@pytest.mark.parametrize("state", [("IDLE", "", ""), FAN, ("DOWN*", "Not responding", "slurm")])
def test_a_node_that_is_another_machine_is_drained_in_our_name_whatever_it_was(state: tuple[str, str, str]) -> None:
    slurm = TryingSlurm(nodes={"n3": state})
    assert gate(slurm, "n3", takes_over=True).status == "changed"
    assert slurm.nodes["n3"][1] == OURS
    assert gate(slurm, "n3", "n9", takes_over=True).status == "ok", "a node that slurmctld does not know needs no gate"


def test_nodes_that_pass_their_trial_are_in_service_and_were_reserved_while_it_ran(root: Path) -> None:
    slurm = TryingSlurm(str(root), nodes={"n3": ("IDLE+DRAIN", OURS, "root"), "n4": ("IDLE+DRAIN", OURS, "root")})
    assert trial(slurm, "n3", "n4").status == "changed"
    assert sorted(slurm.trials) == [("n3", True), ("n4", True)]
    assert (slurm.nodes["n3"][0], slurm.reservation) == ("IDLE", "")
    assert trial(slurm, "n3", "n4").status == "ok"


def test_a_node_that_was_down_is_tried_once_slurmctld_has_heard_of_it_again(root: Path) -> None:
    nodes = {"n3": ("DOWN+DRAIN", OURS, "root"), "n4": ("IDLE+DRAIN", OURS, "root")}
    slurm = TryingSlurm(str(root), nodes=nodes)
    assert trial(slurm, "n3", "n4").status == "changed"
    assert sorted(slurm.trials) == [("n3", True), ("n4", True)]
    assert sorted(slurm.updates) == [("NodeName=n3", "State=RESUME"), ("NodeName=n4", "State=IDLE")]


def test_a_node_on_which_no_job_runs_is_drained_again_and_the_others_are_let_in(root: Path) -> None:
    nodes = {"n3": ("IDLE+DRAIN", OURS, "root"), "n4": ("IDLE+DRAIN", OURS, "root")}
    slurm = TryingSlurm(str(root), nodes=nodes, broken=("n4",))
    outcome = trial(slurm, "n3", "n4")
    assert outcome.status == "failed"
    assert "n4 is idle, drain, slurmfab: acceptance failed: srun: error: no route" in outcome.message
    assert (slurm.nodes["n3"][0], slurm.nodes["n4"][0], slurm.reservation) == ("IDLE", "IDLE+DRAIN", "")


def test_a_node_whose_test_job_waits_is_drained_again_with_slurms_own_reason(root: Path) -> None:
    slurm = TryingSlurm(str(root), nodes={"n4": ("IDLE+DRAIN", OURS, "root")}, broken=("n4",), held="PartitionDown")
    reason = "acceptance failed: srun: error: Requested nodes are busy; Slurm's reason: PartitionDown"
    assert reason in trial(slurm, "n4").message


def test_nodes_stay_drained_when_no_job_can_even_be_tried() -> None:
    slurm = TryingSlurm("/nowhere", nodes={"n3": ("IDLE+DRAIN", OURS, "root")})
    assert "there is no user slurm on this host" in trial(slurm, "n3").message
    assert slurm.nodes["n3"][0] == "IDLE+DRAIN"


def test_nodes_that_were_opened_are_tried_also_when_slurmctld_has_no_answer_for_a_moment(root: Path) -> None:
    nodes = {"n3": ("IDLE+DRAIN", OURS, "root"), "n4": ("IDLE+DRAIN", OURS, "root")}
    slurm = TryingSlurm(str(root), nodes=nodes, broken=("n4",), hiccups=1)
    assert trial(slurm, "n3", "n4").status == "failed"
    assert sorted(slurm.trials) == [("n3", True), ("n4", True)]
    assert (slurm.nodes["n3"][0], slurm.nodes["n4"][0], slurm.hiccups) == ("IDLE", "IDLE+DRAIN", 0)


def test_a_node_that_does_not_register_stays_drained_without_a_job() -> None:
    slurm = TryingSlurm(nodes={"n3": ("UNKNOWN*+DRAIN", OURS, "root")})
    assert "slurmd did not register" in trial(slurm, "n3").message
    assert slurm.trials == []


def test_a_node_that_somebody_has_drained_meanwhile_is_left_alone() -> None:
    slurm = TryingSlurm(nodes={"n3": FAN})
    assert trial(slurm, "n3").status == "ok"


def test_a_reservation_that_a_killed_run_left_is_found_and_removed() -> None:
    slurm = TryingSlurm(nodes={"n3": ("IDLE", "", "")}, reservation="n3")
    assert trial(slurm, "n3").status == "changed"
    assert slurm.reservation == ""


def test_without_slurmctld_nothing_is_known_and_nothing_fails_in_a_comparison() -> None:
    slurm = TryingSlurm(active=False, dry_run=True)
    assert gate(slurm, "n3").status == trial(slurm, "n3").status == "would change"


def test_jobs_are_cancelled_by_their_ids_and_no_others() -> None:
    slurm = TryingSlurm(jobs=["7|ann|RUNNING|", "8_3|bob|RUNNING|", "9|eve|PENDING|n3"])
    assert apply(JobsEnded(("7", "8_3"), ("n3",), STAMP), slurm).status == "changed"
    assert slurm.cancelled == ["7", "8_3"]
    assert slurm.jobs == ["9|eve|PENDING|n3"]
    assert apply(JobsEnded(("7", "8_3"), ("n3",), STAMP), slurm).status == "ok"


@pytest.mark.parametrize("abandoned", [True, False])
def test_jobs_that_do_not_end_when_their_node_is_abandoned_then_it_is_set_down_although_it_answers(
    monkeypatch: pytest.MonkeyPatch, abandoned: bool
) -> None:
    monkeypatch.setattr(node_jobs, "DOWN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(node_jobs, "END_SECONDS", 0.0 if not abandoned else 60.0)
    slurm = TryingSlurm(jobs=["7|ann|COMPLETING|n3"], nodes={"n3": ("MIXED+DRAIN", "", "")}, hanging="n3")
    outcome = apply(JobsEnded(("7",), ("n3",), STAMP, abandoned), slurm)
    downs = [update[:2] for update in slurm.updates]
    assert (outcome.status, downs) == (("changed", [("NodeName=n3", "State=DOWN")]) if abandoned else ("failed", []))


@pytest.mark.parametrize("forged", ["--partition=main", "7 8", "7\n8", "*", "", "7,8", "\u0667"])
def test_ids_that_are_none_when_they_are_to_be_cancelled_then_nothing_is(forged: str) -> None:
    slurm = TryingSlurm(jobs=["7|ann|RUNNING|", f"{forged}|bob|RUNNING|"])
    assert "is not the id of a job" in apply(JobsEnded((forged, "7"), ("n3",), STAMP), slurm).message
    assert slurm.cancelled == []


def test_nodes_that_a_user_names_on_several_lines_are_told_as_one_hostlist() -> None:
    (job,) = node_jobs.read({}, TryingSlurm(jobs=["9|eve|PENDING|n3\nn4, n5"], reservation="n1"))["pending"]
    assert (job["id"], job["wants"]) == ("9", "n3,n4,n5")


def test_what_hangs_on_nodes_by_name_is_told_without_running_jobs() -> None:
    jobs = ["7|ann|RUNNING|n3", "9|eve|PENDING|n[3-4]", "10|eve|PENDING|"]
    found = node_jobs.read({}, TryingSlurm(jobs=jobs, reservation="n[1-2]"))
    assert [(job["id"], job["wants"]) for job in found["pending"]] == [("9", "n[3-4]")]
    assert found["reservations"] == {"r": "n[1-2]"}


def test_packages_that_apt_would_remove_are_read_from_its_plan() -> None:
    plan = "Reading package lists...\nRemv slurmctld [22.05.8-4]\nRemv munge [0.5.15-2] [slurmd:amd64 ]\nInst x (1)\n"
    assert removed(plan) == ["slurmctld", "munge"]
