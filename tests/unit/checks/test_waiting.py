"""What is recommended when Slurm does not run a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurmfab.cluster.inventory import loading
from slurmfab.commands.checks import node_state
from slurmfab.commands.checks.node_state import ANOTHER_USER, LOGS, repair_of
from slurmfab.commands.checks.slurm import WATCHED
from slurmfab.commands.checks.user_jobs import turn_seconds

CLUSTER = "cluster: tiny\ncontrollers: [ctl]\nnodes: [{hosts: n1}]\nslurm_conf: "


@pytest.mark.parametrize(
    ("message", "repair"),
    [
        ("Unable to allocate resources: Invalid user id", ANOTHER_USER),
        ("Batch job submission failed: Invalid user id", ANOTHER_USER),
        ("Required partition not available (inactive or drain)", "scontrol update PartitionName=main State=UP"),
        ("Invalid account or account/partition combination specified", LOGS),
    ],
    ids=["srun-of-root", "sbatch-of-root", "closed-partition", "anything-else"],
)
def test_a_job_that_slurm_refuses_when_it_is_told_then_the_repair_fits_the_words(message: str, repair: str) -> None:
    assert repair_of("main", message) == repair


@pytest.mark.parametrize(
    ("slurm_conf", "seconds"),
    [
        ("{}", 0),
        ("{PreemptMode: REQUEUE, PreemptType: preempt/partition_prio}", 0),
        ("{PreemptMode: 'suspend,gang', PreemptType: preempt/partition_prio}", 60),
        ("{PreemptMode: GANG, SchedulerTimeSlice: 10}", 20),
    ],
)
def test_a_job_when_jobs_share_cpus_in_turns_then_has_time_for_two_of_its_own(slurm_conf: str, seconds: int) -> None:
    assert turn_seconds(loading.parse(f"{CLUSTER}{slurm_conf}\n", "tiny.yaml")) == seconds


@pytest.mark.parametrize("reason", ["Prolog", "Cleaning", "", "Resources"])
def test_a_job_whose_nodes_are_made_ready_waits_for_nodes_and_does_not_fail(reason: str) -> None:
    assert node_state.is_for_nodes(reason)
    assert not node_state.is_limit(reason)


@pytest.mark.parametrize(
    ("shown", "cancelled"),
    [("7 QOSMaxCpuPerJobLimit", "7"), ("7 Resources", ""), ("7_4 AssocGrpCpuLimit", "7_4"), ("7 Priority", "")],
)
def test_a_job_is_cancelled_when_a_limit_holds_it_and_not_when_it_waits_for_nodes(
    tmp_path: Path, shown: str, cancelled: str
) -> None:
    for name, script in (("xargs", "while read -r job; do echo $job >>cancelled; done"), ("squeue", f"echo '{shown}'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    job = "for try in $(seq 100); do test -s cancelled && exit 3; test $try = 20 && exit 4; sleep 0.02; done"
    script = WATCHED.replace("cd /tmp", f"cd {tmp_path}").format(
        command=f"sh -c '{job}'", seconds="0.05", limited=node_state.limited("squeue")
    )
    done = subprocess.run(["env", f"PATH={tmp_path}:/usr/bin:/bin", "sh", "-c", script], check=False)
    assert done.returncode == (3 if cancelled else 4)
    found = (tmp_path / "cancelled").read_text().split() if cancelled else []
    assert found[:1] == ([cancelled] if cancelled else [])
