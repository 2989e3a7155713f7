"""GPUs that are measured by a timer and when asked: slow nodes go and come back, users come first.

There are no GPUs: all_reduce_perf on lab hosts is a stand-in that prints the figures of a table.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from lab_cluster import PROGRAM, DeployedLab, ended, eventually, succeeded
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

KEY = 'gpu_checks: {when: "03:30", min_busbw: 120, between_nodes: 80, mpi: none, arguments: "-b 2G -e 8G -f 2"}\n'
TABLE = "/etc/slurmfab-lab/nccl-table"
SLOW = f"sed -i -E 's/^([0-9]+) [0-9.]+ [0-9.]+/\\1 98.4 98.2/' {TABLE}"
SLOW_BETWEEN = f"sed -i -E 's/^between ([0-9]+) [0-9.]+/between \\1 40.1/' {TABLE}"
WRONG = f"sed -i -E 's/ 0$/ 3/' {TABLE}"
LONG = f"sed -i 's/^seconds .*/seconds 60/' {TABLE}"
BROKEN = f"echo 'error unhandled cuda error' >> {TABLE}"
UNTIL_TOLD = (
    "cd /tmp; runuser -u nobody -- sbatch --parsable -w n2 -o /dev/null"
    " --wrap 'until [ -e /tmp/end ]; do sleep 0.1; done'"
)
RUNNING = "squeue -h -o '%T %j'"
STATE = "scontrol -o show node n2 | grep -o 'State=[A-Z+*]*'"
REASON = "sinfo -h -R -o '%u %E'"
LEFT = "squeue -h; scontrol -o show reservation | grep slurmfab; pgrep -f [g]pu-check/run.py; pgrep -x srun"
"""Prints what a check must not leave."""


HOSTILE_NAMES = (
    "\n\n",
    "x\n--partition=main|RUNNING|slurm|main|1||None|slurmfab-gpu-check-n1",
    "x\n--partition=main|ann|PENDING|n2|y",
    "x\n99|99|root|main|RUNNING|None|1|1|1|0:05|1:00|n[|cpu=1|N/A|N/A|N/A|forged|",
    "\x1b[2J\x1b]52;c;eA==\x07|\u2028all is as wanted",
)
"""Names in which Slurm's own output goes on, for programs that read it by lines and separators."""

INSTALLED = (
    "systemctl list-unit-files --no-legend 'slurmfab-gpu-check.*'; ls -d /usr/local/lib/slurmfab/gpu-check "
    "/etc/slurmfab-gpu-check.json 2>/dev/null"
)
"""Prints what a deployment without the key must not leave."""


