"""Nodes out of service and back, and a look at the cluster, on real hosts with jobs that run all the while."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, ended, succeeded
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

STEP_DAEMON = "/usr/local/sbin/slurmstepd-left"
DRAINED_BY_US = r"slurmfab: new disks \(\S+@\S+ \d{4}-\d\d-\d\dT\d\d:\d\d\)"
NOT_AGAIN = "/run/systemd/system/slurmd.service.d"
"""Where a drop-in keeps systemd from starting a killed slurmd again."""


@pytest.fixture(scope="module", params=in_turn("drain_resume_status"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A deployed cluster of three compute nodes, two with stand-in GPUs; tests leave all nodes in service."""
    with stock.copy(request.param, nodes=3, gpus=("n1:2", "n2:2")) as made:
        made.deploy()
        yield made


@pytest.fixture(scope="module")
def job(cluster: DeployedLab) -> Iterator[str]:
    """A job of the slurm user's on n2, with one GPU, that runs through all tests; its number."""
    number = submitted(cluster, "-w n2 --gres=gpu:1 -J 'busy | odd'")
    yield number
    assert is_running(cluster, number)


def submitted(cluster: DeployedLab, options: str) -> str:
    """A job of the slurm user's that has begun; its number."""
    submit = f"sbatch --parsable {options} --mem=50 -o /dev/null --wrap 'sleep 3600'"
    number = cluster.on("ctl", AS_SLURM + submit)
    cluster.until("ctl", f"squeue -h -j {number} -o %T", "RUNNING")
    return number


def state(cluster: DeployedLab, node: str) -> str:
    """What sinfo says of a node: short state and reason."""
    return cluster.on("ctl", f"sinfo -h -p main -N -n {node} -o '%t|%E'")


def is_running(cluster: DeployedLab, number: str) -> bool:
    """Whether a job runs."""
    return cluster.on("ctl", f"squeue -h -j {number} -o %T") == "RUNNING"


def test_nodes_when_drained_and_resumed_leave_jobs_alone(cluster: DeployedLab, job: str) -> None:
    done = succeeded(cluster.slurmfab("drain", "n[1-2]", "--reason", "new disks"))
    assert f"Still running there: {job} (slurm)" in done.stderr
    assert re.fullmatch(r"drain\|" + DRAINED_BY_US, state(cluster, "n1"))
    assert re.fullmatch(r"drng\|" + DRAINED_BY_US, state(cluster, "n2"))
    assert is_running(cluster, job)

    done = succeeded(cluster.slurmfab("resume", "n[1-2]"))
    assert "drained by" in done.stderr
    assert [state(cluster, node).split("|")[0] for node in ("n1", "n2")] == ["idle", "mix"]
    assert is_running(cluster, job)


def test_a_node_when_drained_twice_for_the_same_reason_keeps_the_first_stamp(cluster: DeployedLab) -> None:
    cluster.slurmfab("drain", "n1", "--reason", "new disks")
    stamp = "scontrol show node n1 | grep Reason"
    before = cluster.on("ctl", stamp)
    done = cluster.slurmfab("drain", "n1", "--reason", "new disks", "--json", "-")
    assert (done.returncode, json.loads(done.stdout)["steps"]) == (0, [])
    assert cluster.on("ctl", stamp) == before
    odd = """new board, "B"; it's [50%] State=IDLE [x@y]"""
    assert cluster.slurmfab("drain", "n1", "--reason", odd).returncode == 0
    assert f"slurmfab: {odd} (" in state(cluster, "n1")
    assert json.loads(cluster.slurmfab("drain", "n1", "--reason", odd, "--json", "-").stdout)["steps"] == []
    assert cluster.slurmfab("resume", "n1").returncode == 0


