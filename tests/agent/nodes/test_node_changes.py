"""Draining and resuming nodes on the controller, with a simulated scontrol; the lab tests use a real one."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from outcomes import failure
from slurm_in_memory import STAMP, Slurm
from slurm_tables import environment, printed

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, apply
from slurmfab.on_hosts.agent.nodes import health, job_processes
from slurmfab.on_hosts.agent.nodes import resume as node_resume
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain, PartitionDrain
from slurmfab.on_hosts.agent.nodes.registered import LEFT_DRAINED, SlurmNodes
from slurmfab.on_hosts.agent.nodes.resume import NodeResume
from slurmfab.on_hosts.agent.slurm import reading

OURS = f"slurmfab: new disks ({STAMP})"


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll without pauses: no real Slurm is asked."""
    monkeypatch.setattr(node_resume, "POLL_SECONDS", 0.01)


def drain(slurm: Slurm, *nodes: str, text: str = "new disks") -> Outcome:
    return apply(NodeDrain(nodes, text, STAMP), slurm)


def resume(slurm: Slurm, *nodes: str, anybodys: bool = False) -> Outcome:
    return apply(NodeResume(nodes, anybodys, seconds=0.3), slurm)


def test_nodes_in_service_when_drained_get_the_reason_with_one_request() -> None:
    slurm = Slurm(nodes={"n1": ("IDLE", "", ""), "n2": ("MIXED", "old", "root")})
    assert drain(slurm, "n1", "n2").status == "changed"
    assert slurm.updates == [("NodeName=n1,n2", "State=DRAIN", f"Reason={OURS}")]


def test_a_node_that_is_drained_for_the_same_reason_is_right_whoever_asked() -> None:
    slurm = Slurm(nodes={"n1": ("IDLE+DRAIN", "slurmfab: new disks (bob@host 2026-11-20T10:00)", "root")})
    assert (drain(slurm, "n1").status, slurm.updates) == ("ok", [])
    assert drain(slurm, "n1", text="new board").status == "changed"


@pytest.mark.parametrize(
    ("state", "reason", "by"),
    [("IDLE+DRAIN", "fan is loud", "root"), ("DOWN", "psu", "bob"), ("IDLE+DRAIN", "Kill task failed", "root")],
)
def test_a_node_that_somebody_or_slurm_took_out_keeps_its_reason(state: str, reason: str, by: str) -> None:
    slurm = Slurm(nodes={"n1": (state, reason, by)})
    assert (drain(slurm, "n1").status, slurm.updates) == ("ok", [])


def test_a_node_that_is_lost_when_drained_gets_our_reason() -> None:
    slurm = Slurm(nodes={"n1": ("DOWN+NOT_RESPONDING", "Not responding", "slurm")})
    assert drain(slurm, "n1").status == "changed"


def test_a_node_that_slurmctld_does_not_know_when_drained_stops_all_of_it() -> None:
    slurm = Slurm(nodes={"n1": ("IDLE", "", "")})
    outcome = drain(slurm, "n1", "n9")
    assert (outcome.status, slurm.updates) == ("failed", [])
    assert outcome.message == "n9: slurmctld does not know it; deploy first"


@pytest.mark.parametrize(
    ("state", "reason", "by"),
    [
        ("IDLE+DRAIN", OURS, "root"),
        ("DOWN", f"{OURS} : Not responding", "slurm"),
        ("DOWN", "Not responding", "slurm"),
        ("IDLE+DRAIN", "Low RealMemory (reported:1)", "slurm"),
        ("DOWN", "", ""),
    ],
)
def test_a_node_that_we_or_slurm_took_out_when_resumed_is_in_service(state: str, reason: str, by: str) -> None:
    slurm = Slurm(nodes={"n1": (state, reason, by), "n2": ("IDLE", "", "")})
    assert resume(slurm, "n1", "n2").status == "changed"
    assert slurm.updates == [("NodeName=n1", "State=RESUME")]


def test_a_node_that_somebody_took_out_meanwhile_when_resumed_is_left_alone() -> None:
    slurm = Slurm(nodes={"n1": ("IDLE+DRAIN", "fan is loud", "root")})
    outcome = resume(slurm, "n1")
    assert (outcome.status, slurm.updates) == ("failed", [])
    assert "n1: idle, drain (fan is loud)" in outcome.message
    assert resume(slurm, "n1", anybodys=True).status == "changed"


def test_a_node_that_slurm_asks_no_more_since_it_was_silent_when_resumed_is_in_service() -> None:
    slurm = Slurm(nodes={"n1": ("DOWN+NOT_RESPONDING", "Not responding", "slurm")})
    outcome = resume(slurm, "n1")
    assert (outcome.status, slurm.updates) == ("changed", [("NodeName=n1", "State=RESUME")])


