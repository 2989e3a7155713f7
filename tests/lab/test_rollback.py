"""Runs that are undone, on real hosts with real Slurm: files, keys, daemons and the cluster file are as before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, ended, succeeded
from lab_user import words_of
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

ALL = ("ctl", "n1", "n2")
KEY = "/etc/munge/munge.key"
CONF = "/etc/slurm/slurm.conf"
MANAGED = "/etc/hosts /etc/ssh/ssh_known_hosts /etc/slurm/*.conf /etc/munge/munge.key /var/lib/slurm/home/.ssh/*"
SUMS = f"cd / && sha256sum {MANAGED} && stat -c '%n %U:%G %a' {MANAGED}"
AT_WORK = "pgrep -fc '[p]ython3 -I -B' || true"
HOLDS = "while [ -e /run/hold ]; do sleep 0.1; done"
EXTRA = """
slurm_conf: {SlurmdTimeout: 345}
"""
PARTITION = "\n  - {PartitionName: extra, Nodes: n1}"


@pytest.fixture(scope="module", params=in_turn("rollback"))
def hosts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A cluster whose first deployment is told in its history."""
    with stock.installed(request.param, nodes=2) as made:
        made.deploy()
        yield made


@pytest.fixture(scope="module")
def job(hosts: DeployedLab) -> str:
    """A job on both nodes, with a step that runs through all tests; its number."""
    script = "sbatch --parsable -N2 --mem=50 -o /dev/null --wrap 'srun sleep 3600'"
    number = hosts.on("ctl", AS_SLURM + script)
    hosts.until("ctl", f"squeue -h -s -j {number} -o %i | grep -c '{number}.0'", "1")
    return number


def sums(hosts: DeployedLab, *names: str) -> dict[str, str]:
    """What all managed files hold, with their owners and modes, by host."""
    return {name: hosts.on(name, SUMS) for name in names or ALL}


def setting(hosts: DeployedLab, key: str) -> str:
    """What slurmctld says of a setting."""
    return hosts.on("ctl", f"scontrol show config | awk '$1 == \"{key}\" {{print $3}}'")


def runs(hosts: DeployedLab, job: str) -> bool:
    return hosts.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"


def change(hosts: DeployedLab) -> str:
    """Deploy another SlurmdTimeout and one more partition; the id of the run."""
    text = hosts.inventory_path.read_text()
    hosts.inventory_path.write_text(text.rstrip("\n") + PARTITION + EXTRA)
    hosts.deploy()
    assert setting(hosts, "SlurmdTimeout") == "345"
    return last(hosts)


def last(hosts: DeployedLab) -> str:
    """The id of the newest run."""
    return str(history(hosts)[-1]["run"])


def history(hosts: DeployedLab) -> Any:
    return json.loads(hosts.slurmfab("history", "--json", "-").stdout)["runs"]


def is_as_planned(hosts: DeployedLab) -> bool:
    """Whether a deployment would find nothing to do."""
    return hosts.slurmfab("plan").returncode == 0


def test_a_change_that_is_rolled_back_leaves_files_daemons_jobs_and_the_cluster_file_as_before(
    hosts: DeployedLab, job: str
) -> None:
    before, text = sums(hosts), hosts.inventory_path.read_text()
    run = change(hosts)
    changed = sums(hosts)

    shown = ended(hosts.slurmfab("rollback", "--dry-run"), 4)
    assert "-SlurmdTimeout=345" in shown.stdout
    assert "+SlurmdTimeout=300" in shown.stdout
    assert f"{hosts.inventory_path} would be changed back:" in shown.stdout
    assert sums(hosts) == changed
    assert last(hosts) == run

    waiting = hosts.on("ctl", AS_SLURM + "sbatch --parsable --hold -p extra --wrap 'sleep 1'")
    refused = ended(hosts.slurmfab("rollback"), 1)
    assert f"job {waiting} of slurm" in refused.stdout + refused.stderr
    assert sums(hosts) == changed
    hosts.on("ctl", f"scancel {waiting}")

    done = succeeded(hosts.slurmfab("rollback"))
    assert f"Going back to before {run}." in done.stderr
    assert sums(hosts) == before
    assert setting(hosts, "SlurmdTimeout") == "300"
    assert "extra" not in hosts.on("ctl", "sinfo -h -o %R")
    assert hosts.on("n1", "scontrol show config | grep HASH_VAL").endswith("Match")
    assert runs(hosts, job)
    assert hosts.inventory_path.read_text() == text
    assert is_as_planned(hosts)