def test_draining_when_it_waits_ends_with_the_last_job(cluster: DeployedLab, job: str) -> None:
    ending = submitted(cluster, "-w n1")
    options = ["--reason", "new disks", "--wait", "--cluster", str(cluster.inventory_path)]
    with subprocess.Popen(
        [*PROGRAM, "drain", "n1", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as waiting:
        cluster.until("ctl", "sinfo -h -p main -N -n n1 -o %t", "drng")
        assert waiting.poll() is None
        cluster.on("ctl", f"scancel {ending}")
        assert waiting.wait(timeout=60) == 0
    assert state(cluster, "n1").startswith("drain|")
    assert cluster.slurmfab("resume", "n1").returncode == 0
    assert is_running(cluster, job)


def test_a_node_that_an_admin_drained_keeps_reason_and_state_until_any_is_said(cluster: DeployedLab, job: str) -> None:
    cluster.on("ctl", "scontrol update NodeName=n3 State=DRAIN Reason='fan is loud'")
    done = succeeded(cluster.slurmfab("drain", "n3", "--reason", "new disks"))
    assert "n3: idle, drain already (“fan is loud”, root" in done.stderr

    done = ended(cluster.slurmfab("resume", "n3"), 1)
    assert "fan is loud" in done.stdout
    assert "--any" in done.stdout
    assert state(cluster, "n3") == "drain|fan is loud"

    assert cluster.slurmfab("resume", "n3", "--any").returncode == 0
    assert state(cluster, "n3").startswith("idle|")
    assert is_running(cluster, job)


def test_a_node_whose_slurmd_was_killed_when_resumed_is_cured(cluster: DeployedLab, job: str) -> None:
    cluster.on("n1", f"mkdir -p {NOT_AGAIN} && printf '[Service]\\nRestart=no\\n' >{NOT_AGAIN}/z.conf")
    cluster.on("n1", "systemctl daemon-reload && systemctl kill --signal=KILL slurmd")
    cluster.until("n1", "systemctl is-active slurmd", "failed")
    cluster.on("n1", f"rm -r {NOT_AGAIN} && systemctl daemon-reload")
    cluster.on("ctl", "scontrol update NodeName=n1 State=DOWN Reason='Not responding'")
    done = succeeded(cluster.slurmfab("resume", "n[1-2]"))
    assert "n1: slurmd is not running (failed)." in done.stderr
    assert state(cluster, "n1").startswith("idle|")
    assert is_running(cluster, job)


def test_a_node_that_slurm_believes_idle_although_its_daemons_are_off_when_resumed_is_cured(
    cluster: DeployedLab, job: str
) -> None:
    cluster.on("n1", "systemctl stop slurmd munge")
    done = succeeded(cluster.slurmfab("resume", "n1"))
    assert "n1: munged is not running (inactive); slurmd is not running (inactive)." in done.stderr
    assert cluster.on("ctl", AS_SLURM + "srun -w n1 hostname") == "n1"
    assert is_running(cluster, job)


def test_a_node_with_another_munge_key_when_resumed_has_the_controllers(cluster: DeployedLab, job: str) -> None:
    cluster.slurmfab("drain", "n1", "--reason", "new disks")
    cluster.on("n1", "head -c 128 /dev/urandom >/etc/munge/munge.key && systemctl restart munge")
    done = succeeded(cluster.slurmfab("resume", "n1"))
    assert "n1: its munge key is not the controller's." in done.stderr
    credential = cluster.on("ctl", "munge -n")
    assert "Success" in cluster.on("n1", f"echo '{credential}' | unmunge")
    assert cluster.on("ctl", AS_SLURM + "srun -w n1 hostname") == "n1"
    assert is_running(cluster, job)


def test_a_node_with_an_edited_slurm_conf_when_resumed_has_the_clusters(cluster: DeployedLab) -> None:
    cluster.on("n3", "echo '# edited' >>/etc/slurm/slurm.conf && systemctl restart slurmd")
    done = succeeded(cluster.slurmfab("resume", "n3"))
    assert "n3: its slurm.conf differs from the cluster's." in done.stderr
    assert cluster.on("n3", "scontrol show config | grep -c 'HASH_VAL.*Match'") == "1"


def test_a_node_that_slurm_drained_for_little_memory_and_has_enough_when_resumed_is_in_service(
    cluster: DeployedLab,
) -> None:
    cluster.on("ctl", "scontrol update NodeName=n3 State=DRAIN Reason='Low RealMemory (reported:1 < 100.00% of 2)'")
    done = succeeded(cluster.slurmfab("resume", "n3"))
    assert "and has enough now" in done.stderr
    assert state(cluster, "n3").startswith("idle|")


def test_a_node_that_has_lost_a_gpu_when_resumed_stays_out_and_is_named(cluster: DeployedLab, job: str) -> None:
    cluster.slurmfab("drain", "n2", "--reason", "new disks")
    cluster.on("n2", "mv /dev/nvidia1 /dev/gone")
    try:
        done = ended(cluster.slurmfab("resume", "n2"), 1)
        assert (
            "n2: not resumed: it has only 1 of 2 GPUs (the GPU in slot 0000:02:00.0 (/dev/nvidia1) is gone"
            in done.stdout
        )
        assert state(cluster, "n2").startswith("drng|")
    finally:
        cluster.on("n2", "mv /dev/gone /dev/nvidia1")
    assert cluster.slurmfab("resume", "n2").returncode == 0
    assert is_running(cluster, job)


def test_a_node_with_processes_that_do_not_end_when_resumed_stays_out_and_names_them(cluster: DeployedLab) -> None:
    cluster.on("n3", f"cp /usr/bin/sleep {STEP_DAEMON}")
    left = f'exec -a "slurmstepd: [4711.0]" {STEP_DAEMON} 600'
    cluster.on("n3", f"systemd-run --quiet --unit=left bash -c '{left}'")
    cluster.on("ctl", "scontrol update NodeName=n3 State=DRAIN Reason='Kill task failed'")
    done = ended(cluster.slurmfab("resume", "n3"), 1)
    assert "processes of job 4711 do not end" in done.stdout
    assert state(cluster, "n3").startswith("drain|")
    cluster.on("n3", "systemctl stop left")
    done = succeeded(cluster.slurmfab("resume", "n3"))
    assert "n3: processes of a job took too long to end; they have ended now." in done.stderr


def test_a_node_that_is_off_when_resumed_is_told_and_cured_once_it_is_back(cluster: DeployedLab, job: str) -> None:
    lab.kill_host(cluster.lab, "n3")
    try:
        done = ended(cluster.slurmfab("resume", "n[1-3]"), 3)
        assert "n3: " in done.stdout
    finally:
        lab.start_host(cluster.lab, "n3")
    succeeded(cluster.slurmfab("resume", "n3"))
    assert state(cluster, "n3").startswith("idle|")
    assert is_running(cluster, job)


@pytest.mark.parametrize("lock", ["there", "lost"])
def test_a_node_with_gpus_that_is_off_at_a_change_keeps_its_gpus_or_nothing_is_touched(
    cluster: DeployedLab, job: str, lock: str
) -> None:
    at = cluster.inventory_path
    text, kept = at.read_text(), at.with_name(f"{at.stem}.lock.json")
    known = kept.read_text()
    before = cluster.on("ctl", "sha256sum /etc/slurm/*.conf")
    line = cluster.on("ctl", "grep -h '^NodeName=.*Gres=' /etc/slurm/slurm.conf")
    lab.kill_host(cluster.lab, "n1")
    try:
        at.write_text(f"{text}slurm_conf: {{KillWait: {31 if lock == 'there' else 32}}}\n")
        if lock == "lost":
            kept.unlink()
        done = cluster.slurmfab("deploy")
        words = done.stdout + done.stderr
        if lock == "there":
            assert (done.returncode, "n1" in words) == (3, True), words
            assert cluster.on("ctl", "grep -h '^NodeName=.*Gres=' /etc/slurm/slurm.conf") == line
        else:
            assert (done.returncode, "slurmfab restore-lock" in words) == (2, True), words
            assert cluster.on("ctl", "sha256sum /etc/slurm/*.conf") == before
    finally:
        lab.start_host(cluster.lab, "n1")
        kept.write_text(known)
        at.write_text(text)
    cluster.deploy()
    cluster.until("ctl", "sinfo -h -p main -N -n n1 -o %t", "idle")
    cluster.on("ctl", f"{AS_SLURM} srun -w n1 --gres=gpu:2 --mem=50 true")
    assert is_running(cluster, job)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("drain", "n9", "--reason", "x"), "n9: not in"),
        (("drain", "ctl", "--reason", "x"), "ctl: not a compute node (compute nodes: n[1-3])"),
        (("drain", "n1"), "Add a reason"),
        (("drain", "n1", "--reason", "x", "--timeout", "soon"), "--timeout soon: this is no number"),
        (("resume", "n[1-"), "is not a hostlist"),
    ],
)
def test_wrong_words_when_given_change_nothing_and_say_why(
    cluster: DeployedLab, words: tuple[str, ...], expected: str
) -> None:
    done = ended(cluster.slurmfab(*words), 2)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_status_when_told_agrees_with_slurm(cluster: DeployedLab, job: str) -> None:
    cluster.slurmfab("drain", "n3", "--reason", "new disks")
    logins = "journalctl --sync; journalctl --unit=ssh --output=cat | grep -c 'Accepted publickey' || true"
    before = {host: int(cluster.on(host, logins)) for host in ("ctl", "n1", "n2", "n3")}
    done = succeeded(cluster.slurmfab("status", "--json", "-"))
    assert {host: int(cluster.on(host, logins)) for host in before} == {**before, "ctl": before["ctl"] + 1}
    told = json.loads(done.stdout)
    assert is_running(cluster, job)
    by_sinfo = cluster.on("ctl", "sinfo -h -o %C").split("/")
    assert told["controllers"] == [{"host": "ctl", "role": "primary", "up": True}]
    assert told["slurm"] in cluster.on("ctl", "sinfo --version")
    assert [told["cpus"]["used"], told["cpus"]["total"]] == [int(by_sinfo[0]), int(by_sinfo[3])]
    assert told["gpus"] == {"total": 4, "used": 1, "free": 3, "unavailable": 0}
    assert (told["nodes"]["total"], told["nodes"]["free"]) == (3, "n1")
    drained = next(group for group in told["nodes"]["states"] if group["by_slurmfab"])
    assert (drained["nodes"], drained["reason"], drained["count"]) == ("n3", "new disks", 1)
    assert told["jobs"] == {"running": 1, "pending": 0}
    assert told["users"] == [{"name": "slurm", "running": 1, "pending": 0, "cpus": 1, "gpus": 1}]
    assert [(one["name"], one["default"], one["running"]) for one in told["partitions"]] == [("main", True, 1)]
    assert cluster.slurmfab("resume", "n3").returncode == 0