def test_what_slurm_complains_of_when_a_node_is_resumed_is_told() -> None:
    slurm = Slurm(nodes={"n1": ("DOWN", "Low CPUs", "slurm")}, refuses="slurm_update error: Invalid node state")
    assert resume(slurm, "n1").message.endswith("Slurm says: slurm_update error: Invalid node state")


def process(root: Path, pid: int, command: str, state: str, parent: int, *, uid: int = 0, program: str = "") -> None:
    """Add a process to a temporary /proc; without a program, the first word of the command is its name."""
    directory = root / "proc" / str(pid)
    directory.mkdir(parents=True)
    (directory / "cmdline").write_bytes(command.encode() + b"\0")
    (directory / "stat").write_text(f"{pid} ({command.split(maxsplit=1)[0]}) {state} {parent} 1 1")
    (directory / "status").write_text(f"Name:\tx\nUid:\t{uid}\t0\t0\t0\n")
    (directory / "exe").symlink_to(program or f"/usr/sbin/{command.split(maxsplit=1)[0].strip(':')}")


def test_processes_of_jobs_when_read_are_told_with_those_that_no_signal_reaches(root: Path, context: Context) -> None:
    process(root, 10, "slurmstepd: [12.batch] ", "S", 1)
    process(root, 11, "python train.py", "D", 10)
    process(root, 12, "slurmstepd: [13.extern] ", "S", 1)
    process(root, 13, "jbd2 (x)", "D", 2)
    process(root, 2, "kthreadd", "S", 0)
    assert job_processes.read({}, context) == {"steps": ["12.batch", "13.extern"], "hung": ["python"]}


@pytest.mark.parametrize(
    ("uid", "program", "counts"),
    [
        (0, "/usr/sbin/slurmstepd", True),
        (0, "/usr/sbin/slurmstepd-wlm (deleted)", True),
        (2001, "/usr/bin/sleep", False),
        (2001, "/usr/sbin/slurmstepd", False),
        (2001, "/usr/bin/su", False),
        (0, "/usr/bin/sleep", False),
    ],
)
def test_a_process_that_is_named_like_a_step_daemon_counts_if_it_is_roots_and_runs_that_program(
    root: Path, context: Context, uid: int, program: str, counts: bool
) -> None:
    process(root, 10, "slurmstepd: [12.batch] ", "S", 1, uid=uid, program=program)
    process(root, 11, "sleep 5", "D", 10, uid=uid)
    found = {"steps": ["12.batch"], "hung": ["sleep"]} if counts else {"steps": [], "hung": []}
    assert job_processes.read({}, context) == found


MARK = f"slurmfab: drained by a deployment for a change of SelectType ({STAMP})"


@pytest.mark.parametrize(
    ("state", "reason", "by"),
    [
        ("IDLE+DRAIN", "fan is loud", "root"),
        ("IDLE+DRAIN", OURS, "root"),
        ("IDLE+DRAIN", "Low RealMemory (reported:1 < 2)", "slurm"),
        ("DOWN", "Not responding", "slurm"),
        ("DOWN*", "fan is loud", "root"),
        ("MIXED+DRAIN", MARK.replace("ann@laptop", "bob@host"), "root"),
    ],
)
def test_a_node_that_is_out_of_service_when_drained_for_a_change_keeps_its_state_and_reason(
    state: str, reason: str, by: str
) -> None:
    slurm = Slurm(nodes={"n1": ("MIXED", "", ""), "n2": (state, reason, by)})
    text = "drained by a deployment for a change of SelectType"
    assert apply(NodeDrain(("n1", "n2"), text, STAMP, for_change=True), slurm).status == "changed"
    assert slurm.updates == [("NodeName=n1", "State=DRAIN", f"Reason={MARK}")]


@pytest.mark.parametrize("for_change", [False, True])
def test_a_node_that_its_health_check_drained_when_drained_by_us_stays_so_when_it_is_well_again(
    for_change: bool,
) -> None:
    slurm = Slurm(nodes={"n1": ("IDLE+DRAIN", "slurmfab: health: new disks", "root")})
    assert apply(NodeDrain(("n1",), "new disks", STAMP, for_change=for_change), slurm).status == "changed"
    assert slurm.updates == [("NodeName=n1", "State=DRAIN", f"Reason={OURS}")]


def test_the_health_check_when_it_is_asked_tells_its_causes_and_a_host_without_one_none(
    root: Path, context: Context
) -> None:
    assert health.read({}, context) == {"causes": []}
    program = root / "usr/local/lib/slurmfab/health-check"
    program.parent.mkdir(parents=True)
    for text, causes in (
        ('echo \'{"causes": {"b": "two", "a": "one"}}\'', ["one", "two"]),
        ("echo broken >&2; exit 1", [f"its health check fails: {program} look ended with exit code 1: broken"]),
    ):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        assert health.read({}, context) == {"causes": causes}


