"""What commands say and do when Slurm calls jobs running that a loss of power has ended, and forgets others.

Two nodes lose their power while slurmctld is away, and are back before it: it then takes their jobs for running, as
after a blackout of all hosts. Other jobs are submitted between the last save of its state and its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import words_of
from stock import Stock
from suites import SUITES

from slurmfab import lab
from slurmfab.base.exit_codes import LEFT_OUT

pytestmark = pytest.mark.lab

KEYS = "database: ctl\nuser_tools: true\nrestart_daemons: false\n"  # the last, so that nothing is mended without a hand
USER = "id ann 2>/dev/null || useradd --create-home --uid 4001 ann"
AS_ANN = "cd /tmp && runuser -u ann -- "
SUBMIT = AS_ANN + "sbatch --parsable --output=/dev/null --nodelist={nodes} {options} --wrap 'sleep 3000'"
ALLOCATE = AS_ANN + "salloc --no-shell --nodelist=n3 --ntasks=1 2>&1 | sed -n 's,.*Granted job allocation ,,p'"
RUNS = "squeue --noheader --format=%T | sort | uniq -c | tr -s ' '"
OLD_ENOUGH = "squeue --noheader --states=R --format=%M | grep -c '^0:'"
STATE = "squeue --noheader --states=all --jobs={} --format='%T %S'"

FORGET = f"""
systemctl stop slurmctld
cp -a /var/lib/slurm/slurmctld /root/before
systemctl start slurmctld
until scontrol ping | grep -q 'is UP'; do sleep 0.2; done
{AS_ANN} sbatch --parsable --output=/dev/null --begin=now+1hour --wrap 'sleep 1' >/dev/null
number=$({AS_ANN} sbatch --parsable --output=/dev/null --wrap 'sleep 1')
until sacct --allusers -X -n --jobs=$number | grep -q .; do sleep 0.2; done
systemctl stop slurmctld
rm -r /var/lib/slurm/slurmctld
cp -a /root/before /var/lib/slurm/slurmctld
systemctl start slurmctld
until scontrol ping | grep -q 'is UP'; do sleep 0.2; done
echo $number
"""
"""Has slurmctld lose a job, as a crash does before it has saved its state; prints its number."""


@dataclass
class Story:
    """The cluster after the loss of power, with the numbers of its jobs."""

    hosts: DeployedLab
    lost: str = ""  # on n2; it may be requeued
    kept: str = ""  # on n3; it may not
    allocation: str = ""  # on n3, without a script
    wide: str = ""  # with its script on n1, which kept its power, and n2
    suspended: str = ""  # on n1
    before: dict[str, str] = field(default_factory=dict)  # of those that live: state and start

    def state(self, job: str) -> str:
        return self.hosts.on("ctl", STATE.format(job), check=False)

    def failed(self, group: str) -> dict[str, Any]:
        """The failed checks of a group, by host."""
        return {one["host"]: one for one in self.hosts.checks(group) if one["outcome"] == "failed"}

    def living(self) -> dict[str, str]:
        return {job: self.state(job) for job in (self.wide, self.suspended)}


@pytest.fixture(scope="module", params=SUITES)
def story(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Story]:
    with stock.copy(request.param, database=True, nodes=3) as hosts:
        hosts.inventory_path.write_text(hosts.inventory_path.read_text() + KEYS)
        hosts.deploy()
        for host in ("ctl", "n1", "n2", "n3"):
            hosts.on(host, USER)
        made = Story(hosts)
        made.wide = hosts.on("ctl", SUBMIT.format(nodes="n[1-2]", options="--nodes=2 --ntasks=2"))
        made.suspended = hosts.on("ctl", SUBMIT.format(nodes="n1", options=""))
        made.lost = hosts.on("ctl", SUBMIT.format(nodes="n2", options=""))
        made.kept = hosts.on("ctl", SUBMIT.format(nodes="n3", options="--no-requeue"))
        made.allocation = hosts.on("ctl", ALLOCATE)
        hosts.until("ctl", RUNS, "5 RUNNING")
        hosts.until("n1", "ps -C slurmstepd -o args= | grep -c batch", "2")
        # A lab host boots within a second, and a boot counts only if it is plainly later than the start of a job.
        hosts.until("ctl", "squeue --noheader --format=%M | grep -c '^0:0[0-4]$'", "0")
        hosts.on("ctl", f"scontrol suspend {made.suspended}")
        try:
            lose_power(hosts)
            hosts.until("ctl", OLD_ENOUGH, "0", patience=90)
            made.before = made.living()
            yield made
        finally:  # frozen processes cannot be killed, so the lab could not be removed
            hosts.on("ctl", f"scontrol resume {made.suspended}; scancel --user=ann")
            hosts.until("n1", "ps -C slurmstepd -o args= | grep -c batch", "0")


def lose_power(hosts: DeployedLab) -> None:
    """Cut the power of two nodes while slurmctld is away, which starts when they are back."""
    hosts.on("ctl", "systemctl stop slurmctld")
    for node in ("n2", "n3"):
        lab.kill_host(hosts.lab, node)
        lab.start_host(hosts.lab, node)
    for node in ("n2", "n3"):
        hosts.until(node, "systemctl is-active slurmd", "active", patience=150)
    hosts.on("ctl", "systemctl start slurmctld")
    hosts.until("ctl", "sinfo -h -N -p main -o %t | grep -c -x 'alloc\\|mix'", "3")


def test_check_cluster_tells_jobs_without_a_process_from_others_although_all_cores_are_taken(story: Story) -> None:
    found = story.failed("jobs")
    assert set(found) == {"n2", "n3"}, found
    assert f"job {story.lost} of ann on n2 since " in found["n2"]["cause"]
    assert f"job {story.kept} of ann on n3 since " in found["n3"]["cause"]
    assert f"job {story.allocation} of ann on n3 since " in found["n3"]["cause"]
    for living in (story.wide, story.suspended):
        assert f"job {living} of" not in str(found)
    ended(story.hosts.slurmfab("check-cluster", "--only", "jobs"), 1)


def test_status_names_them_with_node_and_time(story: Story) -> None:
    told = json.loads(succeeded(story.hosts.slurmfab("status", "--json", "-")).stdout)
    lost = {story.lost: "n2", story.kept: "n3", story.allocation: "n3"}
    assert {one["id"]: one["nodes"] for one in told["lost_jobs"]} == lost
    words = words_of(succeeded(story.hosts.slurmfab("status")))
    assert f"Not running: job {story.lost} of ann on n2 since 20" in words
    assert "n2 booted at" in words


def test_sstatus_tells_their_user(story: Story) -> None:
    told = story.hosts.on("ctl", "runuser -u ann -- sstatus")
    assert f"{story.lost}: n2 was switched on at" in told
    assert f"scancel {story.kept} ends what is left of it" in " ".join(told.split())
    assert f"{story.wide}: n" not in told


def test_explain_tells_that_nothing_of_it_runs(story: Story) -> None:
    told = words_of(succeeded(story.hosts.slurmfab("explain", story.lost)))
    assert "nothing of it runs, although Slurm calls it RUNNING: n2 booted at" in told
    assert "nothing of it runs" not in words_of(story.hosts.slurmfab("explain", story.wide))
    assert "nothing of it runs" not in words_of(story.hosts.slurmfab("explain", story.suspended))


def test_plan_and_the_drift_alarm_name_them(story: Story) -> None:
    told = words_of(story.hosts.slurmfab("plan", "--verbose"))
    assert f"job {story.lost} of ann on n2 since" in told
    assert "in the queue again: n2 booted at" in told
    assert f"job {story.wide} of" not in told
    drift = words_of(ended(story.hosts.slurmfab("drift"), 4))
    assert f"job {story.lost} of ann on n2 since" in drift
    assert "(lost job)" in drift


def test_resume_puts_the_lost_job_of_its_node_back_and_touches_no_other(story: Story) -> None:
    done = words_of(succeeded(story.hosts.slurmfab("resume", "n2")))
    assert f"job {story.lost} of ann on n2 since" in done
    story.hosts.until("ctl", f"squeue -h -j {story.lost} -o %T", "PENDING")
    assert story.living() == story.before
    assert story.state(story.kept).startswith("RUNNING")


def test_deploy_ends_what_may_not_be_requeued_and_leaves_an_allocation_to_a_person_and_all_else_is_done(
    story: Story,
) -> None:
    story.hosts.on("ctl", "rm /usr/local/bin/sstatus")
    done = ended(story.hosts.slurmfab("deploy", "--yes"), LEFT_OUT)
    assert f"To end it: scancel {story.allocation}" in words_of(done)
    assert "nothing else was started" not in words_of(done)
    assert "fix the cause, then run the same command again" in words_of(done)
    story.hosts.on("ctl", "test -x /usr/local/bin/sstatus")
    story.hosts.until("ctl", f"squeue -h -j {story.kept} -o %T", "")
    assert story.living() == story.before
    story.hosts.on("ctl", f"scancel {story.allocation}")
    story.hosts.until("ctl", f"squeue -h -j {story.allocation} -o %T", "")
    assert "nothing changed" in words_of(succeeded(story.hosts.slurmfab("deploy", "--yes")))
    assert story.failed("jobs") == {}


def test_jobs_that_a_crash_has_lost_are_told_to_all_and_closed_by_one_command(story: Story) -> None:
    hosts = story.hosts
    number = hosts.on("ctl", FORGET)
    hosts.until("ctl", f"squeue -h -j {number} -o %T 2>/dev/null", "")
    hosts.until(
        "ctl",
        f"test $(($(date +%s) - $(stat -c %Y /root/before))) -gt 0 && sacct -X -n -P -o state -j {number}",
        "PENDING",
    )
    hosts.until("ctl", f"runuser -u ann -- sstatus | grep -c '^{number}: lost by a crash at'", "1", patience=90)
    assert f"{number} of ann (PENDING)" in story.failed("accounting")["ctl"]["cause"]
    assert "slurmfab close-runaways" in words_of(hosts.slurmfab("status"))
    told = words_of(succeeded(hosts.slurmfab("explain", number)))
    assert "slurmctld does not know it: a crash lost it" in told
    assert f"ann: {number}: lost by a crash after" in words_of(succeeded(hosts.slurmfab("close-runaways", "--dry-run")))
    assert "1 record closed" in words_of(succeeded(hosts.slurmfab("close-runaways")))
    assert story.failed("accounting") == {}
    assert f"{number}: lost by a crash at" in hosts.on("ctl", "runuser -u ann -- sstatus"), "its user is still told"
    assert "lost by a crash at" in hosts.on("ctl", f"runuser -u ann -- sstatus {number}")
    told = words_of(succeeded(hosts.slurmfab("explain", number)))  # another job may have the number again
    assert "slurmctld does not know it: a crash lost it" in told
    assert "slurmdbd calls it COMPLETED" in told
