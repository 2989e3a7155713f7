"""`fab usage` beside sreport after real jobs: the same seconds for each user, account and TRES."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from lab_cluster import DeployedLab, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

TREE = """\
partitions:
  - {PartitionName: main, Nodes: ALL, Default: YES}
  - {PartitionName: gpu, Nodes: n1}
database: ctl
accounts:
  - {name: physics}
  - {name: maths}
users:
  - {name: ada, uid: 4001, accounts: "physics,maths"}
  - {name: bob, uid: 4002, accounts: maths}
"""
SUBMIT = "cd /tmp && runuser -u {} -- sbatch --parsable --mem=50 -o /dev/null {} --wrap '{}'"
MYSQL = "mariadb -N slurm_acct_db -e"
SREPORT = (
    "sreport -nP -t Seconds --tres=cpu,gres/gpu cluster AccountUtilizationByUser start={} end={}"
    " format=Account,Login,TresName,Used"
)
BEGINS_EARLIER = 2 * 3600 + 17 * 60 + 5
"""Seconds by which the records of one job are moved back, so that it began before the window and ended in it."""


@dataclass(frozen=True)
class Used:
    """A cluster on which jobs have run.

    Args:
        lab: the cluster.
        since: the begin of a window of whole hours, in which one of the jobs had begun already.
        until: its end, the last full hour, to which sreport's figures go.
        before: the begin of a longer window, in which all jobs began.
        early: that job.
    """

    lab: DeployedLab
    since: str
    until: str
    before: str
    early: str

    def usage(self, *words: str, since: str = "") -> Any:
        """What `usage` prints as JSON."""
        done = succeeded(self.lab.slurmfab("usage", "--since", since or self.since, "--json", "-", *words))
        return json.loads(done.stdout)

    def sreport(self, since: str = "") -> dict[tuple[str, str], tuple[int, int]]:
        """The CPU and GPU seconds of each user in each account, from sreport."""
        shown = self.lab.on("ctl", SREPORT.format(since or self.since, self.until))
        rows = [line.split("|") for line in shown.splitlines()]
        used = {(account, login, tres): int(value) for account, login, tres, value in rows if login}
        pairs = {(account, login) for account, login, _ in used}
        found = {pair: (used.get((*pair, "cpu"), 0), used.get((*pair, "gres/gpu"), 0)) for pair in pairs}
        return {pair: seconds for pair, seconds in found.items() if any(seconds)}


def submit(lab: DeployedLab, user: str, options: str, script: str) -> str:
    """A job of a user's; its number."""
    return lab.on("ctl", SUBMIT.format(user, options, script))


