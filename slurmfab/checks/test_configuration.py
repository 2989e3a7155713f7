"""Configuration: one version of Slurm, and byte for byte the same files everywhere."""

from __future__ import annotations

import hashlib

import pytest

from slurmfab.agent.facts import FETCHING
from slurmfab.agent.fetched_files import PLACE
from slurmfab.checks.drifted import Drifted
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.slurm import need_answer
from slurmfab.checks.wanted import CONFIGURATION, FILES, deploy, files
from slurmfab.cluster import Cluster
from slurmfab.facts import MARK
from slurmfab.lock import Lock
from slurmfab.plans.kinds_of_drift import CHANGED_FILE, OLDER_FILE

MAIN = "slurm.conf"
PRIVATE = "job_container.conf"
OWN = f"{CONFIGURATION}/{MAIN}"
HASHES = (
    f"if [ -e {FETCHING} ]; then cd {PLACE} && own={OWN}; else cd {CONFIGURATION}; fi && "
    f"sha256sum {' '.join(FILES)} $own $(grep -ls '^{MARK}' {PRIVATE}) 2>/dev/null || :"
)
"""Prints the hashes of Slurm's files; a job_container.conf of somebody else's is nobody's business here.

Where slurmd fetches them from slurmctld they lie elsewhere, and a slurm.conf in the usual place is one too many.
"""


def test_version_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """Slurm has the version that the controller has"""
    theirs, reference = (host.as_found.ask("scontrol --version") for host in (other, controller))
    assert theirs == reference, (
        f"it has {theirs}, but {controller.name} has {reference}. "
        "Repair: install the same version on both; slurmctld may never be older than a slurmd"
    )


def test_files_are_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """Slurm's files are the same as the controller's"""
    theirs, reference = hashes(other), hashes(controller)
    wrong = [
        f"{name} {'differs from' if name in theirs else 'is missing, other than'} {controller.name}'s"
        for name in (*FILES, PRIVATE)
        if name in reference and theirs.get(name) != reference[name]
    ]
    wrong += [f"{name} is there, and {controller.name} has none" for name in theirs if name not in {*reference, OWN}]
    wrong += [f"{OWN} is there, and hides what slurmd has fetched from Slurm's commands"] if OWN in theirs else []
    if wrong:
        raise Drifted(CHANGED_FILE, f"{'; '.join(wrong)}. Repair: {deploy(other.name)}")


def test_files_are_as_the_cluster_file_says(controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Slurm's files on the controller are what the cluster file says"""
    wanted = files(cluster, lock)
    if not wanted:
        pytest.skip("nothing has been deployed yet.")
    actual = hashes(controller)
    wrong = [
        f"{name} is not what the cluster file says" if name in actual else f"{name} is missing"
        for name, text in wanted.items()
        if actual.get(name) != hashlib.sha256(text.encode()).hexdigest()
    ]
    wrong += [f"{name} is there, and the cluster file needs none" for name in actual if name not in wanted]
    if wrong:
        raise Drifted(
            CHANGED_FILE,
            f"{'; '.join(wrong)}: it was edited there, or the cluster file was, and not deployed. "
            "Repair: fab plan shows the difference, fab deploy ends it",
        )


def test_slurmctld_runs_with_this_file(host: CheckedHost, controller: CheckedHost) -> None:
    """slurm.conf is the one that slurmctld runs with"""
    need_answer(host)
    shown = host.as_found.ask("scontrol show config")
    value = next((line.partition("=")[2] for line in shown.splitlines() if line.startswith("HASH_VAL")), "missing")
    if value.strip() == "Match":
        return
    if hashes(host).get(MAIN) == hashes(controller).get(MAIN):
        raise Drifted(
            OLDER_FILE,
            "its slurm.conf is not the one that slurmctld has read, and is the one on the controller's disk: slurmctld "
            "runs with an older file. Repair: fab deploy",
        )
    raise Drifted(
        CHANGED_FILE,
        "its slurm.conf is not the one that slurmctld has read, nor the one on the controller's disk. "
        f"Repair: {deploy(host.name)}, or fab deploy if {controller.name} has another one than the cluster file says",
    )


def hashes(host: CheckedHost) -> dict[str, str]:
    """The fingerprints of Slurm's files on a host, by name; of those that exist."""
    return {name: value for value, name in (line.split() for line in host.as_found.ask(HASHES).splitlines())}
