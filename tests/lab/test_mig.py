"""GPUs divided into MIG instances from the cluster file: drained, divided, told to Slurm, proved, and all taken back.

There are no GPUs: nvidia-smi is a stand-in with a MIG mode. It makes the device files of instances, and the tree in
which the driver names them, on a mount over /proc/driver in the lab's host. Slurm, its control groups and systemd are
real.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

MODEL = "a100-sxm4-40gb"
GROUP = "  - hosts: n[1-2]\n"
DIVIDED = "  - {hosts: n1, mig: [3g.20gb, 2g.10gb, 2g.10gb]}\n  - {hosts: n2}\n"
OTHERWISE = "  - {hosts: n1, mig: [7g.40gb]}\n  - {hosts: n2}\n"
HOLDER = "import os, time; os.open('/dev/nvidia1', os.O_PATH); time.sleep(3600)"
"""Has a GPU's device file open, which works without a driver."""

LEFT = (
    "ls -d /etc/slurmfab-mig* /usr/local/lib/slurmfab/mig /etc/systemd/system/slurmfab-mig* "
    "/etc/systemd/system/*/slurmfab-mig* /run/lab-mig-* 2>/dev/null; cat /etc/lab-mig-*"
)
"""Prints what is left on a node; the mode of its two GPUs is off."""


@pytest.fixture(scope="module", params=in_turn("mig"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A cluster with two whole GPUs on one of its nodes."""
    with stock.copy(request.param, nodes=2, gpus=("n1:2:A100-SXM4-40GB",)) as made:
        made.deploy()
        yield made


def say(cluster: DeployedLab, before: str, after: str) -> None:
    """Change the groups of nodes in the cluster file."""
    text = cluster.inventory_path.read_text()
    assert before in text
    cluster.inventory_path.write_text(text.replace(before, after))


def passes_checks(cluster: DeployedLab) -> None:
    succeeded(cluster.slurmfab("check-cluster", "--only", "gpus"))


def gres(cluster: DeployedLab) -> str:
    return cluster.on("ctl", "sinfo -h -n n1 -p main -o '%t %G'")


def test_gpus_when_the_file_divides_them_then_the_plan_says_so_and_a_job_is_not_hurt(cluster: DeployedLab) -> None:
    say(cluster, GROUP, DIVIDED)
    job = cluster.on("ctl", f"{AS_SLURM}sbatch --parsable -w n1 -o /dev/null --wrap 'sleep 600'")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    planned = words_of(cluster.slurmfab("plan"))
    assert "n1: 2 GPUs become 3g.20gb, 2g.10gb, 2g.10gb (mig) while the node is drained" in planned
    assert "--drain-first." in planned
    refused = ended(cluster.slurmfab("deploy"), 1)
    assert "n1: GPUs divided into other MIG instances" in words_of(refused)
    assert gres(cluster) == f"mix gpu:{MODEL}:2"
    cluster.on("ctl", f"scancel {job}")
    cluster.until("ctl", "squeue -h", "")


def test_gpus_when_a_process_has_one_open_then_it_is_named_and_the_node_stays_drained(cluster: DeployedLab) -> None:
    pid = cluster.on("n1", f'python3 -c "{HOLDER}" >/dev/null 2>&1 & echo $!')
    failed = ended(cluster.slurmfab("deploy"), 3)
    assert f"(/dev/nvidia1) is in use, so no GPU was divided: PID {pid} (python3" in words_of(failed)
    assert gres(cluster) == f"drain gpu:{MODEL}:2"
    cluster.on("n1", f"kill {pid}; nvidia-smi -L | grep -c MIG", check=False)


def test_gpus_when_nothing_uses_them_then_slurm_gives_their_instances_to_jobs(cluster: DeployedLab) -> None:
    told = cluster.deploy()
    assert [step["host"] for step in told["steps"] if step["phase"] == "trial"] == ["n1"]
    assert cluster.on("n1", "nvidia-smi -L | grep -c '  MIG'") == "6"
    assert gres(cluster) == f"idle gpu:{MODEL}_3g.20gb:2,gpu:{MODEL}_2g.10gb:4"
    assert cluster.deploy()["steps"] == []
    passes_checks(cluster)
    seen = cluster.on("ctl", f"{AS_SLURM}srun -w n1 --gres=gpu:{MODEL}_2g.10gb:1 nvidia-smi -L | grep '  MIG'")
    assert seen.split()[:2] == ["MIG", "2g.10gb"], seen
    assert len(seen.splitlines()) == 1


def test_instances_when_the_node_boots_then_they_are_made_before_slurmd_starts(cluster: DeployedLab) -> None:
    succeeded(cluster.slurmfab("reboot", "n1", "--timeout", "3"))
    assert cluster.on("n1", "nvidia-smi -L | grep -c '  MIG'") == "6"
    assert cluster.deploy()["steps"] == []
    passes_checks(cluster)


def test_instances_when_a_hand_destroys_them_then_the_check_says_so_and_a_deployment_makes_them_again(
    cluster: DeployedLab,
) -> None:
    cluster.on("n1", "nvidia-smi mig -i 00000000:02:00.0 -dgi")
    done = ended(cluster.slurmfab("check-cluster", "--only", "gpus"), 1)
    assert "is in MIG mode without instances, and should be 2g.10gb, 2g.10gb, 3g.20gb" in words_of(done)
    cluster.deploy()
    passes_checks(cluster)
    cluster.until("ctl", "sinfo -h -n n1 -p main -o %t", "idle")


def test_gpus_when_the_layout_changes_under_a_job_then_drain_first_waits_for_it(cluster: DeployedLab) -> None:
    say(cluster, DIVIDED, OTHERWISE)
    cluster.on("n1", "touch /etc/lab-mig-reset")
    job = cluster.on("ctl", f"{AS_SLURM}sbatch --parsable -w n1 --gres=gpu:1 -o /dev/null --wrap 'sleep 6'")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    cluster.deploy("--drain-first")
    assert gres(cluster) == f"idle gpu:{MODEL}_7g.40gb:2"
    passes_checks(cluster)


def test_gpus_when_the_key_goes_then_they_are_whole_and_nothing_is_left(cluster: DeployedLab) -> None:
    say(cluster, OTHERWISE, GROUP)
    cluster.deploy()
    assert gres(cluster) == f"idle gpu:{MODEL}:2"
    assert cluster.on("n1", LEFT, check=False) == "Disabled\nDisabled"
    assert "mig" not in cluster.inventory_path.with_suffix(".lock.json").read_text()
    assert cluster.deploy()["steps"] == []
    passes_checks(cluster)