@pytest.mark.parametrize(
    ("state", "reason", "comes_back"),
    [
        ("IDLE+DRAIN", MARK, True),
        ("IDLE+DRAIN", MARK.replace("ann@laptop", "bob@host"), True),
        ("IDLE+DRAIN", f"{MARK} : Not responding", True),
        ("IDLE+DRAIN", f"{MARK} : Low RealMemory (reported:1 < 2)", False),
        ("IDLE+DRAIN", "fan is loud", False),
        ("IDLE+DRAIN", OURS, False),
        ("IDLE+DRAIN", "drained by a deployment for a change of SelectType", False),
        ("IDLE+DRAIN", "slurmfab: ask Ada who drained it for a change of SelectType", False),
        ("IDLE", MARK, False),
        ("DOWN", "Not responding", False),
    ],
)
def test_a_node_when_given_back_after_a_change_is_resumed_only_if_it_was_drained_for_that(
    state: str, reason: str, comes_back: bool
) -> None:
    slurm = Slurm(nodes={"n1": (state, reason, "root")})
    outcome = apply(NodeResume(("n1", "gone"), seconds=0.3, after_change=True), slurm)
    assert (outcome.status, bool(slurm.updates)) == (("changed", True) if comes_back else ("ok", False))
    assert not slurm.silent, "it is waited for"


def test_a_node_that_does_not_answer_when_given_back_after_a_change_is_named() -> None:
    slurm = Slurm(nodes={"n1": ("IDLE*+DRAIN", MARK, "root")})
    assert "n1: idle, drain, not responding" in failure(NodeResume(("n1",), seconds=0.05, after_change=True), slurm)


def test_ready_nodes_of_which_one_is_still_drained_for_a_change_are_right_with_a_remark() -> None:
    rows = [["n1", "idle", "none", "Unknown"], ["n2", "drain", MARK, "root"]]

    class Sinfo(Context):
        """A controller with these two nodes."""

        def run(self, argv: Sequence[str], *_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
            said = b"ActiveState=active\n" if argv[0] == "systemctl" else printed(rows, argv, {})
            return subprocess.CompletedProcess(argv, 0, said, b"")

    outcome = apply(SlurmNodes(("n1", "n2")), Sinfo(dry_run=True))
    assert (outcome.status, outcome.message) == ("ok", LEFT_DRAINED)
    context = Sinfo(dry_run=True)
    context.remark = "of another resource"
    assert apply(SlurmNodes(("n1", "n2")), context).message == LEFT_DRAINED


@dataclass
class Partitions(Context):
    """A controller with partitions, by state."""

    root: str = "/"
    dry_run: bool = False
    states: dict[str, str] = field(default_factory=dict)
    updates: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.root, self.dry_run)

    def run(self, argv: Sequence[str], *_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        if argv[1] == "update":
            self.updates.append(tuple(argv[2:]))
            self.states[argv[2].partition("=")[2]] = "DRAIN"
        shown = "".join(f"PartitionName={name} Default=NO Nodes=n1 State={state} TotalCPUs=2\n"
                        for name, state in self.states.items())  # fmt: skip
        return subprocess.CompletedProcess(argv, 0, shown.encode(), b"")


def test_partitions_when_drained_take_no_new_jobs_and_those_that_are_closed_already_are_left_alone() -> None:
    slurm = Partitions(states={"debug": "UP", "old": "DOWN", "main": "UP"})
    assert apply(PartitionDrain(("debug", "old", "gone")), slurm).status == "changed"
    assert slurm.updates == [("PartitionName=debug", "State=DRAIN")]
    assert apply(PartitionDrain(("debug",)), slurm).status == "ok"


def test_jobs_when_asked_for_by_number_are_told_also_if_they_have_ended() -> None:
    asked: list[tuple[str, ...]] = []

    class Squeue(Context):
        """A controller that answers."""

        def run(self, argv: Sequence[str], *rest: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
            asked.append(tuple(argv))
            row = ["x\n8|"] * len(reading.JOB_FIELDS)
            is_queue = argv[0] == "squeue"
            said = printed([row], argv, environment(rest, more)) if is_queue else b"Slurmctld(primary) at c1 is UP\n"
            return subprocess.CompletedProcess(argv, 0, said, b"")

    numbers = [str(number) for number in range(1500)]
    told = reading.read({"parts": [], "numbers": numbers}, Squeue())
    assert told["named"] == [["x\n8|"] * len(reading.JOB_FIELDS)] * 2
    assert [argv[0] for argv in asked] == ["scontrol", "squeue", "squeue"]
    assert "--states=all" in asked[1]
    assert asked[2][-1] == "--jobs=" + ",".join(numbers[1000:])
    assert "named" not in reading.read({"parts": []}, Squeue())
