"""A backup controller on real hosts: it joins, takes over and gives back, and no job notices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, report
from stock import shared_in_turn

from slurmfab import lab

pytestmark = [pytest.mark.lab, shared_in_turn("restarted_lab", "second_controller")]

CONTROLLERS = ("ctl", "n1")
ALL_HOSTS = ("ctl", "n1", "n2", "n3")
PATIENCE = "slurm_conf: {SlurmctldTimeout: 10, SchedulerParameters: bf_interval=2}\n"
"""Everything waits less: Slurm's tools for a controller that is about to begin, and new jobs for backfill."""

JOB = "scontrol --oneliner show job {} | grep -oE '(JobState|StartTime)=[^ ]+' | paste -sd ' '"
POWER = "power: {nodes: n3, suspend_after: 20d, how: {command: {suspend: /usr/bin/true, resume: /usr/bin/true}}}\n"
"""Programs, settings and a timer that every controller has."""

OF_POWER = (
    "cat /etc/slurmfab-power.json /usr/local/lib/slurmfab/suspend /usr/local/lib/slurmfab/resume | sha256sum;"
    " systemctl is-active slurmfab-power.timer; runuser -u slurm -- /usr/local/lib/slurmfab/resume n3; echo $?"
)
STATE = "scontrol show config | awk '$1 == \"StateSaveLocation\" {print $3}'"
FILES = "sha256sum /etc/slurm/*.conf; systemctl is-enabled slurmctld; find / -xdev -name '.slurmfab-*' 2>/dev/null"


@dataclass(frozen=True)
class RunningCluster:
    """A lab with one controller and a job that runs all the while.

    Args:
        lab: the lab.
        text: its cluster file, with one controller.
        job: the job's number.
        seen: its state and start.
    """

    lab: DeployedLab
    text: str
    job: str
    seen: str

    def with_backup(self, state_directory: str) -> str:
        """The cluster file with n1, which computes no more, as the backup."""
        text = self.text.replace("controllers: [ctl]", f"controllers: [ctl, n1]\nstate_directory: {state_directory}")
        return text.replace("hosts: n[1-3]", "hosts: n[2-3]") + PATIENCE + POWER


@pytest.fixture(scope="module")
def running(restarted_lab: DeployedLab) -> Iterator[RunningCluster]:
    """The cluster with a job on n2 that these tests must not disturb."""
    lab = restarted_lab
    job = lab.on("ctl", AS_SLURM + "sbatch --parsable -w n2 -o /dev/null --wrap 'sleep 3600'")
    lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    yield RunningCluster(lab, lab.inventory_path.read_text(), job, lab.on("ctl", JOB.format(job)))
    lab.on("ctl", f"scancel {job}")


def test_a_second_controller_that_does_not_see_the_state_is_refused_and_nothing_is_changed(
    running: RunningCluster,
) -> None:
    lab = running.lab
    before = {host: lab.on(host, FILES, check=False) for host in ALL_HOSTS}
    lab.inventory_path.write_text(running.with_backup("/srv/state"))
    try:
        done = ended(lab.slurmfab("deploy"), 2)
        assert "/srv/state is not the same directory on" in done.stderr
        assert {host: lab.on(host, FILES, check=False) for host in ALL_HOSTS} == before
    finally:
        lab.inventory_path.write_text(running.text)
    assert lab.deploy()["steps"] == []


def test_a_failover_without_a_second_controller_is_refused(running: RunningCluster) -> None:
    done = running.lab.slurmfab("check-cluster", "--failover")
    assert (done.returncode, "names one controller, ctl" in done.stderr) == (2, True)


def test_a_second_controller_joins_and_the_state_moves_while_a_job_runs(running: RunningCluster) -> None:
    lab = running.lab
    lab.inventory_path.write_text(running.with_backup("/shared/slurm/state"))
    lab.deploy()
    ping = "Slurmctld(primary) at ctl is UP\nSlurmctld(backup) at n1 is UP"
    lab.until("ctl", "scontrol ping", ping)
    assert lab.on("ctl", JOB.format(running.job)) == running.seen
    assert lab.on("n1", "stat -c '%U %a' /shared/slurm/state") == "slurm 700"
    assert lab.on("ctl", STATE) == "/shared/slurm/state"
    assert lab.on("ctl", "ls -A /shared /shared/slurm | grep -c slurmfab-", check=False) == "0"
    assert len({lab.on(host, "sha256sum /etc/slurm/slurm.conf") for host in ALL_HOSTS}) == 1
    of_power = {lab.on(host, OF_POWER) for host in CONTROLLERS}
    assert (len(of_power), of_power.pop().split()[-2:]) == (1, ["active", "0"])
    assert lab.deploy()["steps"] == []


