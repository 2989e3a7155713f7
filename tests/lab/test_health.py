"""Scripts around jobs, and nodes that look at their own health, on real Slurm of each suite.

One job runs on the node from the first trouble to the last, and goes on through all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

STATE = "scontrol -o show node n1 | grep -o ' State=[^ ]*' | grep -oE 'IDLE|MIXED|DOWN|DRAIN' | paste -sd+"
REASON = "scontrol -o show node n1 | grep -o 'Reason=.*' | sed 's/Reason=//; s/ \\[.*//'"
LOOKED = "stat --format=%Y.%y /run/slurmfab/health.json"
SHOWN = "scontrol -o show node n1; squeue"
LAST = "date; tail -n 9 /var/log/slurmd/slurmd.log; ls -l --time-style=full-iso /run/slurmfab; cat /run/slurmfab/*.json"
DAEMONS = "systemctl show --property=MainPID --value slurmd"
OURS = "slurmfab: health: "

UNIT = "systemctl reset-failed lab-unit 2>/dev/null; systemd-run --quiet --unit=lab-unit sleep infinity"
WELL = f"""
mkdir -p /full /scratch
mountpoint -q /full || mount -t tmpfs -o size=10M tmpfs /full
mountpoint -q /scratch || mount -t tmpfs -o size=1M tmpfs /scratch
systemctl is-active --quiet lab-unit || {{ {UNIT}; }}
"""
HEALTH = "health: {interval: 1, disk: {/: 1%, /full: 10%}, mounts: [/scratch], daemons: [lab-unit]}\n"
SETTINGS = "/etc/slurmfab-health.json"

TROUBLES = {
    "a full disk": ("head -c 9700K /dev/zero > /full/x", "rm /full/x", "/full is full ("),
    "a lost gpu": ("mv /dev/nvidia1 /dev/lost", "mv /dev/lost /dev/nvidia1", "GPU /dev/nvidia1 is gone"),
    "less memory": (
        f'sed -i.was \'s/"memory": .*,/"memory": 99999999,/\' {SETTINGS}',
        f"mv {SETTINGS}.was {SETTINGS}",
        "MiB of memory where slurm.conf has 99999999",
    ),
    "a grave error of a gpu": (
        "echo '3,1,5000000,-;NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.' > /run/kmsg; "
        f'sed -i.was \'1a "kernel_log": "/run/kmsg",\' {SETTINGS}',
        f"/usr/local/lib/slurmfab/health-check forget; mv {SETTINGS}.was {SETTINGS}",
        "GPU 0000:18:00: Xid 79, it has fallen off the bus",
    ),
}
"""What is done to the node, how it is mended, and what the reason then says."""


@dataclass
class Ward:
    """A cluster of one node with two stand-in GPUs, and the directory of its cluster file.

    Args:
        lab: the lab.
        text: the cluster file as the lab made it.
        job: the number of the job that runs on the node all the time.
    """

    lab: DeployedLab
    text: str
    job: str = ""

    def on(self, host: str, script: str) -> str:
        return self.lab.on(host, script)

    def write(self, more: str) -> None:
        self.lab.inventory_path.write_text(self.text + more)

    def script(self, name: str, text: str) -> Path:
        path = self.lab.inventory_path.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def until(self, script: str, expected: str, host: str = "ctl") -> None:
        try:
            self.lab.until(host, script, expected, 60)
        except AssertionError as error:
            seen = f"{self.on('ctl', SHOWN)}\n{self.on('n1', LAST)}"
            raise AssertionError(f"{error}\n{seen}") from None

    def look(self, times: int = 3) -> None:
        """Wait until the node has been looked at so many times more."""
        for _ in range(times):
            seen = self.on("n1", LOOKED)
            self.until(f"[ \"$({LOOKED})\" = '{seen}' ] || echo looked", "looked", "n1")

    @property
    def reason(self) -> str:
        return self.on("ctl", REASON)


@pytest.fixture(scope="module", params=in_turn("health"))
def ward(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Ward]:
    with stock.copy(request.param, nodes=1, gpus=("n1:2",)) as lab:
        lab.deploy()
        yield Ward(lab, lab.inventory_path.read_text())


def test_scripts_run_around_a_job_in_the_order_of_their_names(ward: Ward) -> None:
    for name in ("20-b", "10-a", "30-c"):
        ward.script(f"prolog.d/{name}", f"#!/bin/sh\necho {name} $SLURM_JOB_ID >> /tmp/before\n")
        ward.script(f"epilog.d/{name}", f"#!/bin/bash\necho {name} $SLURM_JOB_ID >> /tmp/after\n")
    ward.script("prolog.d/README.md", "what these are for\n")
    ward.write("prolog: prolog.d\nepilog: epilog.d\n")
    ward.lab.deploy()
    assert ward.lab.deploy()["steps"] == []
    job = ward.on("ctl", AS_SLURM + "sbatch --parsable -o /dev/null --wrap 'cp /tmp/before /tmp/inside'")
    in_order = "\n".join(f"{name} {job}" for name in ("10-a", "20-b", "30-c"))
    for place in ("inside", "after"):
        ward.until(f"cat /tmp/{place}", in_order, "n1")


def test_a_script_that_changes_or_goes_does_so_on_the_node_and_no_daemon_notices(ward: Ward) -> None:
    before = ward.on("n1", DAEMONS)
    ward.script("prolog.d/20-b", "#!/bin/sh\necho changed >> /tmp/before\n")
    ward.script("prolog.d/30-c", "").unlink()
    told = ward.lab.deploy()
    assert {step["phase"] for step in told["steps"]} == {"scripts"}
    assert ward.on("n1", "ls /etc/slurm/prolog.d") == "10-a\n20-b"
    assert "changed" in ward.on("n1", "cat /etc/slurm/prolog.d/20-b")
    assert ward.on("n1", DAEMONS) == before


def test_a_script_that_cannot_run_is_refused_with_its_name_and_nothing_changes(ward: Ward) -> None:
    broken = ward.script("epilog.d/40-d", "echo no interpreter\n")
    refused = ended(ward.lab.slurmfab("deploy"), 2)
    assert f"epilog: {broken}: its first line names no interpreter" in words_of(refused)
    assert ward.on("n1", "ls /etc/slurm/epilog.d") == "10-a\n20-b\n30-c"
    broken.unlink()


def test_a_prolog_that_fails_drains_the_node_requeues_the_job_and_is_named_there(ward: Ward) -> None:
    ward.script("prolog.d/10-a", "#!/bin/sh\nexit 3\n")
    ward.lab.deploy()
    ward.on("n1", "rm -f /tmp/before")
    job = ward.on("ctl", AS_SLURM + "sbatch --parsable -o /dev/null --wrap true")
    ward.until(STATE, "IDLE+DRAIN")
    assert ward.reason == "Prolog error"
    ward.until(f"squeue -h -j {job} -o %T", "PENDING")
    assert ward.on("n1", "ls /tmp/before 2>/dev/null || true") == ""
    words = f"prolog of job {job}: /etc/slurm/prolog.d/10-a failed with exit code 3"
    assert words in ward.on("n1", "journalctl --sync; journalctl --no-pager -t slurmfab")
    ward.script("prolog.d/10-a", "#!/bin/sh\ntrue\n")
    ward.on("ctl", f"scancel {job}")
    succeeded(ward.lab.slurmfab("resume", "--hosts", "n1"))


def test_without_the_keys_all_of_it_is_gone_and_jobs_run(ward: Ward) -> None:
    ward.script("epilog.d/10-a", "#!/bin/sh\ntouch /tmp/epilog-ran\n")
    ward.write("")
    ward.lab.deploy()
    assert ward.lab.deploy()["steps"] == []
    assert ward.on("n1", "ls -d /etc/slurm/*.d /usr/local/lib/slurmfab/* 2>/dev/null | grep -v plugstack || true") == ""
    assert ward.on("ctl", "scontrol show config | grep -ciE '^(prolog|epilog)(\\[0\\])? .*slurmfab' || true") == "0"
    assert ward.on("ctl", AS_SLURM + "srun -t1 hostname") == "n1"


def test_a_rollback_brings_scripts_back_and_another_takes_them_away_and_jobs_run_meanwhile(ward: Ward) -> None:
    for left in ("10-a\n20-b", ""):
        succeeded(ward.lab.slurmfab("rollback"))
        assert ward.on("n1", "ls /etc/slurm/prolog.d 2>/dev/null || true") == left
        assert ward.on("ctl", AS_SLURM + "srun -t1 hostname") == "n1"
    assert ward.lab.deploy()["steps"] == []


def test_a_node_that_is_well_is_looked_at_and_stays_in_service(ward: Ward) -> None:
    ward.on("n1", WELL)
    ward.write(HEALTH)
    ward.lab.deploy()
    ward.job = ward.on("ctl", AS_SLURM + "sbatch --parsable --mem=50 -o /dev/null --wrap 'sleep 3600'")
    ward.until(f"squeue -h -j {ward.job} -o %T", "RUNNING")
    ward.until("ls /run/slurmfab/health.json", "/run/slurmfab/health.json", "n1")
    ward.look()
    assert ward.on("ctl", STATE) == "MIXED"
    checked = succeeded(ward.lab.slurmfab("check-cluster", "--only", "health", "--json", "-"))
    assert {one["check"] for one in json.loads(checked.stdout)["checks"] if one["group"] == "health"} == {
        "health_is_looked_at", "node_is_well",
    }  # fmt: skip


def test_a_look_takes_a_small_part_of_a_second_of_processor_time(ward: Ward) -> None:
    look = "time /usr/local/lib/slurmfab/health-check look >/dev/null"
    times = ward.on("n1", f"bash -c 'TIMEFORMAT=\"%U %S\"; for i in 1 2 3 4 5; do {look}; done' 2>&1")
    seconds = [sum(map(float, line.split())) for line in times.splitlines()]
    assert len(seconds) == 5
    assert min(seconds) < 0.5, seconds


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_node_with_trouble_is_drained_with_the_cause_and_given_back_when_it_is_gone(ward: Ward, trouble: str) -> None:
    bring, mend, words = TROUBLES[trouble]
    ward.on("n1", bring)
    try:
        ward.until(STATE, "MIXED+DRAIN")
        assert (ward.reason.startswith(OURS), words in ward.reason) == (True, True), ward.reason
    finally:
        ward.on("n1", mend)
    ward.until(STATE, "MIXED")


def test_a_node_with_two_troubles_names_both_and_stays_while_one_is_left(ward: Ward) -> None:
    ward.on("n1", "umount /scratch")
    ward.until(REASON, f"{OURS}nothing is mounted at /scratch")
    ward.on("n1", "systemctl stop lab-unit")
    ward.until(REASON, f"{OURS}nothing is mounted at /scratch; lab-unit is inactive")
    ward.on("n1", "mount -t tmpfs tmpfs /scratch")
    ward.until(REASON, f"{OURS}lab-unit is inactive")
    assert ward.on("ctl", STATE) == "MIXED+DRAIN"
    told = ward.lab.slurmfab("status")
    assert "lab-unit is inactive (health check by slurmfab" in words_of(told)
    checked = ward.lab.slurmfab("check-cluster", "--only", "health")
    assert (checked.returncode, "lab-unit is inactive" in words_of(checked)) == (1, True), words_of(checked)


def test_a_node_whose_cause_is_there_is_not_resumed_and_told_why(ward: Ward) -> None:
    refused = ended(ward.lab.slurmfab("resume", "--hosts", "n1"), 1)
    assert "n1: not resumed: its health check finds: lab-unit is inactive." in words_of(refused)
    assert ward.on("ctl", STATE) == "MIXED+DRAIN"


def test_a_node_that_somebody_drains_for_other_reasons_stays_drained_when_the_cause_is_gone(ward: Ward) -> None:
    succeeded(ward.lab.slurmfab("drain", "--hosts", "n1", "--reason", "new fan"))
    assert ward.reason.startswith("slurmfab: new fan (")
    ward.on("n1", UNIT)
    ward.look()
    assert (ward.on("ctl", STATE), ward.reason.startswith("slurmfab: new fan (")) == ("MIXED+DRAIN", True)
    succeeded(ward.lab.slurmfab("resume", "--hosts", "n1"))


def test_a_node_that_an_admin_has_drained_keeps_state_and_reason_whatever_is_found(ward: Ward) -> None:
    ward.on("ctl", "scontrol update NodeName=n1 State=DRAIN Reason='broken fan'")
    ward.on("n1", "umount /scratch")
    ward.look()
    assert (ward.on("ctl", STATE), ward.reason) == ("MIXED+DRAIN", "broken fan")
    ward.on("n1", "mount -t tmpfs tmpfs /scratch")
    ward.look()
    assert (ward.on("ctl", STATE), ward.reason) == ("MIXED+DRAIN", "broken fan")
    ward.on("ctl", "scontrol update NodeName=n1 State=RESUME")


def test_a_deployment_leaves_a_node_as_its_health_check_has_it(ward: Ward) -> None:
    ward.on("n1", "umount /scratch")
    ward.until(STATE, "MIXED+DRAIN")
    assert ward.lab.deploy()["steps"] == []
    assert ward.on("ctl", STATE) == "MIXED+DRAIN"
    ward.on("n1", "mount -t tmpfs tmpfs /scratch")
    ward.until(STATE, "MIXED")


def test_through_all_of_it_the_job_has_run_and_when_the_key_goes_its_drain_goes_and_nothing_is_looked_at(
    ward: Ward,
) -> None:
    assert ward.on("ctl", f"squeue -h -j {ward.job} -o %T") == "RUNNING"
    ward.on("n1", "umount /scratch")
    ward.until(STATE, "MIXED+DRAIN")
    ward.write("")
    ward.lab.deploy()
    assert ward.on("ctl", STATE) == "MIXED", "nothing is left that would resume it"
    assert ward.lab.deploy()["steps"] == []
    assert ward.on("n1", f"ls -d /usr/local/lib/slurmfab/* {SETTINGS} 2>/dev/null || true") == ""
    assert ward.on("ctl", "scontrol show config | awk '$1 == \"HealthCheckInterval\" {print $3}'") == "0"
    ward.on("ctl", f"scancel {ward.job}")
