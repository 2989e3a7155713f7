"""Jobs that hold GPUs and leave them idle: nodes note them, users get mail, and the job ends if it was asked for.

There are no GPUs: nvidia-smi is a stand-in that prints the use that a file on the host says. The times are shorter than
a cluster file allows; they are set in the files that the deployment wrote.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, DeployedLab, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

KEYS = """idle_gpus: {after: 10m, grace: 10m, then: cancel, spare: [nobody]}
slurm_conf: {MailProg: /usr/local/bin/mailer}
"""
MAILER = (
    "printf '#!/bin/sh\\n{ echo \"to $3: $2\"; cat; } >>/var/tmp/mail\\n' >/usr/local/bin/mailer; "
    "chmod 755 /usr/local/bin/mailer"
)
"""A stand-in for a mail program, which keeps mail in a file."""

SOON = (
    'sed -i -E \'s/"(after|grace)": 600/"\\1": 8/g\' /etc/slurmfab-idle-gpus*.json; '
    "systemctl try-restart slurmfab-idle-gpus || :"
)
ACT = "systemctl start slurmfab-idle-gpus-policy; cat /var/tmp/mail 2>/dev/null"
LEFT = (
    "ls -d /etc/slurmfab-idle-gpus* /usr/local/lib/slurmfab/idle-gpus /usr/local/lib/slurmfab/prolog "
    "/etc/slurm/prolog.d /etc/slurm/epilog.d 2>/dev/null; "
    "systemctl list-unit-files --no-legend 'slurmfab-idle-gpus*'; pgrep -f [i]dle-gpus/run.py"
)
"""Prints what a deployment without the key must not leave."""


@pytest.fixture(scope="module", params=in_turn("idle_gpus"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A cluster of two nodes with two GPUs each, on which idle ones are noted within seconds."""
    with stock.copy(request.param, nodes=2, gpus=("n1:2", "n2:2")) as made:
        made.on("ctl", MAILER)
        made.inventory_path.write_text(made.inventory_path.read_text() + KEYS)
        made.deploy()
        again = made.deploy()
        assert again["steps"] == [], again
        succeeded(made.slurmfab("check-cluster", "--only", "gpus"))
        for host in ("ctl", "n1", "n2"):
            made.on(host, SOON)
        made.until("ctl", "sinfo -h -p main -o %t | sort -u", "idle")
        yield made


def use(cluster: DeployedLab, **busy: str) -> None:
    """Set the use of GPUs on each node, as `MINOR PERCENT`; of the others it is 0."""
    for node in ("n1", "n2"):
        cluster.on(node, f"echo '{busy.get(node, '')}' >/etc/lab-gpus-use")


def submit(cluster: DeployedLab, options: str, user: str = "slurm") -> str:
    """Submit a job that does nothing, and return its number once it runs."""
    as_user = AS_SLURM.replace("slurm", user)
    job = cluster.on("ctl", f"{as_user}sbatch --parsable {options} -o /dev/null --wrap 'srun sleep 600'")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    return job


def comment(job: str) -> str:
    """A command that prints the nodes in a job's note."""
    return f"squeue -h -j {job} -O admin_comment:400 | grep -o 'n[12] [0-9]' | cut -d' ' -f1 | sort | paste -sd' '"


def test_a_job_that_uses_one_of_its_gpus_is_left_alone(cluster: DeployedLab) -> None:
    use(cluster, n1="1 3")
    busy, idle = submit(cluster, "-w n1 --gres=gpu:2"), submit(cluster, "-w n2 --gres=gpu:1")
    cluster.until("ctl", comment(idle), "n2")
    assert cluster.on("ctl", comment(busy)) == ""
    cluster.on("ctl", f"scancel {busy} {idle}")


def test_a_job_of_two_nodes_is_idle_when_both_are_and_no_longer_when_one_works(cluster: DeployedLab) -> None:
    use(cluster, n1="0 99")
    job = submit(cluster, "-N2 --gres=gpu:1")
    cluster.until("ctl", comment(job), "n2")
    cluster.on("ctl", f"rm -f /var/tmp/mail; scontrol update jobid={job} admincomment=\"$(squeue -h -j {job} "
                      "-O admin_comment:400 | sed 's/ *$//;s/^/billed to physics /')\"")  # fmt: skip
    assert cluster.on("ctl", ACT, check=False) == "", "mail about a job that works on one of its nodes"
    use(cluster)
    cluster.until("ctl", comment(job), "n1 n2")
    mail = cluster.on("ctl", ACT)
    assert f"to slurm: Slurm Job_id={job}: its GPUs are idle" in mail
    assert "cancelled after 20" in mail
    use(cluster, n2="0 1")
    cluster.until("ctl", comment(job), "n1")
    cluster.on("ctl", ACT)
    shown = cluster.on("ctl", f"squeue -h -j {job} -O admin_comment:400")
    assert shown.startswith("billed to physics [idle GPUs: |n1 "), shown
    assert "uses its GPUs again" in cluster.on("ctl", "journalctl -u slurmfab-idle-gpus-policy -o cat")
    cluster.on("ctl", f"scancel {job}")


def test_an_idle_job_is_cancelled_after_its_mail_and_one_of_a_spared_user_is_not(cluster: DeployedLab) -> None:
    use(cluster)
    cluster.on("ctl", "rm -f /var/tmp/mail")
    job, spared = submit(cluster, "-w n1 --gres=gpu:1"), submit(cluster, "-w n1 --gres=gpu:1", "nobody")
    cluster.until("ctl", f"{comment(job)}; {comment(spared)}", "n1\nn1")
    assert cluster.on("ctl", ACT).count("its GPUs are idle") == 1
    cluster.until("ctl", f"{ACT} >/dev/null; squeue -h -t all -j {job} -o %T", "CANCELLED")
    told = cluster.on("ctl", f"scontrol show job {job}")
    assert "AdminComment=[idle GPUs: cancelled at 20" in told, told
    assert cluster.on("ctl", f"squeue -h -j {spared} -o %T") == "RUNNING"
    cluster.on("ctl", f"scancel {spared}")
    cluster.until("n1", "ls /run/slurmfab-idle-gpus", "")


def test_without_the_key_nothing_is_left(cluster: DeployedLab) -> None:
    cluster.inventory_path.write_text(cluster.inventory_path.read_text().replace(KEYS, ""))
    cluster.deploy()
    for host in ("ctl", "n1", "n2"):
        assert cluster.on(host, LEFT, check=False) == ""