def test_the_checks_of_daemons_look_at_the_backup_too(running: RunningCluster) -> None:
    told = report(running.lab.slurmfab("check-cluster", "--only", "daemons", "--json", "-"))
    seen = {check["check"]: check["outcome"] for check in told["checks"] if check["host"] == "n1"}
    assert [seen[name] for name in ("backup_runs", "backup_answers", "backup_has_its_files")] == ["passed"] * 3


def test_the_slurm_user_of_the_backup_logs_in_everywhere_as_the_primarys_does(running: RunningCluster) -> None:
    ssh = "runuser -u slurm -- ssh -o BatchMode=yes -o StrictHostKeyChecking=yes"
    for host in ("ctl", "n2", "n3"):
        assert running.lab.on("n1", f"{ssh} {host} hostname") == host
    assert running.lab.on("ctl", f"{ssh} n1 hostname") == "n1"
    assert "Permission denied" in running.lab.on("n2", f"{ssh} n1 hostname 2>&1", check=False)


def test_a_takeover_and_back_lose_no_job_and_no_number(running: RunningCluster) -> None:
    lab = running.lab
    starts = "systemctl show -p ExecMainStartTimestampMonotonic --value slurmctld"
    before = {host: lab.on(host, starts) for host in CONTROLLERS}
    told = report(lab.slurmfab("check-cluster", "--failover", "--json", "-"))
    assert {check["outcome"] for check in told["checks"]} == {"passed"}
    assert [check["check"] for check in told["checks"]][2:6] == [
        "backup_takes_over",
        "jobs_go_on",
        "new_job_runs_on_the_backup",
        "primary_takes_back",
    ]
    assert lab.on("ctl", JOB.format(running.job)) == running.seen
    after = {host: lab.on(host, starts) for host in CONTROLLERS}
    assert (after["ctl"] != before["ctl"], after["n1"] == before["n1"]) == (True, True)
    lab.until("ctl", "squeue -h -o %i", running.job)
    assert lab.deploy()["steps"] == []


def test_a_failover_while_the_backup_is_down_stops_nothing(running: RunningCluster) -> None:
    lab = running.lab
    lab.on("n1", "systemctl stop slurmctld")
    started = lab.on("ctl", "systemctl show -p MainPID --value slurmctld")
    done = lab.slurmfab("check-cluster", "--failover")
    assert (done.returncode, "slurmctld does not answer on n1" in done.stdout) == (1, True)
    assert lab.on("ctl", "systemctl show -p MainPID --value slurmctld") == started
    lab.deploy()
    lab.until("ctl", "scontrol ping | grep -c UP", "2")


def test_a_node_that_boots_while_the_backup_acts_waits_for_no_other(running: RunningCluster) -> None:
    hosts = running.lab
    lab.kill_host(hosts.lab, "ctl")
    hosts.until("n1", "timeout 5 sinfo -h -p main -n n3 -o %t", "idle", patience=90)
    lab.kill_host(hosts.lab, "n3")
    lab.start_host(hosts.lab, "n3")
    hosts.until("n3", "systemctl is-active slurmd", "active", patience=30)
    hosts.until("n1", "timeout 5 sinfo -h -p main -n n3 -o %t", "idle", patience=120)
    lab.start_host(hosts.lab, "ctl")
    hosts.until("ctl", "scontrol ping | grep -c UP; squeue -h -o %i", f"2\n{running.job}", patience=90)
    assert hosts.on("ctl", JOB.format(running.job)) == running.seen


def test_one_controller_again_takes_the_state_home_and_stops_the_other(running: RunningCluster) -> None:
    lab = running.lab
    lab.inventory_path.write_text(running.text + PATIENCE)
    lab.deploy()
    assert lab.on("ctl", JOB.format(running.job)) == running.seen
    assert lab.on("n1", "systemctl is-active slurmctld", check=False) == "inactive"
    assert lab.on("n1", "ls -d /etc/slurmfab-power* /usr/local/lib/slurmfab/[prs]* 2>/dev/null", check=False) == ""
    assert lab.on("ctl", STATE) == "/var/lib/slurm/slurmctld"
    lab.until("ctl", "sinfo -h -o '%D %t' | sort | paste -sd ,", "1 mix,2 idle")
