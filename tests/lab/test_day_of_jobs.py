"""A day of jobs, condensed: whatever is printed meanwhile is what squeue, sinfo and sacct say.

Three users, one with a limit, run jobs that end well, fail, take too much memory or time, are cancelled, held and
requeued; a node is drained and comes back. All the while an administrator deploys, looks and tries.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from lab_cluster import DeployedLab, eventually
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

KEYS = """\
database: ctl
accounts: [{name: physics}, {name: maths}]
users:
  - {name: ada, uid: 3001, accounts: physics}
  - {name: bob, uid: 3002, accounts: physics, GrpTRES: gres/gpu=1}
  - {name: eve, uid: 3003, accounts: maths, MaxJobs: 1}
"""
SUBMIT = "cd /tmp && runuser -u {} -- sbatch --parsable --mem=50 --output=/dev/null {} --wrap '{}'"
QUEUE = "squeue -h -r -o '%i|%u|%T|%C|%b|%P|%r' | sort"
NODES = "sinfo -h -N -p main -o '%N|%T|%C' | sort"
HISTORY = "sacct -anPXD -S {} -o JobID,User,Account,State,ExitCode,CPUTimeRAW,AllocTRES,NodeList"
HUNGRY = 'exec python3 -c "x = bytes([1]) * (300 << 20)"'
REASON = "loud fan"


@dataclass(frozen=True)
class Day:
    """A cluster with jobs.

    Args:
        lab: the cluster.
        since: when the day began, as Slurm's commands take it.
        jobs: the numbers of jobs that do not merely end well, by what becomes of them.
    """

    lab: DeployedLab
    since: str
    jobs: dict[str, str] = field(default_factory=dict)

    def submit(self, user: str, options: str, script: str) -> str:
        """A user's job; its number."""
        return self.lab.on("ctl", SUBMIT.format(user, options, script))

    def rows(self, question: str) -> list[list[str]]:
        """What a command of Slurm's prints, by line and column."""
        return [line.split("|") for line in self.lab.on("ctl", question).splitlines()]

    def still(self, look: Callable[[], Any]) -> tuple[Any, list[list[str]], list[list[str]]]:
        """What a command of slurmfab says, and jobs and nodes, which were the same before it and after it."""
        told: list[Any] = []

        def is_still() -> bool:
            before = self.rows(QUEUE), self.rows(NODES)
            told[:] = [look(), *before]
            return before == (self.rows(QUEUE), self.rows(NODES))

        eventually(is_still, "jobs and nodes stay as they are while they are looked at", 120)
        return told[0], told[1], told[2]

    def told(self, *words: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
        """The JSON of a command of slurmfab."""
        done = self.lab.slurmfab(*words, "--json", "-")
        assert done.returncode in codes, words_of(done)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def failures(self) -> dict[str, str]:
        """The checks that fail now, with their causes, while other jobs may be in the way of those of checks."""
        done = self.told("check-cluster", codes=(0, 1, 5))
        outcomes = Counter(one["outcome"] for one in done["checks"])
        assert (done["passed"], done["failed"], done["not_run"]) == (
            outcomes["passed"],
            outcomes["failed"],
            outcomes["not run"],
        )
        assert done["exit_code"] == (1 if outcomes["failed"] else 5 if outcomes["not run"] else 0)
        return {
            f"{one['group']}.{one['check']}/{one['host']}": one["cause"]
            for one in done["checks"]
            if one["outcome"] == "failed"
        }


def gpus(text: str) -> int:
    """The GPUs of a job as squeue writes them, such as `gres/gpu:1`."""
    return int(text.rpartition(":")[2]) if "gpu" in text else 0


def counted(jobs: list[list[str]]) -> dict[str, int]:
    """The figures of some rows of squeue."""
    running = [row for row in jobs if row[2] != "PENDING"]
    return {
        "running": len(running),
        "pending": len(jobs) - len(running),
        "cpus": sum(int(row[3]) for row in running),
        "gpus": sum(gpus(row[4]) for row in running),
    }


def usage(nodes: list[list[str]]) -> Mapping[str, int]:
    """The CPUs of some rows of sinfo."""
    used, idle, other, total = (sum(int(row[2].split("/")[place]) for row in nodes) for place in range(4))
    return {"total": total, "used": used, "free": idle, "unavailable": other}


def page_of(day: Day, place: Path) -> str:
    """The words of the report's page."""
    done = day.lab.slurmfab("report", "--output", str(place))
    assert done.returncode in (0, 1), words_of(done)
    return " ".join(unescape(re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", place.read_text(), flags=re.S)).split())


def agrees(day: Day, place: Path) -> None:
    """Status, as text and as JSON, and the report have the figures of squeue and sinfo."""
    status, jobs, nodes = day.still(lambda: day.told("status"))
    all_of_them, cpus = counted(jobs), usage(nodes)
    assert status["jobs"] == {name: all_of_them[name] for name in ("running", "pending")}
    assert {one["name"]: {name: one[name] for name in all_of_them} for one in status["users"]} == {
        user: counted([row for row in jobs if row[1] == user]) for user in {row[1] for row in jobs}
    }
    assert status["cpus"] == cpus
    assert {name: status["gpus"][name] for name in ("total", "used")} == {"total": 2, "used": all_of_them["gpus"]}
    (main,) = status["partitions"]
    assert (main["running"], main["pending"], main["cpus"]) == (*status["jobs"].values(), cpus)
    out = {row[0] for row in nodes if "drain" in row[1]}
    assert status["nodes"]["total"] == len(nodes)
    assert {one["nodes"]: one["reason"] for one in status["nodes"]["states"] if one["reason"]} == {
        node: one["reason"] for node in out for one in status["nodes"]["states"] if one["nodes"] == node
    }
    assert all(REASON in one["reason"] for one in status["nodes"]["states"] if one["nodes"] in out)
    text, jobs, _ = day.still(lambda: day.lab.slurmfab("status").stdout)
    now = counted(jobs)
    assert f"Jobs:       {now['running']} running, {now['pending']} pending" in text
    page, jobs, nodes = day.still(lambda: page_of(day, place))
    now, cpus = counted(jobs), usage(nodes)
    for words in (
        f"Jobs running {now['running']} now",
        f"Jobs waiting {now['pending']} in the queue",
        f"CPUs in use {cpus['used']} of {cpus['total']}",
        f"GPUs in use {now['gpus']} of 2",
        f"Nodes in service {len(nodes) - len(out)} of {len(nodes)}",
    ):
        assert words in page, f"{words} is not in {page[:3000]}"


@pytest.fixture(scope="module", params=in_turn("day_of_jobs"))
def day(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Day]:
    with stock.copy(request.param, database=True, nodes=3, gpus=("n1:2",)) as lab:
        lab.inventory_path.write_text(lab.inventory_path.read_text() + KEYS)
        lab.deploy()
        lab.until("ctl", "sinfo -h -N -t idle -p main -o %N | wc -l", "3", patience=120)
        yield Day(lab, lab.on("ctl", "date +%Y-%m-%dT%H:%M:%S"))


def test_a_user_whose_limit_is_one_gpu_is_tried_with_one(day: Day) -> None:
    told = day.told("quickcheck", "--user", "bob", "--only", "gpus")
    (line,) = told["checks"]
    assert (line["outcome"], line["host"]) == ("passed", "n1"), line
    assert line["words"].startswith("a job with one "), line
    assert "; not with all 2: a limit holds the job of bob. Slurm's reason: AssocGrp" in line["words"], line


def test_while_jobs_run_and_wait_status_and_report_have_their_numbers(day: Day, tmp_path: Path) -> None:
    for options in ("--gres=gpu:1", "--gres=gpu:1"):
        day.submit("ada", f"-w n1 {options}", "sleep 3600")
    # As of a notebook: it listens as long as it runs.
    day.submit("eve", "--array=1-3 -w n2", "exec python3 -m http.server 8099")
    day.submit("bob", "--hold", "true")
    day.jobs["cancelled"] = day.submit("bob", "-w n3", "sleep 3600")
    day.lab.until("ctl", "squeue -h -r -t RUNNING -o %u | sort | xargs", "ada ada bob eve", patience=90)
    day.lab.until(
        "ctl", "squeue -h -r -t PENDING -o %r | sort | xargs", "AssocMaxJobsLimit AssocMaxJobsLimit JobHeldUser"
    )
    agrees(day, tmp_path / "page.html")
    hers = day.told("status", "--user", "eve")["user"]
    assert sum(one["tasks"] for one in hers["jobs"] if one["state"] == "PENDING") == 2
    assert {one["reason"] for one in hers["jobs"] if one["state"] == "PENDING"} == {"AssocMaxJobsLimit"}
    (limit,) = hers["limits"]["associations"]
    assert limit["limits"] == {"MaxJobs": "1"}


def test_a_change_counts_the_jobs_that_it_leaves_alone(day: Day) -> None:
    text = day.lab.inventory_path.read_text()
    day.lab.inventory_path.write_text(f"{text}slurm_conf: {{KillWait: 31}}\n")
    done, jobs, _ = day.still(lambda: day.lab.slurmfab("deploy"))
    assert done.returncode == 0, words_of(done)
    # The first look may have been at jobs that were still moving; then nothing was left to change.
    running = counted(jobs)["running"]
    said = words_of(done)
    assert f"Jobs: {running} ran before, {running} run now." in said or "nothing changed" in said, said
    again = day.lab.slurmfab("deploy")
    assert (again.returncode, "nothing changed on 4 hosts, all is as wanted" in words_of(again)) == (0, True)


def test_while_a_hundred_jobs_pass_through_nothing_is_told_to_be_broken(day: Day) -> None:
    day.submit("ada", "--array=1-60", "true")
    for _ in range(10):
        day.submit("bob", "", "exit 3")
    day.submit("bob", "--array=1-40", "srun true")
    day.jobs["failed"] = day.submit("bob", "", "exit 7")
    day.jobs["out of memory"] = day.submit("bob", "-w n3", HUNGRY)
    day.jobs["timeout"] = day.submit("bob", "-w n3 --time=1", "sleep 3600")
    day.jobs["requeued"] = day.submit("ada", "-w n3 --requeue", 'test -n "$SLURM_RESTART_COUNT" || sleep 3600')
    assert day.failures() == {}
    done = day.lab.slurmfab("deploy")
    assert (done.returncode, "nothing changed" in words_of(done)) == (0, True), words_of(done)
    quick = day.told("quickcheck", codes=(0, 1, 3))
    assert [one for one in quick["checks"] if one["outcome"] == "failed"] == []
    day.lab.on("ctl", f"scancel {day.jobs['cancelled']}")


def test_a_drained_node_is_out_of_service_for_all_and_nothing_else_is(day: Day, tmp_path: Path) -> None:
    for name in ("timeout", "requeued"):
        day.lab.until("ctl", f"squeue -h -j {day.jobs[name]} -o %T", "RUNNING", patience=180)
    assert day.lab.slurmfab("drain", "n3", "--reason", REASON).returncode == 0
    day.lab.on("ctl", f"scontrol requeue {day.jobs['requeued']}")
    found = day.failures()
    assert set(found) == {"nodes.node_takes_jobs/n3"}
    assert REASON in found["nodes.node_takes_jobs/n3"]
    agrees(day, tmp_path / "page.html")
    told = words_of(day.lab.slurmfab("deploy"))
    assert "nothing changed" in told
    assert "failed, and this run changed nothing about it: nodes: the node is in service in Slurm (n3)." in told, told
    assert day.lab.slurmfab("resume", "n3").returncode == 0
    day.lab.on("ctl", f"scontrol update JobId={day.jobs['requeued']} StartTime=now")


def test_in_the_evening_usage_and_logs_have_what_became_of_each_job(day: Day) -> None:
    day.lab.until("ctl", f"squeue -h -j {day.jobs['timeout']}", "", patience=180)
    day.lab.until("ctl", "squeue -h -r -t RUNNING,PENDING -u bob -o %i | wc -l", "1", patience=180)
    day.lab.on("ctl", "scancel -u eve; scancel -u bob; scancel -u ada --state=RUNNING -w n1")
    day.lab.until("ctl", "squeue -h", "", patience=180)
    day.lab.until("ctl", "sacct -anPX -s running,pending -o JobID", "")
    shown = [[*row[:3], row[3].partition(" ")[0], *row[4:]] for row in day.rows(HISTORY.format(day.since))]
    ends = {row[0]: (row[3], row[4]) for row in shown}
    states = Counter(row[3] for row in shown)
    assert ends[day.jobs["failed"]] == ("FAILED", "7:0")
    assert [ends[day.jobs[name]][0] for name in ("cancelled", "out of memory", "timeout", "requeued")] == [
        "CANCELLED",
        "OUT_OF_MEMORY",
        "TIMEOUT",
        "COMPLETED",
    ]
    assert states["FAILED"] >= 11
    assert states["COMPLETED"] >= 100
    ran = [row for row in shown if row[7] != "None assigned"]
    told = day.told("usage", "--since", day.since, "--by", "account,user")
    assert {(one["account"], one["user"]): (one["jobs"], one["cpu_seconds"]) for one in told["rows"]} == {
        (account, user): (
            sum(row[1:3] == [user, account] for row in ran),
            sum(int(row[5]) for row in ran if row[1:3] == [user, account]),
        )
        for user, account in {(row[1], row[2]) for row in ran}
    }
    for name, job in day.jobs.items():
        logged = day.told("logs", job)["job"]
        assert logged["state"] == ends[job][0]
        # Of a job that Slurm has ended, slurmctld tells the signal, and slurmdbd none.
        assert name in ("cancelled", "timeout") or logged["exit_code"] == ends[job][1]
    assert day.failures() == {}
    last = day.lab.slurmfab("deploy")
    assert (last.returncode, "nothing changed on 4 hosts, all is as wanted" in words_of(last)) == (0, True)
