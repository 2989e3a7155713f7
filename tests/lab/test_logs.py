"""`fab logs` shows why a node refuses and why a job was killed, from the logs of real daemons."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, eventually, succeeded

from slurmfab.on_hosts.agent.services import daemon_log

pytestmark = pytest.mark.lab

HUNGRY = "python3 -c 'x = bytes([1]) * (300 << 20)'"
OTHER_KEY = (
    "head -c 128 /dev/urandom > /etc/munge/munge.key; systemctl restart munge; systemctl restart --no-block slurmd"
)


def lines(lab: DeployedLab, *words: str) -> list[dict[str, Any]]:
    """The lines that `fab logs` tells."""
    done = succeeded(lab.slurmfab("logs", *words, "--json", "-"))
    told: list[dict[str, Any]] = json.loads(done.stdout)["lines"]
    return told


def test_lines_of_a_start_without_state_when_all_is_well_then_each_error_is_marked_as_normal(
    deployed_lab: DeployedLab,
) -> None:
    seconds = int(deployed_lab.on("ctl", "ps -o etimes= -p 1"))
    period = ("--since", f"{seconds + 1}s", "--until", f"{max(1, seconds - 60)}s")
    told = lines(deployed_lab, "ctl,n[1-3]", *period)
    errors = [line for line in told if "error:" in line["text"] and line["log"].startswith("slurm")]
    assert len(errors) > 5
    # Others come at any time where all is well, such as when srun ends before it is told that its job has.
    assert [one["text"] for one in errors if not one["normal"] and not daemon_log.is_healthy(one["text"])] == []
    shown = succeeded(deployed_lab.slurmfab("logs", "ctl", *period)).stdout
    assert "normal at the first start: error: Could not open job state file" in shown


def test_the_logs_of_a_job_that_was_killed_for_its_memory_show_it(deployed_lab: DeployedLab) -> None:
    lab = deployed_lab
    job = lab.on("ctl", AS_SLURM + f'sbatch --parsable -w n1 --mem=60 --output=/dev/null --wrap "{HUNGRY}"').strip()
    lab.until("ctl", f"squeue --noheader --states=all --jobs={job} --format=%T", "OUT_OF_MEMORY")
    other = lab.on("ctl", AS_SLURM + "sbatch --parsable --wait -w n1 --output=/dev/null --wrap true").strip()
    told = lines(lab, job)
    assert [line for line in told if "oom" in line["text"] and line["hosts"] == ["n1"] and line["log"] == "slurmd"]
    assert [line for line in told if line["hosts"] == ["ctl"] and f"JobId={job}" in line["text"]]
    assert not [line for line in told if f"JobId={other}" in line["text"]]
    assert [line["first"] for line in told] == sorted(line["first"] for line in told)
    shown = lab.slurmfab("logs", job)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"job {job}: OUT_OF_MEMORY")
    assert "on n1, started" in shown.stdout


def test_the_logs_of_a_node_whose_daemon_was_killed_show_it(deployed_lab: DeployedLab) -> None:
    lab = deployed_lab
    lab.on(
        "n3",
        "systemctl kill --signal=KILL slurmd; until systemctl is-failed --quiet slurmd; do :; done; journalctl --sync",
    )
    told = lines(lab, "n3", "--since", "10m")
    lab.on("n3", "systemctl reset-failed slurmd; systemctl start slurmd")
    assert [line for line in told if "status=9/KILL" in line["text"] and line["log"] == "slurmd"]
    assert not [line for line in told if "n1" in line["hosts"]]
    assert lines(lab, "n3", "--since", "2m", "--until", "1s", "--all")


def test_the_logs_of_a_node_with_another_munge_key_show_why_it_is_refused(deployed_lab: DeployedLab) -> None:
    lab = deployed_lab
    lab.on("n3", OTHER_KEY)
    try:
        causes: list[dict[str, Any]] = []

        def is_told() -> bool:
            causes[:] = [line for line in lines(lab, "n3", "--since", "10m") if "nvalid credential" in line["text"]]
            return {"ctl"} <= {host for line in causes for host in line["hosts"]}

        eventually(is_told, lambda: str(causes))
    finally:
        lab.deploy()
    lab.until("ctl", "scontrol ping >/dev/null && runuser -u slurm -- srun -w n3 hostname", "n3")


def test_a_job_that_is_unknown_is_named(deployed_lab: DeployedLab) -> None:
    done = ended(deployed_lab.slurmfab("logs", "4711"), 1)
    assert "Job 4711 is not known" in done.stderr
