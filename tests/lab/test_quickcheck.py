"""Quickcheck on real hosts: a container by a real runtime, and what becomes of trouble in the middle of it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from lab_cluster import PROGRAM, DeployedLab
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "quickcheck")]

# Podman for a user in a lab host: no FUSE, no keyring and no sysctls in a container within a container.
PODMAN = r"""
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends podman crun uidmap busybox-static >/dev/null
mkdir -p /etc/containers
printf '[storage]\ndriver = "vfs"\n' > /etc/containers/storage.conf
printf '[containers]\nkeyring = false\ndefault_sysctls = []\n[engine]\nevents_logger = "file"\n' \
    > /etc/containers/containers.conf
grep -q ^slurm: /etc/subuid || { echo slurm:200000:65536 >> /etc/subuid; echo slurm:200000:65536 >> /etc/subgid; }
mkdir -p /tmp/tiny/bin && cp /bin/busybox /tmp/tiny/bin/ && ln -sf busybox /tmp/tiny/bin/sh
ln -sf busybox /tmp/tiny/bin/uname
cd /tmp && tar -C /tmp/tiny -c . | runuser -u slurm -- env -i HOME=/var/lib/slurm/home PATH=/usr/bin:/bin \
    podman import - tiny 2>&1
"""
NO_PODMAN = "apt-get purge -y podman >/dev/null; rm -rf /etc/containers /tmp/tiny /var/lib/slurm/home/.local"
TABLE = "/etc/slurmfab-lab/nccl-table"


def quickchecked(cluster: DeployedLab, *words: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit code, the last line of each check, and what people see."""
    done = cluster.slurmfab("quickcheck", "--json", "-", *words)
    assert done.stdout.startswith("{"), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.returncode, {line["check"]: line for line in json.loads(done.stdout)["checks"]}, done.stderr


@pytest.fixture
def n1_with_podman(deployed_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The lab, with Podman and an image of busybox for the slurm user on n1."""
    deployed_lab.on("n1", PODMAN)
    yield deployed_lab
    deployed_lab.on("n1", NO_PODMAN, check=False)


def test_a_container_runs_in_a_job_by_the_runtime_and_the_image_that_are_there(n1_with_podman: DeployedLab) -> None:
    code, lines, shown = quickchecked(n1_with_podman, "--only", "container", "--hosts", "n1")
    assert (code, lines["container"]["words"]) == (0, "podman ran a shell in localhost/tiny:latest"), shown
    code, lines, shown = quickchecked(
        n1_with_podman, "--only", "container", "--hosts", "n1", "--image", "localhost/none:1"
    )
    assert (code, lines["container"]["outcome"]) == (1, "failed"), shown


def test_an_interruption_leaves_no_job_behind(deployed_lab: DeployedLab) -> None:
    deployed_lab.on("n1", f"cp {TABLE} {TABLE}.kept; sed -i 's/^seconds .*/seconds 300/' {TABLE}")
    try:
        words = ["quickcheck", "--only", "nccl", "--hosts", "n1", "--cluster", str(deployed_lab.inventory_path)]
        # It can be interrupted even where the tests themselves cannot, as in the background of a shell.
        program = ["env", "--default-signal=INT", *PROGRAM]
        with subprocess.Popen([*program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            deployed_lab.until("ctl", "squeue -h -o '%T %N'", "RUNNING n1")
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=60) == 130
        deployed_lab.until("ctl", "squeue -h", "")
    finally:
        deployed_lab.on("n1", f"mv {TABLE}.kept {TABLE}")


def test_a_job_that_takes_too_long_is_ended_and_told(deployed_lab: DeployedLab) -> None:
    deployed_lab.on("n1", f"cp {TABLE} {TABLE}.kept; sed -i 's/^seconds .*/seconds 300/' {TABLE}")
    try:
        code, lines, shown = quickchecked(deployed_lab, "--only", "nccl", "--hosts", "n1", "--timeout", "6")
    finally:
        deployed_lab.on("n1", f"mv {TABLE}.kept {TABLE}")
    assert (code, lines["nccl"]["outcome"]) == (1, "failed"), shown
    assert "no result within 6 s" in lines["nccl"]["words"]
    deployed_lab.until("ctl", "squeue -h", "")


def test_a_node_whose_slurmd_has_died_is_told_before_slurmctld_knows(deployed_lab: DeployedLab) -> None:
    deployed_lab.on("n3", "systemctl stop slurmd")
    try:
        code, lines, shown = quickchecked(deployed_lab, "--hosts", "n3")
        assert code == 1
        assert lines["allocation"]["words"].endswith("makes no progress: slurmd is inactive."), shown
        assert {line["outcome"] for check, line in lines.items() if check != "allocation"} == {"not run"}
    finally:
        deployed_lab.on("n3", "systemctl start slurmd")
    deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle", patience=180)


def test_without_slurmctld_it_says_so_at_once(deployed_lab: DeployedLab) -> None:
    deployed_lab.on("ctl", "systemctl stop slurmctld")
    try:
        done = deployed_lab.slurmfab("quickcheck")
    finally:
        deployed_lab.on("ctl", "systemctl start slurmctld")
    assert done.returncode == 1
    assert "slurmctld does not answer on ctl, so no job can be submitted." in done.stderr
    deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle", patience=180)