def test_what_somebody_had_edited_by_hand_comes_back_and_so_do_undeployed_edits_of_the_cluster_file(
    hosts: DeployedLab,
) -> None:
    before = sums(hosts)
    for host in ALL:
        hosts.on(host, f"sed -i s/SlurmdTimeout=300/SlurmdTimeout=301/ {CONF}")
    by_hand = sums(hosts)
    hosts.deploy()
    assert sums(hosts) == before
    text = hosts.inventory_path.read_text()
    hosts.inventory_path.write_text(f"{text}# not deployed\n")

    done = succeeded(hosts.slurmfab("rollback"))
    assert sums(hosts) == by_hand
    assert setting(hosts, "SlurmdTimeout") == "301"
    (beside,) = hosts.inventory_path.parent.glob("*.before-*")
    assert beside.read_text() == f"{text}# not deployed\n"
    assert str(beside) in done.stderr
    assert hosts.inventory_path.read_text() == text
    assert hosts.slurmfab("plan").returncode == 4
    hosts.deploy()


def test_a_munge_key_that_was_rotated_is_the_old_one_again_and_hosts_believe_each_other(
    hosts: DeployedLab, job: str
) -> None:
    before = sums(hosts)
    succeeded(hosts.slurmfab("rotate-munge-key"))
    assert len({*sums(hosts).items()} & {*before.items()}) == 0
    succeeded(hosts.slurmfab("rollback"))
    assert sums(hosts) == before
    credential = hosts.on("n1", "munge -n")
    assert "Success" in hosts.on("n2", f"echo {credential} | unmunge")
    assert hosts.on("ctl", AS_SLURM + "srun -N2 --mem=10 hostname | sort").split() == ["n1", "n2"]
    assert runs(hosts, job)


def test_a_rollback_of_the_rollback_brings_the_change_again_and_when_killed_goes_on_when_it_is_run_again(
    hosts: DeployedLab, job: str
) -> None:
    before, text = sums(hosts), hosts.inventory_path.read_text()
    change(hosts)
    changed, new_text = sums(hosts), hosts.inventory_path.read_text()
    cut_off(hosts, ["rollback"], "slurm.conf ")
    assert hosts.inventory_path.read_text() == new_text
    succeeded(hosts.slurmfab("rollback"))
    assert sums(hosts) == before
    assert hosts.inventory_path.read_text() == text

    succeeded(hosts.slurmfab("rollback"))
    assert sums(hosts) == changed
    assert setting(hosts, "SlurmdTimeout") == "345"
    assert hosts.inventory_path.read_text() == new_text
    assert runs(hosts, job)