@pytest.fixture(scope="module", params=in_turn("usage"))
def used(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Used]:
    """Jobs with and without GPUs: an array, cancelled, requeued and suspended ones, one that began before."""
    with stock.copy(request.param, database=True, nodes=2, gpus=("n1:2",)) as lab:
        lab.inventory_path.write_text(lab.inventory_path.read_text().partition("partitions:")[0] + TREE)
        lab.deploy()
        since = int(lab.on("ctl", "date +%s")) - 2 * 3600
        early = submit(lab, "ada", "-A physics --gres=gpu:2", "sleep 3")
        submit(lab, "ada", "-A maths", "srun sleep 2")
        submit(lab, "bob", "-p gpu --array=1-3", "sleep 1")
        submit(lab, "bob", "-n 2", "exit 3")
        again = submit(lab, "bob", "--requeue", 'test -n "$SLURM_RESTART_COUNT" || sleep 900')
        cancelled = submit(lab, "bob", "", "sleep 900")
        held = submit(lab, "bob", "--hold", "sleep 900")
        paused = submit(lab, "ada", "-A maths", "sleep 4")
        for job in (again, cancelled, paused):
            lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
        lab.on("ctl", f"scontrol requeue {again}; scancel {cancelled} {held}")
        begun = int(lab.on("ctl", f"scontrol suspend {paused}; date +%s"))
        lab.until("ctl", f"test $(date +%s) -gt {begun + 3} && echo later", "later")
        lab.on("ctl", f"scontrol resume {paused}")
        # Slurm lets a requeued job wait for two minutes.
        lab.until("ctl", f"squeue -h -j {again} -o %T", "PENDING")
        lab.on("ctl", f"scontrol update JobId={again} StartTime=now")
        lab.until("ctl", "squeue -h", "")
        lab.until("ctl", "sacct -anP -X -s running,pending -o JobID", "")
        moved = lab.on("ctl", f"{MYSQL} 'show tables' | grep job_table$")
        # slurmctld tells when tasks of arrays were eligible some seconds after their end; until then they do not count.
        late = f"{MYSQL} 'select count(*) from {moved} where time_eligible = 0 and id_job <> {held}'"
        lab.until("ctl", late, "0")
        # sreport shows full hours that are over, so all that happened is moved into such hours.
        back(lab, moved, ("submit", "eligible", "start", "end"), 2 * 3600, "time_eligible > 0")
        back(lab, moved, ("submit", "eligible", "start"), BEGINS_EARLIER, f"id_job = {early}")
        back(lab, moved.replace("job_table", "suspend_table"), ("start", "end"), 2 * 3600, "true")
        back(lab, moved.replace("job_table", "event_table"), ("start",), 8 * 3600, "true")
        before, until = (hour(lab, since - 4 * 3600), hour(lab, int(lab.on("ctl", "date +%s"))))
        lab.on("ctl", f"sacctmgr -i rollup {before} {until}")
        yield Used(lab, hour(lab, since), until, before, early)


def back(lab: DeployedLab, table: str, columns: Sequence[str], seconds: int, which: str) -> None:
    """Move times of records in slurmdbd's database back."""
    times = ", ".join(f"time_{one} = time_{one} - {seconds}" for one in columns)
    lab.on("ctl", f"{MYSQL} 'update {table} set {times} where {which}'")


def hour(lab: DeployedLab, seconds: int) -> str:
    """The begin of the hour of a time, as Slurm's commands take it."""
    return lab.on("ctl", f"date -d @{seconds} +%Y-%m-%dT%H:00:00")


def test_usage_agrees_with_sreport_to_the_second(used: Used) -> None:
    expected = used.sreport()
    assert set(expected) == {("physics", "ada"), ("maths", "ada"), ("maths", "bob")}
    rows = used.usage("--by", "account,user", "--until", used.until)["rows"]
    assert {(one["account"], one["user"]): (one["cpu_seconds"], one["gpu_seconds"]) for one in rows} == expected
    # The job that began earlier counts with its part in the window alone, which is all since the window's begin.
    assert expected["physics", "ada"][1] < 2 * BEGINS_EARLIER
    assert expected["physics", "ada"][1] == 2 * expected["physics", "ada"][0]


def test_a_window_that_begins_before_all_jobs_agrees_as_well(used: Used) -> None:
    expected = used.sreport(used.before)
    told = used.usage("--by", "account,user", "--until", used.until, since=used.before)
    found = {(one["account"], one["user"]): (one["cpu_seconds"], one["gpu_seconds"]) for one in told["rows"]}
    assert found == expected
    assert expected["physics", "ada"][0] > BEGINS_EARLIER
    cpu, gpu = (sum(seconds[place] for seconds in expected.values()) for place in (0, 1))
    assert (told["total"]["cpu_seconds"], told["total"]["gpu_seconds"]) == (cpu, gpu)
    assert abs(sum(point["cpu_seconds"] for point in told["over_time"]) - cpu) <= len(told["over_time"])


def test_usage_counts_parts_of_requeued_jobs_and_cancelled_ones_and_their_share(used: Used) -> None:
    told = used.usage("--by", "partition,gpu")
    rows = {(one["partition"], one["gpu"]): one for one in told["rows"]}
    assert rows["gpu", ""]["jobs"] == 3
    # ada's second job and the suspended one, bob's failed one, the cancelled one, and two parts of the requeued one.
    assert rows["main", ""]["jobs"] == 6
    (with_gpus,) = [one for (_, gpu), one in rows.items() if gpu]
    assert with_gpus["jobs"] == 1
    cpus = int(used.lab.on("ctl", "sinfo -h -p main -o %C").split("/")[-1])
    assert told["capacity"]["cpu_seconds"] * 2 == told["capacity"]["gpu_seconds"] * cpus > 0
    assert told["total"]["cpu_share"] == round(told["total"]["cpu_seconds"] / told["capacity"]["cpu_seconds"], 6)


