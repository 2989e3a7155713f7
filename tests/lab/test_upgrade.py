"""Slurm goes from 24.11 to 26.05 on a cluster at work, by one command that is killed twice on its way; nothing is lost.

One job runs through all of it, another waits over it. On "trixie" alone: its hosts can have the newer Slurm of Debian's
sid; those of bookworm cannot (libc6), and their 22.05 is outside of the window of both.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab_cluster import PROGRAM, DeployedLab, eventually, succeeded
from lab_user import PLATFORM
from stock import Stock
from suites import LIKE, PACKAGES

from slurmfab.cluster.slurm.platform import DNF
from slurmfab.core.engine import record
from slurmfab.lab import el_repository, slurm_repository
from slurmfab.lab.ubuntu_like import LIKES

NEWEST_THERE = LIKE != "" and LIKES[LIKE].suite != "trixie"
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(NEWEST_THERE, reason="a look-alike made of Debian unstable has the newest Slurm already"),
]

PEOPLE = """\
database: ctl
qos:
  - {name: normal, MaxWall: "02:00:00"}
  - {name: urgent, Priority: 100, MaxTRESPerUser: cpu=1}
accounts:
  - {name: physics, Fairshare: 30, QOS: "normal,urgent"}
users:
  - {name: ada, uid: 4001, accounts: physics, MaxJobs: 7}
"""
SOURCE = f"""\
slurm:
  packages: {PACKAGES}
  version: "24.11.*"
  source: {{uris: "file:/srv/newer-slurm", {"" if PLATFORM.manager == DNF else "suites: newer, "}key: key.asc}}
"""
NAME = "slurm-wlm" if PACKAGES == "debian" else "slurm"
"""How Slurm's programs name themselves."""

LONG = (
    "i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo line $i; sleep 0.5; done; srun echo a step at the end; "
    "echo the end"
)
"""A job whose output shows that nobody touched it."""

WHO_MAY_WHAT = (
    "sacctmgr -nP show assoc format=cluster,account,user,qos,fairshare,maxjobs; "
    "sacctmgr -nP show qos format=name,priority,maxwall,maxtrespu; sacctmgr -nP show user; sacctmgr -nP show account"
)
HISTORY = "sacct -anXP -j {} -o JobID,JobName,User,Account,QOS,State,ExitCode,Submit,Start,End"
HOLD_CONVERSION = (
    "systemd-run --quiet --unit=hold mariadb slurm_acct_db -e "
    "'lock tables txn_table read; select sleep(7200)' && sleep 1"
)
"""Has slurmdbd wait at the first table that it converts, as it would with a very large one.

It waits longer than the proof of a backup with a million jobs takes."""

CONVERTING = (
    "mariadb -Ne 'show processlist' | grep -v _slurmfab_proof | grep -ci 'slurm_acct_db.*alter table txn_table'"
)
RELEASE = "systemctl stop hold"
ROWS = int(os.environ.get("UPGRADED_JOBS", "20000"))
"""How many jobs of before the database has besides, each with one step."""

FABRICATED = """\
set -e
cluster=$(sacctmgr -nP show cluster format=cluster)
for table in job step; do
    columns=$(mariadb -Ne "select group_concat(concat(char(96 using utf8mb4), column_name, char(96 using utf8mb4)))
        from information_schema.columns where table_schema = 'slurm_acct_db'
        and table_name = '${{cluster}}_${{table}}_table' and column_name not in ('job_db_inx', 'id_job')")
    new=job_db_inx values='seq + 1000000'
    [ $table = step ] || new=job_db_inx,id_job values='seq + 1000000, seq + 1000000'
    mariadb slurm_acct_db -e "create temporary table one as select * from ${{cluster}}_${{table}}_table limit 1;
        insert into ${{cluster}}_${{table}}_table ($new, $columns) select $values, $columns from one, seq_1_to_{rows}"
done
"""
"""Copies the record of a job, and of a step."""

