"""What the recovery program asks of Slurm, by what Slurm says, as tables; Slurm's commands are a stand-in."""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.programs.recovery import main as recovery

NOW = int(time.time())
OWN = socket.gethostname().partition(".")[0]
ME = pwd.getpwuid(os.getuid()).pw_name
CONTAINS = "Prolog = (null)\nPrologFlags = Alloc,Contain\nJobAcctGatherType = jobacct_gather/cgroup\n"
ASKS = ["scontrol update NodeName=n1 State=UNDRAIN"]


def at(seconds: int) -> str:
    """A time so many seconds ago, as Slurm prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW - seconds))


def node(state: str = "MIXED", *, name: str = "n1", booted: int = 100, reason: str = "", by: str = ME) -> str:
    why = f" Reason={reason} [{by}@{at(50)}]" if reason else ""
    return f"NodeName={name} State={state} BootTime={at(booted)} SlurmdStartTime={at(booted - 5)}{why}"


def job(
    state: str = "RUNNING", *, batch: int = 1, requeue: int = 1, began: int = 300, name: str = "7", where: str = "n1"
) -> str:
    first = "n1" if batch else "n/a"
    return "|".join(("7", name, "ann", state, str(batch), first, where, at(began), str(requeue), "\n"))


WIDE = [node(booted=9000), node(name="n2")]  # n2 has booted lately


class Slurm(Context):
    """STAND-IN for Slurm's commands: answers as it is told, and notes what would change something."""

    def __init__(self, **told: Any) -> None:
        super().__init__()
        self.changes: list[str] = []
        self.told = {
            "up": 90,
            "returns": 1,
            "nodes": [node()],
            "jobs": [],
            "alive": [],
            "queue": 0,
            "lost": "",
            "open": [],
            "more": CONTAINS,
            **told,
        }

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        told, words = self.told, " ".join(argv)
        if words == "scontrol ping":
            said = f"Slurmctld(primary) at {told.get('acting', OWN)} is UP\nSlurmctld(backup) at {OWN} is UP\n"
        elif words == "scontrol show config":
            said = f"BOOT_TIME = {at(told['up'])}\nReturnToService = {told['returns']}\n"
            said += f"AccountingStorageType = accounting_storage/slurmdbd\n{told['more']}"
        elif "show node" in words:
            said = "\n".join(told["nodes"])
        elif argv[0] == "squeue":
            said = f"12|{at(200)}|\n" if "--states=all" in argv else "".join(told["jobs"])
        elif words == "scontrol show hostnames n[1-2]":
            said = "n1\nn2\n"
        elif argv[0] == "sstat":
            said = "".join(f"{one}.extern||\n" for one in told["alive"])
        elif argv[0] == "sdiag":
            said = f"DBD Agent queue size: {told['queue']}\n"
        elif argv[0] == "sacct":
            mark = next(one for one in argv if one.startswith("--delimiter=")).partition("=")[2]
            rows: Sequence[Sequence[object]] = [(NOW - 300, "ann"), (NOW - 9, "root")]
            if "--state=PENDING,RUNNING,SUSPENDED" in argv:
                rows = [(number, number, "ann", "PENDING", NOW - 300, "Unknown") for number in told["open"]]
            said = "".join("".join(f"{one}{mark}" for one in row) + "\n" for row in rows)
        else:
            said = told["lost"] if argv[0] == "sacctmgr" else ""
            self.changes.append(words)
        return subprocess.CompletedProcess(argv, 0, said.encode(), b"")


def changes(memory: Path, **told: Any) -> list[str]:
    """The commands by which a run changes something."""
    slurm = Slurm(**told)
    assert recovery.recover(slurm, str(memory), NOW) == 0
    return slurm.changes


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


@pytest.fixture
def later(memory: Path) -> Path:
    """The memory of a controller whose nodes have registered once more, and whose lost jobs are told."""
    memory.write_text(json.dumps({"asked": float(NOW - 90), "told": True}))
    return memory


@pytest.mark.parametrize(
    ("told", "asks"),
    [
        ({}, ASKS),
        ({"nodes": [node("ALLOCATED")]}, ASKS),
        ({"jobs": [job("SUSPENDED")]}, ASKS),
        ({"jobs": [job("CONFIGURING")]}, []),
        ({"jobs": []}, []),
        ({"nodes": [node(booted=9000)]}, []),
        ({"jobs": [job(began=50)]}, []),
        ({"up": -600}, []),
        ({"acting": "another"}, []),
        ({"nodes": [node("MIXED+DRAIN")]}, []),
        ({"nodes": [node("ALLOCATED+NOT_RESPONDING")]}, []),
        ({"nodes": [node("MIXED+MAINTENANCE")]}, []),
        ({"nodes": [node("ALLOCATED+POWERING_UP")]}, []),
    ],
)
def test_when_slurmctld_has_been_up_for_half_a_minute_then_nodes_that_booted_under_jobs_register_once_more(
    memory: Path, told: dict[str, Any], asks: list[str]
) -> None:
    assert changes(memory, **{"jobs": [job()], **told}) == asks


