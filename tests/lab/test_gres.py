"""GPUs of two makes in one cluster on real Slurm: found, described, shared, refused where they are not, and missed.

The GPUs are device files with a stand-in nvidia-smi that names models and slots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
GPUS = ("n1:2:A100-SXM4-40GB", "n2:1:Tesla_V100-SXM2-16GB", "n2:1:L4")
GRES_CONF = """\
NodeName=n1 Name=gpu Type=a100-sxm4-40gb File=/dev/nvidia[0-1]
NodeName=n2 Name=gpu Type=v100-sxm2-16gb File=/dev/nvidia0
NodeName=n2 Name=gpu Type=l4 File=/dev/nvidia1"""
FILES = "cat /etc/slurm/slurm.conf /etc/slurm/gres.conf | sha256sum"
NODES = "  - hosts: n[1-2]\n"


@pytest.fixture(scope="module", params=in_turn("gres"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A deployed cluster with two A100 on one node, a V100 and an L4 on the other."""
    with stock.copy(request.param, nodes=2, gpus=GPUS, shared=("/shared",)) as made:
        made.deploy()
        yield made


@pytest.fixture
def text(cluster: DeployedLab) -> Iterator[str]:
    """The cluster file, which is as before in the end."""
    before = cluster.inventory_path.read_text()
    assert NODES in before
    yield before
    cluster.inventory_path.write_text(before)


def with_keys(text: str, keys: str) -> str:
    """The cluster file with further keys for n1."""
    return text.replace(NODES, f"  - {{hosts: n1, {keys}}}\n  - hosts: n2\n")


def seen_by_slurm(cluster: DeployedLab) -> list[str]:
    """The nodes with state and Gres; idle ones, as soon as slurmctld has heard of all."""
    cluster.until("ctl", "sinfo -h -p main -N -o %t | sort -u", "idle")
    return cluster.on("ctl", "sinfo -h -p main -N -o '%N %G'").splitlines()


def failed_checks(cluster: DeployedLab, node: str) -> list[str]:
    """What the check for GPUs has found on a node."""
    results = cluster.checks("gpus_are_there")
    return [one["cause"] for one in results if one["outcome"] == "failed" and one["host"] == node]


def test_gpus_of_several_models_are_described_alike_on_all_hosts_and_known_to_slurm(cluster: DeployedLab) -> None:
    assert {cluster.on(host, "grep ^NodeName /etc/slurm/gres.conf") for host in HOSTS} == {GRES_CONF}
    assert seen_by_slurm(cluster) == ["n1 gpu:a100-sxm4-40gb:2", "n2 gpu:v100-sxm2-16gb:1,gpu:l4:1"]
    pinned = json.loads(cluster.inventory_path.with_suffix(".lock.json").read_text())["hosts"]
    assert [gpu["bus"] for gpu in pinned["n1"]["gpus"]] == ["0000:01:00.0", "0000:02:00.0"]


def test_a_job_gets_the_model_that_it_asks_for(cluster: DeployedLab) -> None:
    opening = "for n in 0 1; do dd if=/dev/nvidia$n of=/dev/null count=0 2>&1; done; true"
    look = f"runuser -u slurm -- srun --gres=gpu:l4:1 sh -c 'hostname; {opening}'"
    node, *answers = cluster.on("ctl", look).splitlines()
    assert node == "n2"
    assert ["Operation not permitted" in answer for answer in answers] == [True, False]


def test_shards_are_dealt_over_the_gpus_and_a_job_gets_one(cluster: DeployedLab, text: str) -> None:
    cluster.inventory_path.write_text(with_keys(text, "Gres: 'gpu:a100:2,shard:8'"))
    cluster.deploy()
    assert cluster.slurmfab("plan").returncode == 0
    assert seen_by_slurm(cluster)[0].replace("shard:a100:8", "shard:8") == "n1 gpu:a100:2,shard:8"
    look = "runuser -u slurm -- srun --gres=shard:3 sh -c 'hostname; echo $CUDA_VISIBLE_DEVICES'"
    assert cluster.on("ctl", look).split() == ["n1", "0"]
    dealt = cluster.on("n1", "slurmd -G 2>&1 | grep -o 'Name=shard.*Count=[0-9]*'").splitlines()
    assert [line.rpartition("=")[2] for line in dealt] == ["4", "4"]
    cluster.inventory_path.write_text(text)
    cluster.deploy()
    assert cluster.on("n1", "grep ^NodeName /etc/slurm/gres.conf") == GRES_CONF


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("Gres: 'gpu:a100:4'", "n1: the cluster file gives it 4 GPUs, and the lock has 2"),
        ("Gres: 'gpu:a100:2,shard:7'", "shard:7 cannot be divided evenly among 2 GPUs"),
        ("AutoDetect: nvml", "n1: AutoDetect: nvml needs Slurm's plugin gpu_nvml.so"),
        ("File: /dev/accel0", "n1: the cluster file names /dev/accel0 (File), and the lock has no such device"),
        ("Gres: 'gpu:a100:2', File: '/dev/nvidia[0'", '"/dev/nvidia[0" is not a device file'),
    ],
    ids=["too-many", "uneven", "no-plugin", "no-device", "no-list"],
)
def test_gres_that_the_node_cannot_have_is_refused_and_nothing_is_changed(
    cluster: DeployedLab, text: str, keys: str, words: str
) -> None:
    before = {host: cluster.on(host, FILES) for host in HOSTS}
    cluster.inventory_path.write_text(with_keys(text, keys))
    refused = cluster.slurmfab("deploy")
    assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    assert {host: cluster.on(host, FILES) for host in HOSTS} == before


