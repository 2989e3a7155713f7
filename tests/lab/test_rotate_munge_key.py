"""`fab rotate-munge-key`: one new key everywhere at one moment, proved on every host, and no job that notices."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, succeeded
from lab_user import Person, words_of
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "rotate_munge_key")]

ALL = ("ctl", "n1", "n2", "n3")
KEY = "/etc/munge/munge.key"
STAGED = "ls -A /etc/munge | grep slurmfab || true"
STATE = f"sha256sum {KEY}; stat -c %U:%G:%a:%Z {KEY}; systemctl show -p MainPID munge slurmctld; {STAGED}"
DIFFERED = re.compile(r"keys differed for (\d+\.\d+) s at most, slurmctld was away for (\d+\.\d+) s")

LOOK = "while [ ! -e /tmp/enough ]; do cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; sleep 0.1; done >/tmp/seen 2>&1"
"""Writes down the arguments and the environments of all processes until somebody says that it is enough."""

STEPS = (
    AS_SLURM + 'srun -Q -w n1 -c1 --mem=1 sh -c "touch /tmp/began; sleep 6; echo outlived" >/tmp/outlived 2>&1 & '
    "until [ $(systemctl show -p ActiveState --value slurmctld) = inactive ] || [ -e /tmp/enough ]; do sleep 0.02; "
    "done; "
    "runuser -u slurm -- srun -Q -w n1 -c1 --mem=1 echo begun >/tmp/begun 2>&1; wait"
)
"""A job step that runs all the time, and one that begins while slurmctld is away."""

HAS_STAGED = "ls -A /etc/munge | grep -q slurmfab"
WATCH = (
    f"until {HAS_STAGED} || [ -e /tmp/enough ]; do sleep 0.01; done; touch /tmp/staged; "
    f"while {HAS_STAGED} && [ ! -e /tmp/enough ]; do sleep 0.01; done; touch /tmp/switched"
)
"""Tells jobs of a rotation, because only root sees it."""

AT_STAGE = "until [ -e /tmp/staged ]; do sleep 0.01; done"
AT_SWITCH = "until [ -e /tmp/switched ]; do sleep 0.01; done"
"""Jobs that end at the worst moments: when slurmctld is just being stopped, and when munged is just being restarted."""


@pytest.fixture(autouse=True)
def without_jobs(deployed_lab: DeployedLab) -> Iterator[None]:
    """No job that a test has left."""
    yield
    deployed_lab.on("ctl", "scancel --user=slurm", check=False)


def sums(hosts: DeployedLab, *names: str) -> set[str]:
    """The sums of the keys that hosts have."""
    return {hosts.on(name, f"sha256sum <{KEY}") for name in names}


def betrayals(hosts: DeployedLab) -> tuple[str, ...]:
    """What would give the controller's key away: its beginning in the forms in which it could be written down."""
    hexadecimal = hosts.on("ctl", f"od -An -v -tx1 {KEY} | tr -d ' \\n'")
    key = bytes.fromhex(hexadecimal)
    return hexadecimal[:16], base64.b64encode(key).decode()[:16], repr(key[:8])[2:-1]


def batch(hosts: DeployedLab, node: str, script: str) -> str:
    """The number of a job that has just been submitted for a node."""
    submit = AS_SLURM + f"sbatch --parsable -w {node} -c1 --mem=1 -o /dev/null --wrap '{script}'"
    return hosts.on("ctl", submit)


@contextmanager
def in_background(hosts: DeployedLab, scripts: dict[str, str]) -> Iterator[None]:
    """Scripts that run on hosts until they are told that it is enough."""
    for host, script in scripts.items():
        hosts.on(host, f"rm -f /tmp/enough; systemd-run --quiet --collect --unit=background sh -c '{script}'")
    try:
        yield
    finally:
        for host in scripts:
            hosts.on(host, "touch /tmp/enough")
        for host in scripts:
            hosts.until(host, "systemctl is-active background || true", "inactive")


def test_a_rotation_when_jobs_run_begin_and_end_then_all_hosts_have_one_new_key_and_no_job_notices(
    deployed_lab: DeployedLab,
) -> None:
    hosts = deployed_lab
    old, betraying = sums(hosts, *ALL), betrayals(hosts)
    credential = hosts.on("n1", "munge --no-input")
    hosts.on("n2", "rm -f /tmp/staged /tmp/switched")
    long = batch(hosts, "n3", "sleep 600")
    ending = ",".join(batch(hosts, "n2", script) for script in (AT_STAGE, AT_SWITCH))
    hosts.on("n1", "rm -f /tmp/began")
    with in_background(hosts, {"ctl": STEPS, "n2": WATCH, "n3": LOOK}):
        hosts.until("n1", "ls /tmp/began", "/tmp/began")
        hosts.until("ctl", f"squeue -h -j {long},{ending} -t RUNNING | wc -l", "3")
        done = hosts.slurmfab("rotate-munge-key", "--json", "-")
        hosts.until("ctl", f"squeue -h -j {ending} | wc -l", "0")
        hosts.until("ctl", "cat /tmp/begun /tmp/outlived", "begun\noutlived")
    said = words_of(done)
    assert done.returncode == 0, said
    new = sums(hosts, *ALL)
    assert len(new) == len(old) == 1
    assert new != old
    for host in ALL:
        assert hosts.on(host, f"stat -c %U:%G:%a {KEY}") == "munge:munge:400"
        assert hosts.on(host, STAGED) == ""
    assert "Invalid credential" in hosts.on("ctl", f"echo {credential} | unmunge 2>&1 || true")

    assert hosts.on("ctl", f"squeue -h -j {long} -o %T") == "RUNNING"
    states = hosts.on("ctl", f"for job in {ending.replace(',', ' ')}; do scontrol -o show job $job; done")
    assert re.findall(r"JobState=(\w+)", states) == ["COMPLETED", "COMPLETED"]
    assert "Jobs: " in said

    window, away = map(float, DIFFERED.search(said).groups())  # type: ignore[union-attr]
    assert window < 2 < 1 + away
    report = json.loads(done.stdout)
    assert {step["host"]: step["ok"] for step in report["steps"] if step["phase"] == "proof"} == dict.fromkeys(ALL, 3)
    told = said + "".join(path.read_text() for path in records(hosts))
    told += hosts.on("n3", "tr '\\0' '\\n' </tmp/seen | sort -u")
    assert [mark for mark in (*betraying, *betrayals(hosts), credential[:40]) if mark in told] == []


