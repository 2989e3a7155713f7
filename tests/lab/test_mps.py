"""NVIDIA's MPS daemon around jobs that share a GPU; GPUs are device files, and the daemon is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, DeployedLab
from stand_ins import MPS, MPS_LOG
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

NODES = "  - hosts: n[1-2]\n"
KEYS = '  - {hosts: n1, Gres: "gpu:2,mps:200"}\n  - hosts: n2\n'
# A process that the stand-in forks has its name for a moment, so the number is awaited and not read once.
RUNS = "grep -lx nvidia-cuda-mps /proc/[0-9]*/comm | wc -l"
LEFT = (
    "ls -d /etc/slurm/prolog.d /etc/slurm/epilog.d /usr/local/lib/slurmfab/prolog 2>/dev/null; "
    "grep -iE '^(Prolog|Epilog)=' /etc/slurm/slurm.conf"
)


@pytest.fixture(scope="module", params=in_turn("mps"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A cluster whose first node shares its GPUs by MPS, with a stand-in for the daemon."""
    with stock.copy(request.param, nodes=2, gpus=("n1:2",)) as made:
        made.on("n1", MPS)
        text = made.inventory_path.read_text()
        made.inventory_path.write_text(text.replace(NODES, KEYS) + "mps_daemon: true\n")
        made.deploy()
        made.until("ctl", "sinfo -h -n n1 -p main -o %t", "idle")
        yield made


def check(cluster: DeployedLab) -> None:
    """The check of the daemon passes, whether it runs or not."""
    done = cluster.slurmfab("check-cluster", "--only", "mps")
    assert (done.returncode, "runs only while jobs with mps run" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_daemon_runs_from_the_first_job_with_mps_to_the_last_and_not_in_a_users_directory(
    cluster: DeployedLab,
) -> None:
    cluster.on("n1", "runuser -u nobody -- mkdir /tmp/nvidia-mps")
    script = AS_SLURM + "sbatch --parsable -w n1 -n1 -o /dev/null --gres=mps:20 --wrap 'sleep 600'"
    jobs = [cluster.on("ctl", script) for _ in range(2)]
    cluster.until("ctl", f"squeue -h -j {','.join(jobs)} -o %T | sort -u", "RUNNING")
    cluster.until("n1", "ls /run/slurmfab-mps", f"gpus\njob.{jobs[0]}\njob.{jobs[1]}\nlock")
    cluster.until("n1", RUNS, "1")
    # Whoever can open the lock can take it, so that prologs and epilogs wait, and fail.
    assert cluster.on("n1", "runuser -u nobody -- ls /run/slurmfab-mps/lock 2>/dev/null || echo closed") == "closed"
    assert cluster.on("n1", "stat -c '%U %F' /tmp/nvidia-mps /tmp/nvidia-mps-of-others.*/nvidia-mps").splitlines() == [
        "root directory",
        "nobody directory",
    ]
    cluster.on("ctl", f"scancel {jobs[0]}")
    cluster.until("n1", "ls /run/slurmfab-mps", f"gpus\njob.{jobs[1]}\nlock")
    cluster.until("n1", RUNS, "1")
    check(cluster)
    cluster.on("ctl", f"scancel {jobs[1]}")
    cluster.until("n1", RUNS, "0")
    assert cluster.on("n1", f"cat {MPS_LOG}").splitlines() == ["start 0", "quit"]
    check(cluster)


def test_a_job_with_a_whole_gpu_starts_no_daemon(cluster: DeployedLab) -> None:
    cluster.on("n1", f": >{MPS_LOG}")
    assert cluster.on("ctl", AS_SLURM + "srun -w n1 --gres=gpu:1 hostname") == "n1"
    assert cluster.on("n1", f"cat {MPS_LOG}") == ""


def test_without_the_key_nothing_is_left(cluster: DeployedLab) -> None:
    text = cluster.inventory_path.read_text()
    cluster.inventory_path.write_text(text.replace("mps_daemon: true\n", ""))
    cluster.deploy()
    assert cluster.on("n1", LEFT, check=False) == ""
