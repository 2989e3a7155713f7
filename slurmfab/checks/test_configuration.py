"""Checks of the configuration: the same version of Slurm and identical files on all hosts."""

from __future__ import annotations

import hashlib

import pytest

from slurmfab.agent.client import commands
from slurmfab.agent.client.commands import update_partition
from slurmfab.agent.facts.facts import CONFIGLESS_DROP_IN
from slurmfab.agent.slurm.fetched_files import FETCHED_LINK
from slurmfab.checks.drifted import Drifted
from slurmfab.checks.hosts import CheckedHost, line_of
from slurmfab.checks.slurm import Slurm, need_answer
from slurmfab.checks.wanted import FILES, deploy, files
from slurmfab.facts import MADE_BY_SLURMFAB
from slurmfab.impact.drift_kinds import CHANGED_FILE, OLDER_FILE
from slurmfab.inventory.cluster import Cluster, Partition
from slurmfab.inventory.lock import Lock
from slurmfab.paths import SLURM_DIRECTORY
from slurmfab.program_name import FAB

MAIN = "slurm.conf"
PRIVATE = "job_container.conf"
OWN = f"{SLURM_DIRECTORY}/{MAIN}"
HASHES = (
    f"if [ -e {CONFIGLESS_DROP_IN} ]; then cd {FETCHED_LINK} && own={OWN}; else cd {SLURM_DIRECTORY}; fi && "
    f"sha256sum {' '.join(FILES)} $own $(grep -ls '^{MADE_BY_SLURMFAB}' {PRIVATE}) 2>/dev/null || :"
)
"""Prints the hashes of Slurm's files; a job_container.conf that slurmfab did not write is ignored.

In configless mode, slurmd stores the fetched files in another directory, and `OWN` must not exist.
"""

LINKS = (
    f"cd {SLURM_DIRECTORY} 2>/dev/null && for name in {' '.join(FILES)}; do "
    '[ ! -L $name ] || echo "$name is a symbolic link to $(readlink $name)"; done; :'
)
"""Prints which of Slurm's files are links, and where these lead."""


def test_partitions_are_as_wanted(cluster: Cluster, slurm: Slurm) -> None:
    """every partition is in the state of the cluster file"""
    states = slurm.partition_states()
    other = {
        one.name: wanted
        for one in cluster.partitions
        if not (wanted := wanted_state(one)).startswith(states.get(one.name, wanted).upper())
    }
    found = "; ".join(f"partition {name} is {states[name].upper()} in slurmctld" for name in other)
    repair = "; ".join(" ".join(update_partition(name, f"State={state}")) for name, state in other.items())
    assert not other, f"{found}, and not in the cluster file: somebody changed it. Repair: {repair}"


def wanted_state(partition: Partition) -> str:
    """The State of a partition in the cluster file, in capitals."""
    return next((str(value).upper() for key, value in partition.settings.items() if key.lower() == "state"), "UP")


def test_version_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """Slurm has the same version as on the controller"""
    theirs, reference = (host.as_found.ask(line_of(commands.VERSION)) for host in (other, controller))
    assert theirs == reference, (
        f"this host has {theirs}, but {controller.name} has {reference}. "
        "Repair: install the same version on both; slurmctld must not be older than any slurmd"
    )


def test_files_are_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """Slurm's files are the same as the controller's"""
    theirs, reference = hashes(other), hashes(controller)
    wrong = [
        f"{name} {'differs from' if name in theirs else 'is missing, unlike'} {controller.name}'s"
        for name in (*FILES, PRIVATE)
        if name in reference and theirs.get(name) != reference[name]
    ]
    wrong += [f"{name} exists here but not on {controller.name}" for name in theirs if name not in {*reference, OWN}]
    wrong += (
        [f"{OWN} exists, so Slurm's commands read it instead of the files that slurmd fetched"] if OWN in theirs else []
    )
    if wrong:
        raise Drifted(CHANGED_FILE, f"{'; '.join(wrong)}. Repair: {deploy(other.name)}")


def test_files_are_no_links(host: CheckedHost) -> None:
    """Slurm's files are files, and no links to others"""
    links = host.as_found.ask(LINKS).splitlines()
    assert not links, f"{'; '.join(links)}; a change there is not slurmfab's. Repair: {deploy(host.name)}"


def test_files_are_as_the_cluster_file_says(controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Slurm's files on the controller match the cluster file"""
    wanted = files(cluster, lock)
    if not wanted:
        pytest.skip("nothing has been deployed yet.")
    actual = hashes(controller)
    wrong = [
        f"{name} differs from the cluster file" if name in actual else f"{name} is missing"
        for name, text in wanted.items()
        if actual.get(name) != hashlib.sha256(text.encode()).hexdigest()
    ]
    wrong += [f"{name} exists, but the cluster file does not call for it" for name in actual if name not in wanted]
    if wrong:
        raise Drifted(
            CHANGED_FILE,
            f"{'; '.join(wrong)}: the file was edited on the host, or the cluster file was edited and not deployed. "
            f"Repair: {FAB} plan shows the difference, {FAB} deploy removes it",
        )


def test_slurmctld_runs_with_this_file(host: CheckedHost, controller: CheckedHost) -> None:
    """slurm.conf is the one that slurmctld has loaded"""
    need_answer(host)
    shown = host.as_found.ask(line_of(commands.SHOW_CONFIG))
    value = next((line.partition("=")[2] for line in shown.splitlines() if line.startswith("HASH_VAL")), "missing")
    if value.strip() == "Match":
        return
    if hashes(host).get(MAIN) == hashes(controller).get(MAIN):
        raise Drifted(
            OLDER_FILE,
            "its slurm.conf matches the one on the controller's disk but not the one that slurmctld has loaded: "
            f"slurmctld runs with an older file. Repair: {FAB} deploy",
        )
    raise Drifted(
        CHANGED_FILE,
        "its slurm.conf matches neither the one that slurmctld has loaded nor the one on the controller's disk. "
        f"Repair: {deploy(host.name)}, or {FAB} deploy if the one on {controller.name} differs from the cluster file",
    )


def hashes(host: CheckedHost) -> dict[str, str]:
    """SHA-256 sums of the existing Slurm files on a host, by file name, or by path for a superfluous slurm.conf."""
    return {name: value for value, name in (line.split() for line in host.as_found.ask(HASHES).splitlines())}