@dataclass
class Bench:
    """A deployed cluster of a controller and two nodes with two stand-in GPUs each."""

    hosts: DeployedLab

    def measured(self, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
        """What `check-gpus` says of each node and pair, when it ends with this exit code."""
        done = ended(self.hosts.slurmfab("check-gpus", "--json", "-", *words), code)
        return {"-".join(one["nodes"]): one for one in json.loads(done.stdout)["measurements"]}

    def table(self, host: str, *changes: str) -> None:
        """Give a host its figures back, and change them."""
        self.hosts.on(host, "; ".join((f"cp {TABLE}.well {TABLE}", *changes)))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start slurmfab, to be interrupted."""
        return subprocess.Popen(
            ["env", "--default-signal=INT", *PROGRAM, *words, "--cluster", str(self.hosts.inventory_path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module", params=in_turn("gpu_checks"))
def lab_of_suite(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Bench]:
    with stock.copy(request.param, nodes=2, gpus=("n1:2", "n2:2")) as hosts:
        with Path(hosts.inventory_path).open("a") as file:
            file.write(KEY)
        hosts.deploy()
        for host in ("n1", "n2"):
            hosts.on(host, f"cp {TABLE} {TABLE}.well")
        yield Bench(hosts)


@pytest.fixture
def bench(lab_of_suite: Bench) -> Iterator[Bench]:
    yield lab_of_suite
    for host in ("n1", "n2"):
        lab_of_suite.table(host)
    lab_of_suite.hosts.until("ctl", LEFT, "")


def test_a_second_deployment_when_the_checks_are_there_then_nothing_changes(bench: Bench) -> None:
    assert bench.hosts.on("ctl", "systemctl is-enabled slurmfab-gpu-check.timer") == "enabled"
    assert "nothing changed" in words_of(bench.hosts.slurmfab("deploy"))


def test_the_timers_service_when_all_nodes_are_well_then_it_ends_well_and_the_history_has_the_figures(
    bench: Bench,
) -> None:
    bench.hosts.on("ctl", "systemctl start slurmfab-gpu-check")
    journal = bench.hosts.on("ctl", "journalctl --sync; journalctl --no-pager -o cat -u slurmfab-gpu-check")
    assert "n1-n2 [" in journal
    assert "Checked: 3 passed" in journal
    history = bench.hosts.slurmfab("check-gpus", "--history", "--hosts", "n1")
    assert "passed; 188.1 GB/s (wanted 120.0)" in words_of(history)
    assert bench.hosts.on("ctl", "stat --format=%U /var/lib/slurmfab/gpu-checks/history.jsonl") == "slurm"
    checked = bench.hosts.slurmfab("check-cluster", "--only", "performance", "--json", "-")
    assert (checked.returncode, json.loads(checked.stdout)["failed"]) == (0, 0), words_of(checked)


def test_a_slow_node_when_it_is_measured_then_it_is_drained_with_the_figure_and_comes_back_once_it_is_well(
    bench: Bench,
) -> None:
    bench.table("n2", SLOW)
    bench.hosts.on("ctl", "! systemctl start slurmfab-gpu-check")
    kind = bench.hosts.on("ctl", "scontrol -o show node n1 | grep -o 'Gres=gpu:[^(: ]*' | cut -d: -f2")
    reason = f"slurm slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120 ({kind} x2)"
    assert bench.hosts.on("ctl", REASON) == reason
    checked = bench.hosts.slurmfab("check-cluster", "--only", "performance")
    assert (checked.returncode, "n2: all_reduce 98.2 GB/s, wanted 120" in words_of(checked)) == (1, True)

    still = bench.measured("--hosts", "n2", code=1)["n2"]
    assert (still["action"], still["first_busbw"]) == ("stays drained", 98.2)
    assert bench.hosts.on("ctl", REASON) == reason

    bench.table("n2")
    assert bench.measured("--hosts", "n2")["n2"]["action"] == "back in service"
    bench.hosts.until("ctl", STATE, "State=IDLE")
    assert bench.hosts.on("ctl", REASON) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [(WRONG, "all_reduce has 18 wrong values"), (BROKEN, "all_reduce fails: Test NCCL failure")],
    ids=["wrong values", "failure"],
)
def test_a_node_with_wrong_values_or_failures_when_it_is_only_measured_then_it_is_told_and_stays(
    bench: Bench, change: str, why: str
) -> None:
    bench.table("n2", change)
    found = bench.measured("--no-drain", "--hosts", "n2", code=1)["n2"]
    assert found["why"].startswith(why)
    assert bench.hosts.on("ctl", REASON) == ""


def test_a_pair_when_it_falls_short_and_nobody_knows_by_whom_then_it_is_told_and_nobody_is_drained(
    bench: Bench,
) -> None:
    bench.table("n1", SLOW_BETWEEN)
    found = bench.measured(code=1)
    assert found["n1"]["outcome"] == found["n2"]["outcome"] == "passed"
    assert found["n1-n2"]["why"] == "all_reduce 40.1 GB/s, wanted 80"
    assert found["n1-n2"]["remark"] == "it is unknown which node is the cause"
    assert bench.hosts.on("ctl", REASON) == ""


def test_a_node_when_an_admin_has_drained_it_then_it_is_not_measured_and_its_reason_stays(bench: Bench) -> None:
    bench.table("n2", SLOW)
    bench.hosts.on("ctl", "scontrol update NodeName=n2 State=DRAIN Reason='broken fan'")
    try:
        found = bench.measured(code=3)["n2"]
        assert (found["outcome"], found["why"]) == ("not measured", "idle, drain: broken fan")
        assert bench.hosts.on("ctl", REASON) == "root broken fan"
    finally:
        bench.hosts.on("ctl", "scontrol update NodeName=n2 State=RESUME")
        bench.hosts.until("ctl", STATE, "State=IDLE")


def test_a_check_when_a_job_comes_to_wait_for_its_node_then_it_gives_way(bench: Bench) -> None:
    bench.table("n2", LONG)
    check = bench.start("check-gpus", "--hosts", "n2")
    bench.hosts.until("ctl", RUNNING, "RUNNING slurmfab-gpu-check-n2")
    job = bench.hosts.on("ctl", UNTIL_TOLD)
    said, _ = check.communicate(timeout=60)
    assert (check.returncode, f"not measured; stopped for job {job} of nobody" in said) == (3, True), said
    assert "measuring: n2" in said.splitlines()
    bench.hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")

    found = bench.measured("--hosts", "n2", "--wait", "0", code=3)["n2"]
    assert found["why"] == "the node was busy"
    assert bench.hosts.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"

    bench.table("n2")
    check = bench.start("check-gpus", "--hosts", "n2")
    assert check.stdout is not None
    told = next(line for line in check.stdout if "waiting" in line)
    assert told in ("waiting: n2 (Resources)\n", "waiting: n2 (Priority)\n")
    bench.hosts.on("n2", "touch /tmp/end")
    said, _ = check.communicate(timeout=60)
    assert (check.returncode, "n2 [" in said) == (0, True), said
    bench.hosts.until("ctl", STATE, "State=IDLE")


def test_a_check_when_it_is_interrupted_or_killed_then_its_jobs_are_gone_at_once_or_with_the_next(
    bench: Bench,
) -> None:
    bench.table("n2", LONG)
    check = bench.start("check-gpus", "--hosts", "n2")
    bench.hosts.until("ctl", RUNNING, "RUNNING slurmfab-gpu-check-n2")
    check.send_signal(signal.SIGINT)
    said, _ = check.communicate(timeout=60)
    assert (check.returncode, "Traceback" in said) == (130, False), said
    bench.hosts.until("ctl", "squeue -h; pgrep -x srun", "")

    bench.hosts.on("ctl", "systemctl start --no-block slurmfab-gpu-check")
    eventually(
        lambda: "RUNNING slurmfab-gpu-check-n2" in bench.hosts.on("ctl", RUNNING), "the timer's check measures n2"
    )
    refused = bench.hosts.slurmfab("check-gpus")
    assert (refused.returncode, "another check is running" in words_of(refused)) == (1, True)
    bench.hosts.on("ctl", "systemctl kill --signal=KILL slurmfab-gpu-check")
    bench.hosts.until("ctl", "systemctl is-active slurmfab-gpu-check", "failed")
    assert "slurmfab-gpu-check-n2" in bench.hosts.on("ctl", RUNNING)
    bench.table("n2")
    assert bench.measured("--hosts", "n2")["n2"]["outcome"] == "passed"


def submitted(bench: Bench, user: str, options: str, name: str) -> str:
    """The number of a user's job, which lasts."""
    words = f"{options} --mem=50 --job-name={quote(name)} --comment={quote(name)} -o /dev/null --wrap 'sleep 3600'"
    return bench.hosts.on("ctl", f"cd /tmp && runuser -u {user} -- sbatch --parsable {words}")


def test_jobs_whose_names_look_like_other_jobs_and_options_when_their_node_goes_then_nobody_elses_job_is_hurt(
    bench: Bench,
) -> None:
    hosts = bench.hosts
    for host in ("ctl", "n1", "n2"):
        hosts.on(host, "useradd -M -u 2001 ann && useradd -M -u 2002 mallory")
    # A site may set this for the people who look at its queue.
    hosts.on("ctl", "echo 'SQUEUE_FORMAT=%i' >>/etc/environment")
    hers = submitted(bench, "ann", "-w n1", "hers")
    hostile = {submitted(bench, "mallory", f"-w n2 {'' if number else '--exclusive'}", name): name
               for number, name in enumerate(HOSTILE_NAMES)}  # fmt: skip
    running = f"squeue -h -o '%i %T %S' -j {hers}"
    hosts.until("ctl", "squeue -h -o %T -t RUNNING", "RUNNING\nRUNNING")
    begun = hosts.on("ctl", running)
    left = submitted(bench, "slurm", "--hold", "slurmfab-gpu-check-n2")

    assert bench.measured("--hosts", "n2", "--wait", "0", code=3)["n2"]["why"] == "the node was busy"
    assert hosts.on("ctl", f"squeue -h -o %T -j {left}", check=False) == ""
    told = json.loads(hosts.slurmfab("status", "--user", "mallory", "--json", "-").stdout)
    assert {job["id"]: job["name"] for job in told["user"]["jobs"]} == hostile
    assert told["jobs"] == {"running": 2, "pending": len(HOSTILE_NAMES) - 1}
    assert {one["name"] for one in told["users"]} == {"ann", "mallory"}
    checked = hosts.slurmfab("check-cluster", "--only", "jobs", "--json", "-")
    assert json.loads(checked.stdout)["failed"] == 0, words_of(checked)
    assert "all of n2 is taken by jobs" in checked.stdout
    drained = hosts.slurmfab("drain", "n2", "--reason", "new disks")
    assert (drained.returncode, f"Still running there: {min(hostile)} (mallory)." in drained.stderr) == (0, True)

    succeeded(hosts.slurmfab("remove-node", "n2", "--now"))
    assert hosts.on("ctl", "squeue -h -o %i") == hers
    assert hosts.on("ctl", running) == begun
    hosts.on("ctl", "scancel --user=ann")


def test_the_key_when_it_is_taken_out_then_program_and_units_go_and_the_history_stays(bench: Bench) -> None:
    file = Path(bench.hosts.inventory_path)
    file.write_text(file.read_text().replace(KEY, ""))
    refused = bench.hosts.slurmfab("check-gpus")
    assert (refused.returncode, "has no gpu_checks" in words_of(refused)) == (2, True)
    bench.hosts.deploy()
    assert bench.hosts.on("ctl", INSTALLED, check=False) == ""
    assert bench.hosts.on("ctl", "wc -l < /var/lib/slurmfab/gpu-checks/history.jsonl") != "0"
    assert "nothing changed" in words_of(bench.hosts.slurmfab("deploy"))
    file.write_text(file.read_text() + KEY.replace('"-b 2G -e 8G -f 2"', '"-b 4G -e 8G -f 2"'))
    first = bench.hosts.slurmfab("check-gpus")
    assert (first.returncode, "First: slurmfab deploy" in words_of(first)) == (2, True)
