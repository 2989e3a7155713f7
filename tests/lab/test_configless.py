"""Nodes that fetch Slurm's files from slurmctld, on real Slurm: there and back while a job runs, and what lies between.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fingerprints import at_rest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, eventually, report

pytestmark = pytest.mark.lab

NODES = ("n1", "n2", "n3")
JOB = "scontrol --oneliner show job {} | grep -oE '(JobState|StartTime)=[^ ]+' | paste -sd ' '"
OWN = "ls /etc/slurm/slurm.conf /etc/slurm/gres.conf /etc/slurm/cgroup.conf 2>/dev/null | wc -l"
FETCHED = "cd /run/slurm/conf && sha256sum slurm.conf gres.conf cgroup.conf"
CONTROLLERS = "cd /etc/slurm && sha256sum slurm.conf gres.conf cgroup.conf"
LOGINS = "journalctl --sync; journalctl -u ssh -u sshd -o cat | grep -c Accepted || :"
STARTED = "scontrol show node n3 | grep -o SlurmdStartTime=[^[:space:]]*"
DROP_IN = "/etc/systemd/system/slurmd.service.d/slurmfab-configless.conf"
STATES = "sinfo -h -p main -N -o '%N %T' | grep -cE ' (idle|mixed|allocated)$' || :"


@dataclass
class Cluster:
    """A cluster on which a job runs all the while, and what its file says without a word of configless.

    Args:
        lab: the lab.
        text: the cluster file.
        job: the job's number.
        seen: its state and start.
    """

    lab: DeployedLab
    text: str
    job: str
    seen: str

    def wish(self, more: str) -> None:
        self.lab.inventory_path.write_text(f"{self.text}{more}")

    def job_goes_on(self) -> bool:
        return self.lab.on("ctl", JOB.format(self.job)) == self.seen


@pytest.fixture(scope="module")
def running(deployed_lab: DeployedLab) -> Iterator[Cluster]:
    lab = deployed_lab
    text = lab.inventory_path.read_text()
    job = lab.on("ctl", AS_SLURM + "sbatch --parsable -w n1 -n1 --mem=50 -o /dev/null --wrap 'sleep 3600'")
    lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    yield Cluster(lab, text, job, lab.on("ctl", JOB.format(job)))
    lab.on("ctl", f"scancel {job}")
    lab.inventory_path.write_text(text)


def test_a_deployer_that_is_killed_on_the_way_there_leaves_nothing_that_the_next_run_does_not_heal(
    running: Cluster,
) -> None:
    lab = running.lab
    running.wish("configless: true\n")
    words = [*PROGRAM, "deploy", "--cluster", str(lab.inventory_path)]
    deployer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: lab.on("n2", f"test -e {DROP_IN} && echo there || :") == "there", "n2 gets a drop-in")
    deployer.kill()
    deployer.wait()
    at_rest(lab, "ctl", "n1", "n2", "n3")
    assert lab.on("n2", "sinfo -h -p main -o %P") == "main*"
    lab.deploy()
    assert lab.deploy()["steps"] == []


def test_nodes_then_have_no_files_of_their_own_and_those_of_the_controller(running: Cluster) -> None:
    lab = running.lab
    assert {lab.on(node, OWN) for node in NODES} == {"0"}
    assert {lab.on(node, FETCHED) for node in NODES} == {lab.on("ctl", CONTROLLERS)}
    assert lab.on("n3", AS_SLURM + "srun -w n2 --mem=50 hostname") == "n2"
    assert running.job_goes_on()


def test_one_value_goes_to_every_slurmd_by_one_login_on_the_controller(running: Cluster) -> None:
    lab = running.lab
    before = [lab.on(node, LOGINS) for node in NODES]
    running.wish("configless: true\nslurm_conf: {KillWait: 41}\n")
    told = lab.deploy("--hosts", "ctl")
    assert {step["host"] for step in told["steps"]} == {"ctl"}
    assert [lab.on(node, LOGINS) for node in NODES] == before
    assert {lab.on(node, "scontrol show config | grep -E '^(KillWait|HASH_VAL)'") for node in NODES} == {
        "HASH_VAL                = Match\nKillWait                = 41 sec"
    }
    assert lab.deploy("--hosts", "ctl")["steps"] == []
    assert lab.deploy()["steps"] == []
    assert running.job_goes_on()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        pytest.param("slurm_conf: {SlurmdPort: 6900}", "SlurmdPort: 6818 -> 6900 needs restart", id="restart"),
        pytest.param("epilog: scripts", "Epilog: (default) -> ", id="scripts"),
    ],
)
def test_what_has_to_be_done_on_the_nodes_is_refused_for_the_controller_alone(
    running: Cluster, more: str, reason: str
) -> None:
    (running.lab.inventory_path.parent / "scripts").mkdir(exist_ok=True)
    running.wish(f"configless: true\n{more}\n")
    done = running.lab.slurmfab("deploy", "--hosts", "ctl")
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr
    assert "without --hosts" in done.stderr


def test_a_slurmd_that_cannot_take_the_new_files_is_named(running: Cluster) -> None:
    lab = running.lab
    running.wish("configless: true\nslurm_conf: {KillWait: 42}\n")
    started = lab.on("ctl", STARTED)
    # As a deployment leaves a node that was out of reach when the others turned to slurmctld.
    lab.on(
        "n3",
        f"cp -rL /run/slurm/conf/. /etc/slurm; mv {DROP_IN} /root/; systemctl daemon-reload; systemctl restart slurmd",
    )
    eventually(lambda: lab.on("ctl", STARTED) != started, "n3 registers with its own files")
    done = lab.slurmfab("deploy", "--hosts", "ctl")
    reason = (
        "these nodes have not loaded them: n3 (its slurm.conf differs from slurmctld's). "
        "Try: slurmfab deploy --hosts n3"
    )
    assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
    lab.deploy("--hosts", "n3")
    assert lab.on("n3", OWN) == "0"
    assert lab.deploy("--hosts", "ctl")["steps"] == []


def test_the_checks_pass_and_find_a_file_that_hides_the_fetched_ones(running: Cluster) -> None:
    lab = running.lab
    words = ("check-cluster", "--json", "-", "--only", "configuration,daemons")
    assert {one["outcome"] for one in json.loads(lab.slurmfab(*words).stdout)["checks"]} == {"passed"}
    lab.on("n2", "cp /run/slurm/conf/slurm.conf /etc/slurm/slurm.conf")
    failed = [one for one in json.loads(lab.slurmfab(*words).stdout)["checks"] if one["outcome"] == "failed"]
    assert {one["host"] for one in failed} == {"n2"}
    assert any("read it instead of the files" in one["cause"] for one in failed)
    assert [step["host"] for step in lab.deploy("--hosts", "n2")["steps"]] == ["n2"]


def test_a_node_that_starts_before_its_controller_comes_when_that_is_there(running: Cluster) -> None:
    lab = running.lab
    lab.on("ctl", "systemctl stop slurmctld")
    lab.on("n3", "systemctl restart --no-block slurmd")
    lab.until("n3", "systemctl show -p ActiveState --value slurmd", "activating")
    lab.on("ctl", "systemctl start slurmctld")
    lab.until("n3", "systemctl show -p ActiveState --value slurmd", "active")
    lab.until("ctl", STATES, "3")
    assert running.job_goes_on()


def test_a_rollback_brings_the_earlier_value_to_every_slurmd(running: Cluster) -> None:
    lab = running.lab
    running.wish("configless: true\nslurm_conf: {KillWait: 43}\n")
    lab.deploy("--hosts", "ctl")
    report(lab.slurmfab("rollback", "--json", "-"))
    assert {lab.on(node, "scontrol show config | awk '$1 == \"KillWait\" {print $3}'") for node in NODES} == {"42"}
    assert {lab.on(node, OWN) for node in NODES} == {"0"}


def test_a_node_that_leaves_has_no_fetched_files_and_one_that_joins_fetches_them(running: Cluster) -> None:
    lab = running.lab
    running.wish("configless: true\n")
    report(lab.slurmfab("remove-node", "n3", "--json", "-"))
    assert lab.on("n3", f"ls {DROP_IN} /run/slurm/conf 2>/dev/null | wc -l") == "0"
    report(
        lab.slurmfab("add-node", "--accept-new-host-keys", lab.lab.host("n3").address, "--like", "n2", "--json", "-")
    )
    assert lab.deploy()["steps"] == []
    assert (lab.on("n3", OWN), lab.on("n3", FETCHED)) == ("0", lab.on("ctl", CONTROLLERS))
    assert running.job_goes_on()


def test_the_way_back_gives_nodes_files_of_their_own_while_the_job_goes_on(running: Cluster) -> None:
    lab = running.lab
    running.wish("")
    lab.deploy()
    assert lab.deploy()["steps"] == []
    assert {lab.on(node, CONTROLLERS) for node in NODES} == {lab.on("ctl", CONTROLLERS)}
    assert {lab.on(node, f"test -e {DROP_IN} && echo there || echo gone") for node in NODES} == {"gone"}
    assert "conf-server" not in lab.on("n1", "tr '\\0' ' ' < /proc/$(systemctl show -p MainPID --value slurmd)/cmdline")
    lab.until("ctl", STATES, "3")
    assert running.job_goes_on()