def test_nodes_register_once_more_after_each_start_of_slurmctld_and_not_again(memory: Path) -> None:
    lost = job(), job(name="8", began=50)
    assert [changes(memory, queue=1, jobs=lost, alive=[7]) for _ in range(3)] == [ASKS, [], []]
    assert changes(memory, up=60, jobs=lost) == ASKS


@pytest.mark.parametrize(
    ("told", "ends"),
    [
        ({"jobs": [job()]}, ["scontrol requeue 7"]),
        ({"jobs": [job(requeue=0)]}, ["scancel --quiet -- 7"]),
        ({"jobs": [job(batch=2)]}, ["scontrol requeue 7"]),
        ({"jobs": [job(name="9_7")]}, ["scontrol requeue 7"]),
        ({"jobs": [job(name="6+1")]}, []),
        ({"jobs": [job(batch=0)]}, ["scancel --quiet -- 7"]),
        ({"jobs": [job(batch=0, where="n[1-2]")], "nodes": WIDE}, ["scancel --quiet -- 7"]),
        ({"jobs": [job(batch=0, where="n[1-2]")], "nodes": WIDE[:1]}, []),
        ({"jobs": [job(where="n[1-2]")], "nodes": WIDE}, []),
        ({"jobs": [job(batch=0, began=110)], "up": 120}, ["scancel --quiet -- 7"]),
        ({"jobs": [job()], "alive": [7]}, []),
        ({"jobs": [job(began=50)]}, []),
        ({"jobs": [job(began=101)]}, []),
        ({"jobs": [job(batch=0, began=95)], "nodes": [node(booted=9000)]}, ["scancel --quiet -- 7"]),
        ({"jobs": [job(batch=0, began=95)], "nodes": [node(booted=9000)], "more": "PrologFlags = Alloc\n"}, []),
        ({"jobs": [job(batch=0, began=95)], "nodes": [node(booted=9000)], "more": "Prolog[0] = /x\n" + CONTAINS}, []),
        ({"jobs": [job("CONFIGURING")]}, []),
        ({"jobs": [job(batch=1, began=95)], "nodes": [node(booted=9000)]}, []),
        ({"jobs": [job()], "nodes": [node("MIXED+DRAIN")]}, ["scontrol requeue 7"]),
        ({"jobs": [job()], "nodes": [node("MIXED+NOT_RESPONDING")]}, []),
        ({"jobs": [job()], "nodes": [node(booted=9000)], "up": 2000}, []),
    ],
)
def test_a_job_without_a_process_of_before_its_nodes_boot_then_waits_again_or_has_ended(
    later: Path, told: dict[str, Any], ends: list[str]
) -> None:
    later.write_text(json.dumps({"asked": float(NOW - told.get("up", 90)), "told": True}))
    assert changes(later, **told) == ends


@pytest.mark.parametrize(
    ("differs", "asks"),
    [
        ({}, True),
        ({"state": "UNKNOWN+POWERING_UP", "boot": "Unknown"}, True),
        ({"state": "IDLE+POWERED_DOWN"}, False),
        ({"boot": at(9000)}, False),
        ({"listens": False}, False),
        ({"up": 1000}, False),
        ({"up": 90, "edited": 80}, False),
    ],
)
def test_a_node_whose_waking_slurmctld_had_not_saved_then_registers_once_if_its_slurmd_listens_and_no_file_has_changed(
    memory: Path, tmp_path: Path, differs: dict[str, Any], asks: bool
) -> None:
    one = {"state": "ALLOCATED+POWERING_UP", "boot": "None", "listens": True, "up": 20, "edited": 5000, **differs}
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/slurm.conf").touch()
    now = int((tmp_path / "etc/slurm.conf").stat().st_ctime) + one["edited"]
    with socket.create_server(("127.0.0.1", 0)) as slurmd:
        port = slurmd.getsockname()[1]
        if not one["listens"]:
            slurmd.close()
        slurm = Slurm(
            nodes=[f"NodeName=n1 State={one['state']} NodeAddr=127.0.0.1 BootTime={one['boot']}"],
            more=f"SLURM_CONF = {tmp_path}/etc/slurm.conf\nSlurmdPort = {port}\n",
            up=NOW - now + one["up"],
        )
        for _ in range(2):
            recovery.recover(slurm, str(memory), now)
    assert slurm.changes.count("scontrol reconfigure") == int(asks)