def records(hosts: DeployedLab) -> list[Path]:
    """The records of all runs over a lab's cluster."""
    found = list(hosts.inventory_path.with_suffix(".runs").glob("*.json"))
    assert found
    return found


def test_a_rotation_when_a_host_cannot_be_reached_then_names_it_and_a_deployment_mends_it(
    deployed_lab: DeployedLab,
) -> None:
    hosts = deployed_lab
    old = sums(hosts, "n3")
    job = batch(hosts, "n3", "sleep 600")
    hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    hosts.on("n3", "systemctl stop ssh.socket ssh 2>/dev/null; pkill -f '[s]shd: root' || true")
    try:
        done = hosts.slurmfab("rotate-munge-key")
    finally:
        hosts.on("n3", "systemctl start ssh")
    said = words_of(done)
    assert done.returncode == 3, said
    assert "It holds the old munge key. When it is back: slurmfab deploy gives it the new one." in said
    assert f"scancel jobs that have ended: {job} (slurm)" in said
    assert sums(hosts, "n3") == old
    assert len(sums(hosts, "ctl", "n1", "n2") - old) == 1
    assert hosts.deploy()["exit_code"] == 0
    assert len(sums(hosts, *ALL)) == 1
    assert hosts.on("ctl", f"squeue -h -j {job} -o %T; scancel {job}") == "RUNNING"
    assert hosts.on("ctl", AS_SLURM + "srun -w n3 hostname") == "n3"


def test_a_rotation_when_the_key_cannot_be_staged_on_one_host_then_changes_nothing_anywhere(
    deployed_lab: DeployedLab,
) -> None:
    hosts = deployed_lab
    full = "cp -a /etc/munge /tmp/ && mount -t tmpfs -o size=8k,mode=700 full /etc/munge && chown munge: /etc/munge"
    hosts.on("n2", f"{full} && cp -a /tmp/munge/. /etc/munge && ! cat /dev/zero >/etc/munge/fill 2>/dev/null")
    try:
        before = {host: hosts.on(host, STATE) for host in ALL}
        done = hosts.slurmfab("rotate-munge-key")
        after = {host: hosts.on(host, STATE) for host in ALL}
    finally:
        hosts.on("n2", "umount /etc/munge; rm -r /tmp/munge")
    assert done.returncode == 1
    assert "n2: staged-munge-key:/etc/munge/munge.key: No space left on device" in words_of(done)
    assert "The munge key was not changed on any host." in words_of(done)
    assert after == before


def test_a_rotation_when_killed_between_stage_and_switch_then_slurmctld_comes_back_and_a_deployment_cleans_up(
    deployed_lab: DeployedLab, tmp_path: Path
) -> None:
    hosts = deployed_lab
    old = sums(hosts, *ALL)
    process = Person.at(tmp_path).start("rotate-munge-key", "--cluster", str(hosts.inventory_path))
    try:
        hosts.until("ctl", "systemctl is-active slurmctld || true", "inactive")
    finally:
        process.kill()
        process.communicate()
    assert [host for host in ALL if hosts.on(host, STAGED) == ""] == []
    assert sums(hosts, *ALL) == old
    hosts.until("ctl", "systemctl is-active slurmctld || true", "active")
    assert hosts.deploy()["exit_code"] == 0
    assert [host for host in ALL if hosts.on(host, STAGED)] == []
    assert sums(hosts, *ALL) == old
    assert hosts.deploy()["steps"] == []


def test_a_rotation_when_one_was_cut_off_amid_the_switch_then_makes_one_key_of_two(deployed_lab: DeployedLab) -> None:
    hosts = deployed_lab
    left = "/etc/munge/.slurmfab-munge.key.0123abcd"
    for host in ("n1", "n2"):
        script = f"umask 377; head -c 128 /dev/urandom >{left}; chown munge: {left}; cp -p {left} /tmp/new"
        hosts.on(host, f"{script}; mv /tmp/new {KEY}; systemctl restart munge")
    assert len(sums(hosts, *ALL)) > 1
    succeeded(hosts.slurmfab("rotate-munge-key"))
    assert len(sums(hosts, *ALL)) == 1
    assert [host for host in ALL if hosts.on(host, STAGED)] == []
