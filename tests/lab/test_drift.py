"""The four kinds of drift, made on real hosts, told apart by `plan` and `check-cluster`, and ended by a deployment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lab_cluster import DeployedLab, ended
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "drift")]

A_WHILE = "began=$(date +%s); until [ $(date +%s) -ge $((began + 2)) ]; do munge -n | unmunge >/dev/null; done"
"""Credentials for more than a second: start and change times that are closer than a busy machine takes from one
question about a host to the next tell nothing.
"""

DAMAGE = {
    "n1": f"echo '# by hand' >>/etc/slurm/slurm.conf && {A_WHILE} && systemctl restart slurmd",
    "ctl": "touch /etc/slurm/slurm.conf",
    "n2": "mv /dev/nvidia1 /dev/gone",
    "n3": "cp -a /etc/munge/munge.key /root/right && head -c 128 /dev/urandom >/etc/munge/munge.key &&"
    f" systemctl restart munge && {A_WHILE} && cp -a /root/right /etc/munge/munge.key",
}
"""One kind on each host: a file edited and read, a file not read since, a GPU gone, the right key and an old munged."""

RESCUE = {
    "n2": "[ ! -e /dev/gone ] || mv /dev/gone /dev/nvidia1",
    "n3": "rm -f /root/right",
}
KINDS = {"n1": "changed file", "ctl": "older file loaded", "n2": "other hardware", "n3": "key not loaded"}
GROUPS = "daemons,configuration,munge,gpus_are_there"


@dataclass(frozen=True)
class Story:
    """What both commands said while all four were there, and what was left after a deployment."""

    planned: dict[str, Any]
    plan_text: str
    checked: dict[str, Any]
    deployed: dict[str, Any]
    left: dict[str, Any]
    left_text: str
    mended: tuple[int, str]
    checked_again: dict[str, Any]


@pytest.fixture(scope="module")
def drifted(deployed_lab: DeployedLab) -> Iterator[Story]:
    """The deployed lab, damaged, looked at, deployed to, and whole again."""
    try:
        for host, script in DAMAGE.items():
            deployed_lab.on(host, script)
        planned, text = looked(deployed_lab)
        checked = found(deployed_lab)
        deployed = deployed_lab.deploy()
        left, left_text = looked(deployed_lab)
        deployed_lab.on("n2", RESCUE["n2"])
        done = deployed_lab.slurmfab("plan")
        yield Story(
            planned,
            text,
            checked,
            deployed,
            left,
            left_text,
            (done.returncode, done.stdout),
            found(deployed_lab),
        )
    finally:
        for host, script in RESCUE.items():
            deployed_lab.on(host, script)
        deployed_lab.deploy()
        deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle", patience=180)


def looked(cluster: DeployedLab) -> tuple[dict[str, Any], str]:
    """What a plan says to machines and to people."""
    done = ended(cluster.slurmfab("plan", "--json", "-"), 4)
    told: dict[str, Any] = json.loads(done.stdout)
    return told, done.stderr


def found(cluster: DeployedLab) -> dict[str, Any]:
    """What the checks say."""
    done = cluster.slurmfab("check-cluster", "--json", "-", "--only", GROUPS)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def drifts(report: dict[str, Any]) -> dict[str, set[str]]:
    """The kinds of drift in a plan, by host."""
    kinds: dict[str, set[str]] = {}
    for step in report["steps"]:
        words = {outcome["drift"] for outcome in step["outcomes"]} - {""}
        kinds.setdefault(step["host"], set()).update(words)
    return {host: words for host, words in kinds.items() if words}


def failed(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, str]]:
    """The failed checks, by host and kind of drift."""
    return {(one["host"], one["drift"]): one for one in report["checks"] if one["outcome"] == "failed"}


def test_a_plan_tells_the_four_kinds_apart_to_machines_and_to_people(drifted: Story) -> None:
    assert drifts(drifted.planned) == {host: {kind} for host, kind in KINDS.items()}
    for words in (
        "slurm-files:/etc/slurm: would change (changed file)",
        "service:slurmctld: would change (older file loaded)",
        "service:munge: would change (key not loaded)",
        "hardware: differs (other hardware)",
        "; the lock has /dev/nvidia0",
        "deploy does not change this: repair the node",
    ):
        assert words in drifted.plan_text


def test_checks_tell_the_four_kinds_apart_each_with_its_repair(drifted: Story) -> None:
    told = failed(drifted.checked)
    assert {(host, kind) for host, kind in told if kind} == set(KINDS.items())
    for host, kind in KINDS.items():
        assert told[host, kind]["cause"].startswith(f"{kind}: ")
    assert "fab deploy" in told["n1", "changed file"]["repair"]
    assert "fab deploy" in told["ctl", "older file loaded"]["repair"]
    assert "fab deploy" in told["n3", "key not loaded"]["repair"]
    assert "nvidia-smi" in told["n2", "other hardware"]["repair"]


def test_a_key_that_was_not_loaded_is_proved_by_a_credential_on_another_host(drifted: Story) -> None:
    causes = {one["check"]: one["cause"] for one in drifted.checked["checks"] if one["drift"] == "key not loaded"}
    assert "ctl rejects its credentials" in causes["munged_has_its_key"]
    assert "both disks have the same key" in causes["controller_believes_the_credential"]


def test_a_deployment_ends_three_of_them_and_leaves_the_hardware(drifted: Story) -> None:
    changed = {(step["host"], outcome["id"]) for step in drifted.deployed["steps"] for outcome in step["outcomes"]}
    assert {("n1", "slurm-files:/etc/slurm"), ("ctl", "service:slurmctld"), ("n3", "service:munge")} <= changed
    assert "n2" not in {host for host, _ in changed}
    assert drifts(drifted.left) == {"n2": {"other hardware"}}
    assert "nothing would be changed" in drifted.left_text


def test_when_the_hardware_is_back_nothing_differs_any_more(drifted: Story) -> None:
    code, text = drifted.mended
    assert code == 0, text
    assert failed(drifted.checked_again) == {}


def test_a_node_that_slurm_has_drained_for_its_memory_is_other_hardware(deployed_lab: DeployedLab) -> None:
    reason = "Low RealMemory (reported:1000 < 100.00% of configured:2000)"
    deployed_lab.on("ctl", f"scontrol update NodeName=n1 State=DRAIN Reason='{reason}'")
    try:
        done = deployed_lab.slurmfab("check-cluster", "--json", "-", "--only", "node_takes_jobs")
    finally:
        deployed_lab.on("ctl", "scontrol update NodeName=n1 State=RESUME")
    told = failed(json.loads(done.stdout))["n1", "other hardware"]
    assert "less than slurm.conf says" in told["cause"]
    assert "fab accept-hardware n1" in told["repair"]