COUNTED = (
    "for one in job step; do mariadb slurm_acct_db -Ne "
    '"select count(*) from $(sacctmgr -nP show cluster format=cluster)_${one}_table"; done | xargs'
)
VERSIONS = "for one in slurmctld slurmd slurmdbd; do command -v $one >/dev/null && $one -V; done | sort -u"
BY_HAND = "cd /etc/slurm && sed -i '/^#/d; /^$/d; 1i # ann, 2019' slurm.conf cgroup.conf"
"""Writes Slurm's files in an admin's way: without slurmfab's comments."""

FILES = "cat /etc/slurm/slurm.conf /etc/slurm/cgroup.conf"
USES_LIBRARY = (
    "/usr/bin/python3 -c 'import ctypes, glob, time; "
    f'ctypes.CDLL(glob.glob("{PLATFORM.libraries}/slurm*/libslurmfull.so")[0]); time.sleep(1e9)\''
)
SERVICE = f"""\
cd /etc/systemd/system
printf '%s\\n' '[Service]' 'User=daemon' {shlex.quote(f"ExecStart={USES_LIBRARY}")} >sites-own.service
systemctl daemon-reload && systemctl start sites-own
"""
"""Starts a service that uses Slurm's library as slurmrestd does: as another user than root and slurm."""

BY_NOBODY = f"setsid runuser -u nobody -- {USES_LIBRARY} >/dev/null 2>&1 &"
"""Starts a process of no service that uses Slurm's library."""

OLD_FILES = "grep -ls 'slurm.*(deleted)' /proc/[0-9]*/maps | wc -l"
PATIENCE = 180 + ROWS / 1000


@dataclass(frozen=True)
class Story:
    """The cluster, and what was there before.

    Args:
        hosts: the lab.
        running: id of the job that runs through the upgrade.
        waiting: of the one that waits over it.
        ended: of one that has ended before.
        known: who may do what.
        history: the record of the ended job.
        files: slurm.conf and cgroup.conf, as an admin wrote them.
        planned: the plan as JSON.
    """

    hosts: DeployedLab
    running: str
    waiting: str
    ended: str
    known: str
    history: str
    files: str
    planned: dict[str, Any]

    def upgrade(self, log: Path) -> subprocess.Popen[bytes]:
        """Start the upgrade, one node at a time; what it prints goes to a file."""
        return start(self.hosts, log)