@pytest.mark.parametrize(
    ("told", "resumed"),
    [
        ({}, True),
        ({"nodes": [node("DOWN", reason="Not responding : Not responding")]}, True),
        ({"nodes": [node("DOWN", reason=f"bad memory : {recovery.REBOOTED}")]}, False),
        ({"returns": 0}, False),
        ({"returns": 2}, False),
        ({"nodes": [node("DOWN", reason=recovery.REBOOTED, by="root-or-so")]}, False),
        ({"nodes": [node("DOWN", reason="bad memory")]}, False),
        ({"nodes": [node("DOWN+DRAIN", reason=recovery.REBOOTED)]}, False),
        ({"nodes": [node("DOWN+NOT_RESPONDING", reason=recovery.REBOOTED)]}, False),
    ],
)
def test_a_node_that_is_down_for_its_reboot_alone_then_comes_back(
    later: Path, told: dict[str, Any], resumed: bool
) -> None:
    rebooted = [node("DOWN", reason=recovery.REBOOTED)]
    wanted = ["scontrol update NodeName=n1 State=RESUME"] if resumed else []
    assert changes(later, **{"nodes": rebooted, **told}) == wanted


@pytest.mark.parametrize(
    ("state", "reason", "by", "resumed"),
    [
        ("IDLE+DRAIN", "Duplicate jobid", ME, ["scontrol update NodeName=n1 State=UNDRAIN"]),
        ("MIXED+DRAIN", "Duplicate jobid", ME, ["scontrol update NodeName=n1 State=UNDRAIN"]),
        ("DOWN", "Duplicate jobid : Not responding", ME, ["scontrol update NodeName=n1 State=RESUME"]),
        ("IDLE+DRAIN", "Duplicate jobid", "root-or-so", []),
        ("IDLE+DRAIN", "Duplicate jobid : bad memory", ME, []),
        ("IDLE+DRAIN+NOT_RESPONDING", "Duplicate jobid", ME, []),
    ],
)
def test_a_node_that_is_drained_for_a_job_that_slurmctld_started_twice_then_comes_back(
    later: Path, state: str, reason: str, by: str, resumed: list[str]
) -> None:
    assert changes(later, nodes=[node(state, reason=reason, by=by)]) == resumed


def test_a_node_that_reboots_for_the_fourth_time_in_a_day_then_stays_down_and_says_why(later: Path) -> None:
    rebooted = [node("DOWN", reason=recovery.REBOOTED)]
    found = [changes(later, nodes=rebooted) for _ in range(4)]
    assert found[:3] == [["scontrol update NodeName=n1 State=RESUME"]] * 3
    reason = "Node unexpectedly rebooted more than 3 times within a day"
    assert found[3] == [f"scontrol update NodeName=n1 Reason={reason}"]
    kept = json.loads(later.read_text())
    later.write_text(json.dumps({**kept, "returns": {"n1": [NOW - 90000]}}))
    assert changes(later, nodes=rebooted) == ["scontrol update NodeName=n1 State=RESUME"]


def test_jobs_that_slurmctld_has_lost_are_named_and_ended_once_slurmdbd_knows_what_slurmctld_knows(
    later: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later.write_text(json.dumps({"asked": float(NOW - 90), "told": False}))
    assert changes(later, queue=3) == []
    lost = f"NOTE: Runaway jobs are jobs that do not exist\n12|PENDING|{NOW - 300}\n"
    asked, ended = changes(later, lost=lost)
    assert (asked, ended) == (ended.replace(" --immediate", ""), ended)
    assert asked != ended
    assert "job 12 of ann is lost: slurmctld stopped before it had saved it (PENDING" in capsys.readouterr().err
    assert changes(later, lost=lost) == []


def test_a_lost_job_whose_number_another_job_has_now_is_named_once_and_ended_when_that_one_has_ended(
    later: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later.write_text(json.dumps({"asked": float(NOW - 90), "told": False}))
    for _ in range(2):
        assert len(changes(later, open=[12])) == 1, "slurmdbd is asked, and nothing is ended"
    assert capsys.readouterr().err.count("job 12 of ann is lost") == 1
    _, ended = changes(later, lost=f"12|PENDING|{NOW - 300}\n")
    assert "immediate" in ended
    assert "is lost" not in capsys.readouterr().err
    assert changes(later, open=[12]) == []


def test_lost_jobs_are_looked_for_until_each_is_old_enough_to_be_judged(later: Path) -> None:
    later.write_text(json.dumps({"asked": float(NOW - 50), "told": False}))
    assert [len(changes(later, up=50)) for _ in range(2)] == [1, 1]


def test_older_jobs_that_slurmctld_does_not_know_are_told_and_left_to_an_administrator(
    later: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later.write_text(json.dumps({"asked": float(NOW - 90), "told": False}))
    (asked,) = changes(later, lost=f"12|PENDING|{NOW - 300}\n13|RUNNING|{NOW - 9 * 86400}\n")
    assert "immediate" not in asked
    assert "also old ones; all are left to an admin" in capsys.readouterr().err