def cut_off(hosts: DeployedLab, words: list[str], start: str) -> None:
    """Run slurmfab and kill it when it says a line that begins like this; return when no host is at work any more."""
    command = [*PROGRAM, *words, "--cluster", str(hosts.inventory_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    assert any(line.startswith(start) for line in process.stderr)
    process.kill()
    process.communicate()
    for host in ALL:
        hosts.until(host, AT_WORK, "0")


def test_a_node_that_is_down_is_named_and_brought_back_by_the_same_command_later(hosts: DeployedLab) -> None:
    edited = hosts.inventory_path.read_text().replace("345", "346")
    before = sums(hosts)
    hosts.inventory_path.write_text(edited)
    hosts.deploy()
    run = last(hosts)
    lab.kill_host(hosts.lab, "n2")
    done = ended(hosts.slurmfab("rollback"), 3)
    assert f"To continue with n2 later: slurmfab rollback --run {run}" in done.stderr
    assert sums(hosts, "ctl", "n1") == {"ctl": before["ctl"], "n1": before["n1"]}

    lab.start_host(hosts.lab, "n2")
    succeeded(hosts.slurmfab("rollback"))
    assert sums(hosts) == before


def test_what_a_host_had_changed_when_its_connection_broke_is_in_the_history_and_a_rollback_begins_there(
    hosts: DeployedLab, job: str
) -> None:
    unit = "/run/systemd/system/munge.service.d"
    lines = f'[Service]\\nExecStartPre=/bin/sh -c "{HOLDS}"\\n'
    hold = f"mkdir -p {unit} && touch /run/hold && printf '{lines}' >{unit}/hold.conf"
    hosts.on("n2", f"{hold} && systemctl daemon-reload && head -c 1024 /dev/zero >{KEY}")
    process = subprocess.Popen([*PROGRAM, "deploy", "--cluster", str(hosts.inventory_path)], stderr=subprocess.PIPE)
    try:
        hosts.until("n2", "systemctl is-active munge", "activating")
        hosts.on("n2", "kill -KILL $(ps -o ppid= -p $(pgrep -fo '[p]ython3 -I -B'))")
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        hosts.on("n2", f"rm /run/hold {unit}/hold.conf; systemctl daemon-reload")
    assert process.returncode == 3, told
    assert b"n2: unreachable: the connection was lost" in told
    kept = json.loads(hosts.slurmfab("history", "--run", "last", "--json", "-").stdout)
    done = {one["id"]: one["status"] for step in kept["steps"] if step["host"] == "n2" for one in step["outcomes"]}
    assert done == {f"file:{KEY}": "changed", "service:munge": "unknown"}
    assert kept["changed"].endswith("perhaps more on n2")
    hosts.until("n2", AT_WORK, "0")
    planned = hosts.slurmfab("rollback", "--dry-run")
    assert f"Going back to before {kept['run']}." in planned.stderr
    hosts.deploy()
    assert runs(hosts, job)


def test_a_drain_changed_nothing_that_could_be_rolled_back(hosts: DeployedLab) -> None:
    assert hosts.slurmfab("drain", "n1", "--reason", "test").returncode == 0
    done = succeeded(hosts.slurmfab("rollback", "--run", last(hosts)))
    assert "changed no file and no service, and neither did any run since; slurmfab resume n1 undoes it." in done.stderr


def test_a_step_that_fails_on_the_controller_does_not_hide_that_slurmctld_answers(hosts: DeployedLab, job: str) -> None:
    text = hosts.inventory_path.read_text()
    full = "cp -a /etc/slurm /tmp/ && mount -t tmpfs -o size=32k full /etc/slurm && cp -a /tmp/slurm /etc/"
    hosts.on("ctl", f"{full} && ! cat /dev/zero >/etc/slurm/fill 2>/dev/null")
    try:
        hosts.inventory_path.write_text(text.replace("345", "347"))
        done = hosts.slurmfab("deploy", "--json", "-")
    finally:
        hosts.on("ctl", "umount /etc/slurm && rm -r /tmp/slurm")
        hosts.inventory_path.write_text(text)
    assert done.returncode == 1
    assert "ctl is the controller, so nothing else was started." in words_of(done)
    assert "Jobs: 1 ran before, 1 runs now." in done.stderr
    assert "does not answer" not in words_of(done)
    assert [json.loads(done.stdout)[key] for key in ("exit_code", "jobs")] == [
        1, {"before": 1, "after": 1, "ended": [], "lost": []},
    ]  # fmt: skip
    assert runs(hosts, job)


def test_the_first_deployment_goes_only_when_it_is_named_and_when_no_job_is_hurt(hosts: DeployedLab, job: str) -> None:
    first = history(hosts)[0]["run"]
    refused = ended(hosts.slurmfab("rollback", "--run", first), 1)
    assert f"job {job} of slurm" in refused.stdout + refused.stderr
    hosts.on("ctl", f"scancel {job}")
    hosts.until("ctl", "squeue -h", "")

    text = hosts.inventory_path.read_text()
    succeeded(hosts.slurmfab("rollback", "--run", first))
    for host in ALL:
        assert hosts.on(host, f"ls {CONF} /var/lib/slurm/home/.ssh/id_ed25519 2>/dev/null || true") == ""
        assert "slurmfab" not in hosts.on(host, "cat /etc/hosts")
        assert hosts.on(host, "systemctl is-active slurmctld slurmd munge || true").count("inactive") == 3
    assert hosts.inventory_path.read_text() == text