def test_a_job_that_held_gpus_without_cpu_time_is_listed_as_idle(used: Used) -> None:
    told = used.usage()
    assert [(one["job"], one["gpus"], one["evidence"], one["running"]) for one in told["idle_gpus"]] == [
        (used.early, 2, "cputime", False)
    ]
    assert not told["tracks_gpu_use"]
    text = used.lab.slurmfab("usage", "--since", used.since).stdout
    assert "hardly any CPU time" in text
    assert "How busy GPUs were is not in Slurm's records" in text


def test_running_jobs_count_until_now_and_their_nodes_tell_of_idle_gpus(used: Used) -> None:
    job = submit(used.lab, "ada", "-A physics --gres=gpu:1", "sleep 900")
    used.lab.until("ctl", f"sacct -nPX -j {job} -o State", "RUNNING")
    waiting = submit(used.lab, "bob", "--exclusive -N 2", "sleep 900")
    used.lab.until("ctl", f"sstat -anP -j {job}.batch -o JobID", f"{job}.batch")
    used.lab.until("ctl", f"sacct -nPX -j {waiting} -o State", "PENDING")
    # What the start of a job takes is more than a hundredth of its first seconds.
    used.lab.until("ctl", f"[ $(sacct -nPX -j {job} -o ElapsedRaw) -ge 10 ] && echo long", "long")
    told = used.usage("--idle-minutes", "0")
    running = [one["job"] for one in told["idle_gpus"] if one["running"]]
    assert running == [job]
    assert [one["started"] for one in told["longest_waits"] if one["job"] == waiting] == [False]
    used.lab.on("ctl", f"scancel {job} {waiting}")
    used.lab.until("ctl", "squeue -h", "")


def test_csv_has_the_rows_of_json(used: Used) -> None:
    done = used.lab.slurmfab("usage", "--since", used.since, "--by", "user,account", "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["user"], int(row["cpu_seconds"])) for row in rows] == [
        (row["user"], row["cpu_seconds"]) for row in used.usage("--by", "user,account")["rows"]
    ]


def test_homes_are_measured_on_each_host_without_following_links(used: Used) -> None:
    used.lab.on("n1", "head -c 3000000 /dev/urandom > /home/ada/data; ln -sfn /usr /home/bob/link")
    held = {(one["host"], one["name"]): one for one in used.usage("--homes")["directories"]["held"]}
    assert {host for host, name in held if name == "ada"} == {"ctl", "n1", "n2"}
    ada, bob = held["n1", "ada"], held["n1", "bob"]
    assert (ada["place"], ada["owner"], ada["state"]) == ("/home", "ada", "")
    assert 3_000_000 <= ada["bytes"] < 4_000_000
    assert bob["bytes"] < 1_000_000
    assert "/home/ada" in used.lab.slurmfab("usage", "--homes").stdout


def test_without_an_answer_of_slurmdbd_or_without_accounting_usage_says_so(used: Used) -> None:
    used.lab.on("ctl", "systemctl stop slurmdbd")
    silent = used.lab.slurmfab("usage")
    used.lab.on("ctl", "systemctl start slurmdbd")
    assert silent.returncode == 1
    assert "sacct" in silent.stdout + silent.stderr
    none = "cp -a /etc/slurm/slurm.conf /root/ && sed -i -E 's/^(AccountingStorage(Type|Enforce|Host))/#\\1/'"
    used.lab.on("ctl", f"{none} /etc/slurm/slurm.conf")
    without = used.lab.slurmfab("usage")
    used.lab.on("ctl", "mv /root/slurm.conf /etc/slurm/slurm.conf")
    assert without.returncode == 1
    assert "keeps no records of jobs" in without.stdout + without.stderr