def test_status_of_a_user_when_told_lists_jobs_and_says_that_no_limits_are_known(
    cluster: DeployedLab, job: str
) -> None:
    done = succeeded(cluster.slurmfab("status", "--user", "slurm"))
    assert "GPU usage:  1/4, 3 free" in done.stdout
    assert "Free nodes: 2/3: n[1,3]" in done.stdout
    assert "Job details for user slurm:" in done.stdout
    assert "no accounting database" in done.stdout
    assert re.search(rf"^{job} +main +busy \| odd +RUNNING +1 +1 +\d\d:\d\d:\d\d +n2$", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout
    listed = json.loads(cluster.slurmfab("status", "--user", "slurm", "--json", "-").stdout)["user"]
    assert (listed["limits"], [one["id"] for one in listed["jobs"]]) == (None, [job])
    assert "nobody has no jobs." in cluster.slurmfab("status", "--user", "nobody").stdout


def test_status_without_a_slurmctld_when_told_says_that_first(cluster: DeployedLab) -> None:
    cluster.on("ctl", "systemctl stop slurmctld")
    try:
        done = cluster.slurmfab("status")
    finally:
        cluster.on("ctl", "systemctl start slurmctld")
    assert done.returncode == 1
    assert done.stdout.startswith("ctl: slurmctld does not answer.")
    assert "ctl DOWN" in done.stdout
    cluster.until("ctl", "scontrol ping", "Slurmctld(primary) at ctl is UP")
    cluster.until("ctl", "sinfo -h -p main -N -n n1,n3 -o %t | uniq", "idle")
