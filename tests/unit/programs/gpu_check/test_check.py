"""GPU checks from measurement to drain, with a simulated Slurm."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from json_shapes import assert_fits

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.programs.gpu_check import history
from slurmfab.on_hosts.programs.gpu_check import main as check_main
from slurmfab.on_hosts.programs.gpu_check.check import Check
from slurmfab.on_hosts.programs.gpu_check.jobs import (
    Attempt,
    Progress,
    QueuedJob,
    Runner,
    arguments,
    queued_job,
    waiting,
    why_not_started,
)
from slurmfab.on_hosts.programs.gpu_check.main import format_entry, format_progress, main
from slurmfab.on_hosts.programs.gpu_check.nccl_output import Measurement
from slurmfab.on_hosts.programs.gpu_check.nodes import gpu_nodes
from slurmfab.on_hosts.programs.gpu_check.results import PlannedMeasurement, Result, judge_output

sys.path.append(str(Path(__file__).parents[3] / "agent"))
from hostile_directory import locks_met_by

SETTINGS = {
    "program": "all_reduce_perf", "arguments": "-b 1G -e 8G -f 2", "environment": {}, "min_busbw": {"a100": 120.0},
    "between_nodes": None, "mpi": "pmix", "partition": None, "qos": None, "drain": True, "wait": 1, "minutes": 15,
    "keep": 2,
}  # fmt: skip
OURS = "slurmfab: gpu check: all_reduce 90 GB/s, wanted 120 (a100 x4)"


@dataclass
class Slurm(Context):
    """A simulated slurmctld: state and reason of its nodes by name, and the commands it got."""

    root: str = "/"
    dry_run: bool = False
    nodes: dict[str, tuple[str, str]] = field(default_factory=dict)
    reserved: bool = False
    idle: int = 0
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.root, self.dry_run)

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        words = " ".join(argv)
        said, code = "", 0
        if "show node" in words:
            said = "".join(
                f"NodeName={name} Gres=gpu:a100:4(S:0) State={state} Partitions=main,slurmfab "
                + (f"Reason={reason} [slurm@2026-11-21T09:00:00]\n" if reason else "\n")
                for name, (state, reason) in self.nodes.items()
            )
        elif "show reservation" in words:
            said, code = ("ReservationName=slurmfab_gpu_check", 0) if self.reserved else ("", 1)
        elif argv[0] == "sinfo":
            said = f"{self.idle}\n" if "--states=idle" in argv else "main|up\nslurmfab|up\n"
        elif "update" in argv:
            self.asked.append(words)
            for name in argv[2].partition("=")[2].split(","):
                drains = argv[3] == "State=DRAIN"
                self.nodes[name] = ("IDLE+DRAIN", argv[4].partition("=")[2]) if drains else ("IDLE", "")
        elif argv[0] != "squeue":
            self.asked.append(words)
            self.reserved = {"create": True, "delete": False}.get(argv[1], self.reserved)
        return subprocess.CompletedProcess(list(argv), code, said.encode(), b"")


class Bench:
    """A check whose measurements are given."""

    def __init__(self, place: Path, speeds: Mapping[str, Any], nodes: Mapping[str, tuple[str, str]], **more: Any):
        self.slurm = Slurm(nodes=dict(nodes))
        self.speeds = speeds
        self.settings = {**SETTINGS, **more, "directory": str(place)}
        self.told: list[Mapping[str, Any]] = []
        self.wishes: list[PlannedMeasurement] = []

    def run(self, hosts: Sequence[str] = ()) -> int:
        drains = bool(self.settings["drain"])
        check = Check(self.slurm, self.settings, threading.Event(), drains, self.told.append)
        check.runner.measure = self.measure  # type: ignore[method-assign]
        return check.run(hosts)

    def measure(self, wishes: Iterable[PlannedMeasurement], heard: Callable[[Result], None]) -> None:
        for planned in wishes:
            self.wishes.append(planned)
            speed = self.speeds["+".join(planned.names)]
            if isinstance(speed, str):
                heard(Result(planned, None, speed, 1.0))
            else:
                short = planned.minimum is not None and speed < planned.minimum
                why = f"{speed} GB/s, wanted {planned.minimum:.0f}" if short else ""
                heard(Result(planned, Measurement(speed, speed / 2, 8 << 30, 0, checked=True), why, 1.0))

    @property
    def outcomes(self) -> dict[str, str]:
        return {"+".join(one["nodes"]): one["outcome"] for one in self.told if one["nodes"]}


IDLE = ("IDLE", "")


def test_a_node_that_falls_short_is_drained_with_the_figure_and_the_others_are_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"n1": 188.1, "n2": 98.2, "n3": 187.0}, dict.fromkeys(("n1", "n2", "n3"), IDLE))
    assert bench.run() == 1
    assert bench.slurm.nodes == {
        "n1": IDLE, "n3": IDLE,
        "n2": ("IDLE+DRAIN", "slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120 (a100 x4)"),
    }  # fmt: skip
    kept = history.entries(str(tmp_path))
    assert [(one["nodes"], one["outcome"], one["action"]) for one in kept[:-1]] == [
        (["n1"], "passed", ""), (["n3"], "passed", ""), (["n2"], "falls short", "drained"),
    ]  # fmt: skip
    assert (kept[-1]["end"], kept[-1]["exit_code"]) == (True, 1)
    assert_fits("check-gpus", {"version": 1, "cluster": "lab", "exit_code": 1, "measurements": kept[:-1]})
    assert (kept[2]["busbw"], kept[2]["average"], kept[2]["wanted"]) == (98.2, 49.1, 120.0)


def test_when_most_nodes_fall_short_then_none_is_drained_and_it_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"n1": 90.0, "n2": 98.2, "n3": 187.0}, dict.fromkeys(("n1", "n2", "n3"), IDLE))
    assert bench.run() == 1
    assert set(bench.slurm.nodes.values()) == {IDLE}
    assert [one["remark"] for one in bench.told if one.get("outcome") == "falls short"] == [
        "not drained: 2 of 3 nodes fall short"
    ] * 2


def test_where_nodes_are_not_to_be_drained_then_slow_ones_are_told_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"n1": 90.0}, {"n1": IDLE, "n2": ("IDLE+DRAIN", OURS)}, drain=False)
    assert bench.run() == 1
    assert bench.slurm.asked == []
    assert bench.outcomes == {"n1": "falls short", "n2": "not measured"}


def test_nodes_that_somebody_has_drained_are_neither_measured_nor_touched(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"n1": 188.0}, {"n1": IDLE, "n2": ("IDLE+DRAIN", "broken fan")})
    assert bench.run() == 3
    assert bench.slurm.nodes["n2"] == ("IDLE+DRAIN", "broken fan")
    assert [one["why"] for one in bench.told if one["nodes"] == ["n2"]] == ["idle, drain: broken fan"]


@pytest.mark.parametrize(
    ("speed", "after", "action"),
    [
        (188.0, IDLE, "back in service"),
        (91.0, ("IDLE+DRAIN", "slurmfab: gpu check: all_reduce 91.0 GB/s, wanted 120 (a100 x4)"), "stays drained"),
        ("the node was busy", ("IDLE+DRAIN", OURS), ""),
    ],
    ids=["well", "slow", "not measured"],
)
def test_a_node_that_a_check_has_drained_is_measured_behind_a_reservation_and_comes_back_only_when_well(
    tmp_path: Path, speed: Any, after: tuple[str, str], action: str
) -> None:
    bench = Bench(tmp_path, {"n1": speed}, {"n1": ("IDLE+DRAIN", OURS)})
    bench.run()
    assert bench.slurm.nodes["n1"] == after
    assert bench.wishes[0].is_reserved
    assert bench.slurm.asked[0].startswith("scontrol create reservation ReservationName=slurmfab_gpu_check Users=slurm")
    assert bench.slurm.asked[1] == "scontrol update NodeName=n1 State=RESUME"
    assert bench.slurm.asked[-1].startswith("scontrol delete")
    assert bench.told[0]["action"] == action
    assert not (tmp_path / "trial.json").exists()


def test_a_check_that_was_killed_is_put_right_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "trial.json").write_text(json.dumps({"n2": OURS}))
    bench = Bench(tmp_path, {"n1": 188.0, "n2": 90.0}, {"n1": IDLE, "n2": IDLE})
    bench.slurm.reserved = True
    assert bench.run(["n1"]) == 0
    assert bench.slurm.nodes["n2"] == ("IDLE+DRAIN", OURS)
    assert not bench.slurm.reserved


def test_the_history_holds_the_newest_runs(tmp_path: Path) -> None:
    for number in range(4):
        history.add(str(tmp_path), {"run": f"r{number}", "nodes": []})
    history.prune(str(tmp_path), 2)
    assert [one["run"] for one in history.entries(str(tmp_path))] == ["r2", "r3"]


def test_a_damaged_line_of_the_history_is_left_out(tmp_path: Path) -> None:
    (tmp_path / history.HISTORY_FILE).write_text('{"run": "r1"}\n{"run": "r2", "no\n[]\n{"run": "r3"}\n')
    assert [one["run"] for one in history.entries(str(tmp_path))] == ["r1", "r3"]


def test_of_pairs_the_node_to_blame_is_drained(tmp_path: Path) -> None:
    names = ("n1", "n2", "n3", "n4")
    speeds = {**dict.fromkeys(names, 188.0), "n1+n2": 20.0, "n2+n3": 21.0, "n3+n4": 87.0, "n4+n1": 86.0, "n2+n4": 19.0}
    bench = Bench(tmp_path, speeds, dict.fromkeys(names, IDLE), between_nodes=40)
    assert bench.run() == 1
    assert bench.slurm.nodes["n2"][1] == ("slurmfab: gpu check: all_reduce with n1 20.0 GB/s, wanted 40 (a100 x4)")
    assert [bench.slurm.nodes[name] for name in ("n1", "n3", "n4")] == [IDLE] * 3


def planned(*names: str, **more: Any) -> PlannedMeasurement:
    return PlannedMeasurement(tuple(gpu_nodes(Slurm(nodes=dict.fromkeys(names, IDLE)))), "main", 120.0, **more)


def test_within_a_node_one_process_has_all_gpus_and_between_nodes_there_is_one_for_each() -> None:
    alone, pair = arguments(planned("n1"), SETTINGS), arguments(planned("n1", "n2", is_reserved=True), SETTINGS)
    assert {"--ntasks=1", "--gres=gpu:4", "--nice=1000000000", "--exclusive", "--mpi=none", "--time=15"} <= set(alone)
    assert alone[-3:] == ["2", "-g", "4"]
    assert {"--nodelist=n1,n2", "--ntasks=8", "--ntasks-per-node=4", "--mpi=pmix"} <= set(pair)
    assert "--reservation=slurmfab_gpu_check" in pair
    assert pair[-2:] == ["-g", "1"]


WAITS = "{number}|PENDING|ann|{partition}|{nodes}|{needs}|Resources|train\n"


@pytest.mark.parametrize(
    ("waited_before", "job", "gives_way"),
    [
        (False, {}, True),
        (True, {}, False),
        (False, {"partition": "cpu"}, False),
        (False, {"needs": "n9"}, False),
        (False, {"needs": "n1"}, True),
        (True, {"nodes": 3}, True),
        (True, {"nodes": 4}, False),
    ],
    ids=["new", "could not use it", "elsewhere", "another node", "this node", "fits by now", "does not fit"],
)
def test_a_measurement_gives_way_to_a_job_that_could_start_without_it(
    waited_before: bool, job: dict[str, Any], gives_way: bool
) -> None:
    slurm = Slurm(idle=2)
    runner = Runner(slurm, SETTINGS, threading.Event(), 60)
    line = WAITS.format(**{"number": "7", "partition": "main", "nodes": 1, "needs": "", **job}).strip()
    others = waiting([queued_job(line.split("|"))])
    before = set(others) if waited_before else set()
    attempt = Attempt(planned("n1"), None, None, 0.0, before)  # type: ignore[arg-type]
    assert (runner.successor(attempt, others) is not None) is gives_way


@pytest.mark.parametrize(
    ("output", "code", "why", "is_measured"),
    [
        ("no all_reduce_perf\nsrun: error: n1: task 0: Exited with exit code 127\n", 127,
         "there is no all_reduce_perf: install nccl-tests", False),
        ("srun: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-21T18:00:00 DUE TO TIME LIMIT ***\n", 143,
         "does not end within 15 min", True),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-21T18:00:00 ***\n", 143,
         "its job was cancelled", False),
        ("srun: error: Unable to allocate resources: Invalid qos specification\n", 1,
         "exit code 1: srun: error: Unable to allocate resources: Invalid qos", False),
        ("n1: Test CUDA failure common.cu:1 'out of memory'\n", 3, "fails: Test CUDA failure", True),
        ("", 0, "no output", False),
    ],
)  # fmt: skip
def test_what_is_the_nodes_fault_is_told_from_what_is_not(output: str, code: int, why: str, is_measured: bool) -> None:
    measured, said = judge_output(planned("n1"), output, code, 15)
    assert why in said
    assert (measured is not None) is is_measured


OUR_JOB = "{number}|{state}|slurm|slurmfab|1|{node}|{reason}|slurmfab-gpu-check-{node}"


def our_job(number: int, node: str, state: str, reason: str = "None") -> QueuedJob:
    return queued_job(OUR_JOB.format(number=number, node=node, state=state, reason=reason).split("|"))


def test_what_becomes_of_the_jobs_is_reported_when_it_changes() -> None:
    told: list[Progress] = []
    runner = Runner(Slurm(), SETTINGS, threading.Event(), 60, told.append)
    runner.attempts = [Attempt(planned(name), None, None, 0.0) for name in ("n1", "n2", "n3")]  # type: ignore[arg-type]
    new = [our_job(1, "n1", "PENDING"), our_job(2, "n2", "PENDING"), our_job(3, "n3", "PENDING")]
    waits = [
        our_job(1, "n1", "RUNNING"),
        our_job(2, "n2", "PENDING", "Resources"),
        our_job(3, "n3", "PENDING", "Resources"),
    ]
    for jobs in (new, waits, waits, waits[1:], []):
        runner.report_progress({job.name: job for job in jobs})
    waiting_nodes = {"Resources": ["n2", "n3"]}
    assert told == [{"measuring": ["n1"], "waiting": waiting_nodes}, {"measuring": [], "waiting": waiting_nodes}]
    assert format_progress(told[0], ",".join) == "measuring: n1; waiting: n2,n3 (Resources)"


@pytest.mark.parametrize(
    ("names", "reason", "why"),
    [
        (("n1",), "Resources", "the node was busy"),
        (("n1", "n2"), "Priority", "the nodes were busy"),
        (("n1",), "None", "the node was busy"),
        (
            ("n1",),
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "the node was busy",
        ),
        (("n1",), "PartitionDown", "its job did not start; Slurm's reason: PartitionDown"),
        (("n1",), "QOSGrpGRES", "its job did not start; Slurm's reason: QOSGrpGRES"),
    ],
)
def test_a_job_that_does_not_start_in_time_is_told_with_the_reason(
    names: tuple[str, ...], reason: str, why: str
) -> None:
    assert why_not_started(planned(*names), our_job(1, "n1", "PENDING", reason)) == why


def test_an_entry_is_told_in_a_line_with_figure_and_threshold() -> None:
    entry = {"nodes": ["n1"], "gpus": "a100 x4", "outcome": "passed", "busbw": 188.23, "wanted": 120.0, "why": "",
             "action": "", "remark": ""}  # fmt: skip
    assert format_entry(entry) == "n1 [a100 x4]: passed; 188.2 GB/s (wanted 120.0)"


def test_of_two_checks_at_once_one_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({**SETTINGS, "directory": str(tmp_path)}))
    with (tmp_path / "lock").open("w") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(str(settings), "--json") == 4
    assert json.loads(capsys.readouterr().out) == {"refused": "another check is running (process 4711)"}


@pytest.mark.needs_root("only root can become other users")
def test_a_user_of_the_controller_cannot_open_what_a_check_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = []

    class Looks:
        """A check that looks who could stop it."""

        def __init__(self, *_: object) -> None:
            pass

        def run(self, _: object) -> int:
            met.append((locks_met_by(tmp_path), locks_met_by(tmp_path, 0, 0)))
            return 0

    monkeypatch.setattr(check_main, "Check", Looks)
    monkeypatch.setattr(check_main, "stop_event", lambda **_: threading.Event())
    tmp_path.chmod(0o755)
    (tmp_path / "lock").touch(0o644)  # as an earlier slurmfab left it
    (tmp_path / "settings.json").write_text(json.dumps({**SETTINGS, "directory": str(tmp_path)}))
    assert main(str(tmp_path / "settings.json")) == 0
    assert met == [([], ["lock"])]