def test_a_device_that_the_cluster_file_names_is_a_gpu_and_is_missed_like_one(cluster: DeployedLab, text: str) -> None:
    cluster.on("n1", "mknod -m 0666 /dev/accel0 c 195 9")
    try:
        cluster.inventory_path.write_text(with_keys(text, "Gres: 'gpu:a100:2,gpu:gaudi:1', File: /dev/accel0"))
        cluster.deploy()
        assert seen_by_slurm(cluster)[0] == "n1 gpu:a100:2,gpu:gaudi:1"
        look = "runuser -u slurm -- srun --gres=gpu:gaudi:1 sh -c 'dd if=/dev/accel0 of=/dev/null count=0 2>&1; true'"
        assert "Operation not permitted" not in cluster.on("ctl", look)
        cluster.on("n1", "mv /dev/accel0 /dev/gone")
        assert failed_checks(cluster, "n1") == ["other hardware: /dev/accel0 is gone."]
    finally:
        cluster.on("n1", "rm -f /dev/accel0 /dev/gone")
    cluster.inventory_path.write_text(text)
    cluster.deploy()
    assert cluster.on("n1", "grep ^NodeName /etc/slurm/gres.conf") == GRES_CONF


def test_a_gpu_that_falls_off_its_bus_is_a_failed_check_that_names_its_slot(cluster: DeployedLab) -> None:
    try:
        cluster.on("n1", "mv /dev/nvidia0 /dev/gone")
        (found,) = failed_checks(cluster, "n1")
        done = cluster.slurmfab("plan")
    finally:
        cluster.on("n1", "mv /dev/gone /dev/nvidia0")
    assert "the GPU in slot 0000:01:00.0 (/dev/nvidia0) is gone (it was a100-sxm4-40gb)" in found
    assert "/dev/nvidia1 a100-sxm4-40gb in slot 0000:02:00.0; the lock has" in done.stdout
    assert failed_checks(cluster, "n1") == []


def test_a_gpu_that_is_another_model_is_a_failed_check_that_names_both(cluster: DeployedLab) -> None:
    try:
        cluster.on("n2", "sed -i.before s/V100-SXM2-16GB/T4/ /etc/lab-gpus")
        (found,) = failed_checks(cluster, "n2")
    finally:
        cluster.on("n2", "mv /etc/lab-gpus.before /etc/lab-gpus")
    assert "the GPU in slot 0000:01:00.0 (/dev/nvidia0) is another one: t4, and was v100-sxm2-16gb" in found


def test_a_node_whose_gpus_are_shared_when_the_backup_controller_takes_over_stays_in_service(
    cluster: DeployedLab, text: str
) -> None:
    both = text.replace("controllers: [ctl]", "controllers: [ctl, n2]\nstate_directory: /shared/state")
    keys = "Gres: 'gpu:a100-sxm4-40gb:2,shard:8'"
    cluster.inventory_path.write_text(both.replace(NODES, f"  - {{hosts: n1, {keys}}}\n"))
    cluster.deploy()
    assert cluster.on("ctl", "grep -oE 'Gres=[^ ]+' /etc/slurm/slurm.conf").endswith("shard:a100-sxm4-40gb:8")
    cluster.on("n2", "scontrol takeover")
    try:
        cluster.until("n2", "scontrol ping | grep -c 'backup.* UP'", "1")
        cluster.until("n2", "sinfo -h -N -n n1 -o %T | sort -u", "idle")
        assert cluster.on("n2", "cd /tmp && timeout 60 runuser -u slurm -- srun --gres=shard:1 hostname") == "n1"
        assert cluster.on("n2", "sinfo -h -N -n n1 -o %T | sort -u") in ("idle", "mixed", "completing")
    finally:
        cluster.on("ctl", "systemctl restart slurmctld")
        cluster.until("ctl", "scontrol ping | grep -c 'primary.* UP'", "1")
        cluster.until("ctl", "sinfo -h -N -n n1 -o %T | sort -u", "idle", 120)