def start(hosts: DeployedLab, log: Path) -> subprocess.Popen[bytes]:
    """Start an upgrade to 26.05, one node at a time; what it prints goes to a file."""
    command = [*PROGRAM, "upgrade", "--to", "26.05", "--at-once", "1", "--cluster", str(hosts.inventory_path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURMFAB")}
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=hosts.inventory_path.parent,
            env=environment,
        )


@pytest.fixture(scope="module")
def story(stock: Stock) -> Iterator[Story]:
    with stock.copy("trixie", database=True, nodes=2, newer_slurm=True) as hosts:
        beside = hosts.inventory_path.parent
        newer = el_repository.newer_slurm(hosts.lab.spec, print)
        shutil.copy(newer / slurm_repository.KEY, beside / "key.asc")
        without = re.sub("^slurm:.*\n", "", hosts.inventory_path.read_text(), flags=re.MULTILINE)
        hosts.inventory_path.write_text(without + PEOPLE + SOURCE)
        hosts.deploy()
        for host in ("ctl", "n1", "n2"):
            hosts.on(host, BY_HAND)
        hosts.on("ctl", "scontrol reconfigure")
        hosts.on("ctl", SERVICE)
        hosts.on("n2", SERVICE)
        hosts.on("n1", BY_NOBODY)
        hosts.until("ctl", "sinfo -h -o '%D %t'", "2 idle")
        ended, running, waiting = (
            submit(hosts, "--wrap hostname"),
            submit(hosts, f"-w n1 -o /tmp/out --qos=urgent --wrap '{LONG}'"),
            submit(hosts, "--hold -w n2 --wrap hostname"),
        )
        hosts.until("ctl", f"sacct -nXP -j {ended} -o State", "COMPLETED")
        hosts.until("n1", "grep -c '^line 3$' /tmp/out", "1")
        hosts.on("ctl", FABRICATED.format(rows=ROWS))
        known, history = hosts.on("ctl", WHO_MAY_WHAT), hosts.on("ctl", HISTORY.format(ended))
        told = hosts.slurmfab("upgrade", "--to", "26.05", "--at-once", "1", "--plan", "--json", "-")
        assert told.returncode == 4, told.stdout + told.stderr
        yield Story(hosts, running, waiting, ended, known, history, hosts.on("ctl", FILES), json.loads(told.stdout))


def submit(hosts: DeployedLab, words: str) -> str:
    """Submit a job of ada's, and return its id."""
    return hosts.on("ctl", f"cd /tmp; runuser -u ada -- sbatch --parsable --mem=50 {words}")


def killed_when(process: subprocess.Popen[bytes], hosts: DeployedLab, log: Path, script: str, text: str) -> None:
    """Kill a run as soon as a script on the controller prints `1`, or the run has printed a text."""

    def is_there() -> bool:
        assert process.poll() is None, log.read_text()
        return text in log.read_text() if text else hosts.on("ctl", script, check=False) == "1"

    eventually(is_there, lambda: f"{script}{text}:\n{log.read_text()}", PATIENCE)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_an_upgrade_when_killed_while_slurmdbd_converts_then_leaves_it_at_work(story: Story, tmp_path: Path) -> None:
    hosts, log = story.hosts, tmp_path / "log"
    hosts.on("ctl", HOLD_CONVERSION)
    killed_when(story.upgrade(log), hosts, log, CONVERTING, "")
    proof = r"its dump was loaded on ctl and has the rows of all \d+ tables; the new slurmdbd converted it in \d+ s"
    assert re.search(proof, " ".join(log.read_text().split())), log.read_text()
    assert hosts.on("ctl", "mariadb -Ne 'show databases' | grep -c slurmfab || :") == "0"
    told = hosts.slurmfab("status")
    assert "An upgrade of Slurm from 24.11.5 to 26.05.* is under way" in told.stderr, told.stderr
    before = hosts.on("ctl", "systemctl show --value -p MainPID slurmdbd")
    hosts.on("ctl", RELEASE)
    hosts.until("ctl", "ss -Hltn sport = :6819 | wc -l", "1", PATIENCE)
    assert hosts.on("ctl", "systemctl show --value -p MainPID slurmdbd") == before


def test_an_upgrade_when_killed_between_two_nodes_then_the_same_command_ends_it(story: Story, tmp_path: Path) -> None:
    hosts, log = story.hosts, tmp_path / "log"
    killed_when(story.upgrade(log), hosts, log, "", "1 of 2 nodes are done")
    assert "Backup of this upgrade, proved before" in log.read_text()
    assert "26.05" in hosts.on("n1", VERSIONS)
    assert "24.11" in hosts.on("n2", VERSIONS)
    # The agents complete their steps, which may take them longer than the next run waits.
    for host in ("ctl", "n2"):
        hosts.until(host, "flock --nonblock /run/slurmfab.lock echo free", "free", PATIENCE)
    process = story.upgrade(log)
    assert process.wait(PATIENCE * 2) == 0, log.read_text()
    assert "Slurm 26.05 runs on all hosts." in log.read_text()
    assert "n1: python3 of nobody: no service, so this keeps Slurm's old files until it ends." in log.read_text()
    (version,) = {hosts.on(host, VERSIONS) for host in ("ctl", "n1", "n2")}
    assert version.startswith(f"{NAME} 26.05.")
    assert 'version: "26.05.*"' in hosts.inventory_path.read_text()


def test_services_and_files_when_slurm_was_upgraded_under_them_then_are_as_the_plan_says(story: Story) -> None:
    hosts, steps = story.hosts, {step["what"]: step for step in story.planned["steps"]}
    # A line in slurmd's unit depends on the version; Slurm's files stay as an admin wrote them.
    renewed = ["owned-files:restarts", "units-loaded:restarts", "service:slurmd"]
    assert steps["files"]["changes"] == {"n1": renewed, "n2": renewed}
    assert "+IgnoreSIGPIPE=no" in "\n".join(steps["files"]["lines"])
    assert steps["others"]["daemons"] == {"ctl": ["sites-own"], "n2": ["sites-own"]}
    assert [hosts.on(host, f"{OLD_FILES}; systemctl is-active sites-own") for host in ("ctl", "n2")] == [
        "0\nactive"
    ] * 2
    assert {hosts.on(host, FILES) for host in ("ctl", "n1", "n2")} == {story.files}


def test_the_runs_when_compared_with_the_plan_then_have_changed_what_it_names_and_nothing_else(story: Story) -> None:
    records, complaints = record.load_all(story.hosts.inventory_path)
    runs = [one for one in records if one.command == "upgrade"]
    assert (len(runs), complaints) == (3, ())
    done = {
        f"{step.host} {outcome.id}"
        for one in runs
        for step in one.steps
        for outcome in step.outcomes
        if outcome.status == "changed"
    }
    named = {
        step["what"]: {f"{host} {one}" for host, ids in step["changes"].items() for one in ids}
        for step in story.planned["steps"]
    }
    every = {one for some in named.values() for one in some}
    assert done <= every
    # Of a run that was killed the record lacks the step at which it was; and not all that may differ did.
    left = {one for one in every - done if " directory:" not in one and " units-loaded:" not in one}
    assert left <= named["slurmdbd"] | named["nodes"]


def test_jobs_when_slurm_was_upgraded_under_them_then_end_whole_and_keep_their_ids(story: Story) -> None:
    hosts = story.hosts
    assert hosts.on("ctl", f"squeue -h -j {story.running} -o %T; squeue -h -j {story.waiting} -o %T") == (
        "RUNNING\nPENDING"
    )
    hosts.on("n1", "touch /tmp/enough")
    hosts.until("ctl", f"sacct -nXP -j {story.running} -o State,ExitCode", "COMPLETED|0:0")
    lines = hosts.on("n1", "cat /tmp/out").splitlines()
    assert lines == [*(f"line {number}" for number in range(1, len(lines) - 1)), "a step at the end", "the end"]
    hosts.on("ctl", f"scontrol release {story.waiting}")
    hosts.until("ctl", f"sacct -nXP -j {story.waiting} -o State,ExitCode", "COMPLETED|0:0")
    assert int(submit(hosts, "--wrap hostname")) > int(story.waiting)


def test_accounting_when_slurmdbd_was_upgraded_then_is_as_before(story: Story) -> None:
    assert story.hosts.on("ctl", WHO_MAY_WHAT) == story.known
    assert story.hosts.on("ctl", HISTORY.format(story.ended)) == story.history
    jobs, steps = map(int, story.hosts.on("ctl", COUNTED).split())
    assert (jobs > ROWS, steps > ROWS) == (True, True)


def test_a_second_upgrade_when_all_is_done_then_has_nothing_to_do(story: Story, tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = story.hosts.on("ctl", "systemctl show --value -p MainPID slurmctld slurmdbd")
    assert story.upgrade(log).wait(PATIENCE) == 0, log.read_text()
    assert "Steps:" not in log.read_text()
    assert story.hosts.on("ctl", "systemctl show --value -p MainPID slurmctld slurmdbd") == before
    told = succeeded(story.hosts.slurmfab("plan"))
    assert "under way" not in told.stderr
