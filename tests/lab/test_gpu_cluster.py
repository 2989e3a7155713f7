"""A cluster with GPUs of two types, and all that the cluster file can say of such: from the first deployment to a GPU
that is gone. Its GPUs are stand-ins, and so is its all_reduce_perf, which says so."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from lab_cluster import AS_SLURM, DeployedLab, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

A100, V100 = "a100-sxm4-40gb", "v100-sxm2-16gb"
MORE = """
licenses: {matlab: 1, comsol: 2}
private_tmp: true
health: true
gpu_checks: {when: never}
"""
GROUPS = f"""  - {{hosts: n1, Gres: "gpu:{A100}:2,localtmp:800G"}}
  - {{hosts: n2, Gres: "gpu:{V100}:2"}}
"""
SUBMIT = AS_SLURM + "sbatch --parsable -n1 --mem=50 -o /dev/null {} --wrap 'sleep 60'"
HEALTH_CHECK = "/usr/local/lib/slurmfab/health-check"
SEEN = "squeue -h -j {} -o '%T %r'"


@pytest.fixture(scope="module", params=in_turn("gpu_cluster"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """Deployed once as a first contact leaves it, and then with all keys for GPUs."""
    gpus = ("n1:2:A100-SXM4-40GB", "n2:2:Tesla_V100-SXM2-16GB")
    with stock.copy(request.param, nodes=2, gpus=gpus) as lab:
        lab.deploy()
        text = lab.inventory_path.read_text()
        lab.inventory_path.write_text(text.replace("  - hosts: n[1-2]\n", GROUPS) + MORE)
        lab.deploy()
        lab.until("ctl", "sinfo -h -o '%D %t'", "2 idle")
        yield lab


@pytest.fixture
def scancel(cluster: DeployedLab) -> Iterator[None]:
    """Jobs of the test are gone in the end."""
    yield
    cluster.on("ctl", "scancel --user=slurm")
    cluster.until("ctl", "squeue -h", "")


def quickchecked(cluster: DeployedLab, *words: str) -> tuple[int, dict[str, list[dict[str, Any]]], str]:
    """Exit code, lines by check, and what people see."""
    done = cluster.slurmfab("quickcheck", "--json", "-", *words)
    assert done.stdout.startswith("{"), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in json.loads(done.stdout)["checks"]:
        lines.setdefault(line["check"], []).append(line)
    return done.returncode, lines, done.stderr


def failed(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], str]:
    """Causes of failed checks by host and check."""
    checks = json.loads(done.stdout)["checks"]
    return {(one["host"], one["check"]): one["cause"] for one in checks if one["outcome"] == "failed"}


def test_a_second_deployment_changes_nothing(cluster: DeployedLab) -> None:
    assert cluster.deploy()["steps"] == []


def test_check_cluster_finds_nothing_wrong(cluster: DeployedLab) -> None:
    done = cluster.slurmfab("check-cluster", "--json", "-")
    assert failed(done) == {}
    assert done.returncode == 0


def test_quickcheck_passes_with_a_line_for_each_type_of_gpu(cluster: DeployedLab) -> None:
    code, lines, shown = quickchecked(cluster)
    assert code == 0, shown
    for check in ("allocation", "environment", "nodes"):
        assert [line["outcome"] for line in lines[check]] == ["passed"], shown
    assert {line["host"]: line["words"] for line in lines["gpus"]} == {
        "n1": f"jobs with one {A100} and all 2; nvidia-smi lists 2",
        "n2": f"jobs with one {V100} and all 2; nvidia-smi lists 2",
    }
    assert [line["outcome"] for line in lines["nccl"]] == ["passed", "passed"], shown
    assert "GB/s bus bandwidth" in lines["nccl"][0]["words"]
    assert lines["container"][0]["words"] == "no container runtime (enroot with pyxis, apptainer, podman) on n1."
    cluster.until("ctl", "squeue -h", "")
    assert cluster.on("n1", "ls /var/lib/slurm/home /home /tmp | grep -c slurmfab-check || true") == "0"


def test_quickcheck_runs_as_a_user_and_tells_when_their_home_is_not_on_the_node(cluster: DeployedLab) -> None:
    for host in ("ctl", "n1"):
        cluster.on(host, "useradd --create-home --uid 2345 ann")
    code, lines, shown = quickchecked(cluster, "--user", "ann", "--hosts", "n1", "--only", "allocation,environment")
    assert code == 0, shown
    assert "of ann in /home/ann" in lines["environment"][0]["words"]
    cluster.on("n1", "rm -r /home/ann")
    code, lines, shown = quickchecked(cluster, "--user", "ann", "--hosts", "n1", "--only", "allocation")
    assert code == 1
    assert "/home/ann" in lines["allocation"][0]["words"] + lines["allocation"][0]["repair"], shown


@pytest.mark.usefixtures("scancel")
def test_local_disk_that_is_counted_is_given_out_and_no_more_than_there_is(cluster: DeployedLab) -> None:
    first = cluster.on("ctl", SUBMIT.format("--gres=localtmp:500G"))
    cluster.until("ctl", SEEN.format(first), "RUNNING None")
    assert cluster.on("ctl", f"squeue -h -j {first} -o %N") == "n1"
    second = cluster.on("ctl", SUBMIT.format("--gres=localtmp:500G"))
    cluster.until("ctl", SEEN.format(second), "PENDING Resources")
    refused = cluster.on("ctl", SUBMIT.format("--gres=localtmp:900G") + " 2>&1 || true")
    assert "Requested node configuration is not available" in refused
    assert cluster.on("n1", "grep -ci 'error.*gres' /var/log/slurmd/slurmd.log || true") == "0"


@pytest.mark.usefixtures("scancel")
def test_licences_that_are_used_up_make_jobs_wait_and_more_come_by_a_reconfigure(cluster: DeployedLab) -> None:
    first = cluster.on("ctl", SUBMIT.format("-L matlab:1 -w n1"))
    cluster.until("ctl", SEEN.format(first), "RUNNING None")
    second = cluster.on("ctl", SUBMIT.format("-L matlab:1 -w n2"))
    cluster.until("ctl", SEEN.format(second), "PENDING Licenses")
    unknown = cluster.on("ctl", SUBMIT.format("-L nothing:1") + " 2>&1 || true")
    assert "Invalid license specification" in unknown
    text = cluster.inventory_path.read_text()
    cluster.inventory_path.write_text(text.replace("matlab: 1", "matlab: 2"))
    told = json.loads(cluster.slurmfab("plan", "--json", "-").stdout)
    assert {one["name"]: one["needs"] for one in told["slurm_conf"]} == {"Licenses": "reconfigure"}
    cluster.deploy()
    cluster.until("ctl", SEEN.format(second), "RUNNING None")
    assert cluster.on("ctl", SEEN.format(first)) == "RUNNING None"


@pytest.mark.usefixtures("scancel")
def test_a_job_that_waits_for_gpus_when_it_is_explained_then_the_jobs_that_have_them_are_named(
    cluster: DeployedLab,
) -> None:
    holders = [cluster.on("ctl", SUBMIT.format(f"--gres=gpu:2 -w {node}")) for node in ("n1", "n2")]
    for job in holders:
        cluster.until("ctl", SEEN.format(job), "RUNNING None")
    for wanted in ("--gres=gpu:1", "--gpus=2"):
        job = cluster.on("ctl", SUBMIT.format(wanted))
        cluster.until("ctl", SEEN.format(job), "PENDING Resources")
        said = " ".join(succeeded(cluster.slurmfab("explain", job)).stdout.split())
        assert "n1 and n2 have no GPUs left for it beside job" in said, (wanted, said)
        assert all(f"job {one}" in said for one in holders), (wanted, said)
        cluster.on("ctl", f"scancel {job}")


def test_all_nodes_busy_is_not_run_and_ends_by_itself(cluster: DeployedLab) -> None:
    job = cluster.on("ctl", AS_SLURM + "sbatch --parsable -N2 --exclusive -o /dev/null --wrap 'sleep 600'")
    try:
        cluster.until("ctl", SEEN.format(job), "RUNNING None")
        code, lines, shown = quickchecked(cluster)
        assert cluster.on("ctl", SEEN.format(job)) == "RUNNING None"
    finally:
        cluster.on("ctl", f"scancel {job}")
    cluster.until("ctl", "squeue -h", "")
    assert code == 3, shown
    assert {line["outcome"] for some in lines.values() for line in some} == {"not run"}
    assert lines["allocation"][0]["words"] == "other jobs use all of n[1-2]."


MISTAKES = [
    pytest.param(
        f"gpu:{V100}:2", f"gpu:{V100}:3", "n2: the cluster file gives it 3 GPUs, and the lock has 2", id="gpus"
    ),
    pytest.param(f"gpu:{V100}:2", f"gpu:{V100}:two", "is not a Gres; write NAME:COUNT or NAME:TYPE:COUNT", id="count"),
    pytest.param("localtmp:800G", "localtmp:800 GB", "is not a Gres; write NAME:COUNT or NAME:TYPE:COUNT", id="unit"),
    pytest.param("comsol: 2", "comsol: 0", "licenses.comsol: it must be at least 1", id="licence"),
]


@pytest.mark.parametrize(("right", "wrong", "complaint"), MISTAKES)
def test_a_file_that_cannot_be_is_refused_and_nothing_is_changed(
    cluster: DeployedLab, right: str, wrong: str, complaint: str
) -> None:
    text = cluster.inventory_path.read_text()
    before = cluster.on("ctl", "cat /etc/slurm/*.conf")
    cluster.inventory_path.write_text(text.replace(right, wrong))
    try:
        done = cluster.slurmfab("deploy")
    finally:
        cluster.inventory_path.write_text(text)
    assert done.returncode == 2, done.stdout + done.stderr
    assert complaint in done.stderr
    assert cluster.on("ctl", "cat /etc/slurm/*.conf") == before


def test_a_gpu_that_is_gone_is_named_and_nothing_of_the_configuration_changes(cluster: DeployedLab) -> None:
    before = cluster.on("ctl", "cat /etc/slurm/*.conf")
    cluster.on("n2", "rm /dev/nvidia1")
    try:
        code, lines, shown = quickchecked(cluster, "--hosts", "n2", "--only", "gpus,nccl")
        assert (code, [line["outcome"] for line in lines["nccl"]]) == (1, ["not run"]), shown
        assert "(/dev/nvidia1) is gone, but Slurm still counts it." in lines["gpus"][0]["words"], shown
        assert "dmesg" in lines["gpus"][0]["repair"]
        causes = failed(cluster.slurmfab("check-cluster", "--only", "gpus", "--json", "-"))
        assert "/dev/nvidia1" in causes[("n2", "gpus_are_there")]
        cluster.slurmfab("deploy")
        assert cluster.on("ctl", "cat /etc/slurm/*.conf") == before
        cluster.on("n2", HEALTH_CHECK)
        cluster.until("ctl", "sinfo -h -p main -n n2 -o %t", "drain")
        code, lines, shown = quickchecked(cluster)
        assert code == 1
        assert [(line["host"], line["outcome"]) for line in lines["gpus"]] == [("n1", "passed"), ("", "failed")], shown
        assert "/dev/nvidia1 is gone" in lines["gpus"][1]["words"], shown
    finally:
        cluster.on("n2", "mknod -m 666 /dev/nvidia1 c 195 1")
    cluster.on("n2", f"{HEALTH_CHECK}; {HEALTH_CHECK}")
    cluster.until("ctl", "sinfo -h -p main -n n2 -o %t", "idle")
    assert quickchecked(cluster, "--hosts", "n2", "--only", "gpus")[0] == 0
