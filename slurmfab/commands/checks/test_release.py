"""Check that the versions of Slurm work together; where one does not, nothing else about Slurm is checked there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import pytest

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm import mixed
from slurmfab.cluster.slurm.platform import APT, wanted
from slurmfab.commands.checks.applies import foundation
from slurmfab.commands.checks.hand_made import lives_without_files
from slurmfab.commands.checks.hosts import CheckedHost, line_of
from slurmfab.commands.checks.processes import SLURMS, processes
from slurmfab.commands.checks.release import OtherRelease, Remark, way_back
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import Command

NUMBER = re.compile(r"\d+\.\d+(?:\.\d+)?")

RUNS = "tr '\\0' '\\n' </proc/%s/exe | grep -axm1 '[0-9][0-9]\\.[0-9][0-9]\\.[0-9]*'"
"""Prints the version that one of Slurm's daemons runs: its program has it once, between zero bytes."""


@foundation
def test_release_is_the_controllers(
    other: CheckedHost, controller: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock
) -> None:
    """Slurm's release works with the controller's"""
    has_no_files = lives_without_files(other, others, cluster, lock)
    theirs = version_on(other, commands.DATABASE_VERSION if has_no_files else commands.VERSION)
    reference = version_on(controller, commands.VERSION)
    if theirs == reference:
        return

    def way(trouble: Literal["newer", "too old"]) -> str:
        kind = wanted(cluster, other.name)
        if kind != wanted(cluster, controller.name):
            return mixed.chosen(reference)
        if trouble == "newer" or kind.manager != APT:
            return way_back(other, controller, kind)
        return f"{FAB} upgrade --to {release(reference)} --hosts {other.name}"

    try:
        found = mixed.wrong(other.name, cluster.roles(other.name), (theirs, reference), controller.name, way)
    except SlurmfabError:
        found = f"it has Slurm {theirs}, and {controller.name} has {reference}."
    if found:
        raise OtherRelease(found)
    raise Remark(f"it has Slurm {theirs}, {controller.name} has {reference}: {mixed.legal((theirs, reference))}")


def test_daemons_run_what_is_installed(host: CheckedHost) -> None:
    """Slurm's daemons run the programs that are installed"""
    for process in processes(host, SLURMS):
        if process.is_replaced:
            running = str(host.run(RUNS, process.pid).stdout).strip() or "an earlier version"
            raise AssertionError(outdated(process.unit, running, shown_of(host, process.unit)))


def outdated(unit: str, running: str, now: str) -> str:
    """The message about a daemon that runs another version than is installed now."""
    found = f"{unit} still runs the program of {running}, which was replaced on disk by {now}. "
    if release(running) == release(now):
        return f"{found}Repair: systemctl restart {unit} there; jobs go on."
    if unit == "slurmd":
        return (
            f"{found}A restart begins the new version, which works only if slurmctld is not older; jobs go on. "
            f"Repair: systemctl restart {unit} there, or, if slurmctld is older, first the packages of its version"
        )
    what = "the database" if unit == "slurmdbd" else "the state"
    return (
        f"{found}A restart begins the new version, which converts {what}, with no way back but a backup. Repair: "
        f"{FAB} upgrade --to {release(now)}, which saves it first"
    )


def shown_of(host: CheckedHost, unit: str) -> str:
    """The version of a daemon's installed program."""
    found = NUMBER.search(str(host.as_found.run(f"{unit} -V").stdout))
    return found[0] if found else "another version"


def version_on(host: CheckedHost, command: Command) -> str:
    """The version of Slurm on a host, such as `24.11.5`; skips the check if the command does not run."""
    done = host.as_found.run(line_of(command))
    if done.rc != 0:
        pytest.skip(f"Slurm's commands do not run on {host.name}.")
    text = str(done.stdout).strip()
    found = NUMBER.search(text)
    return found[0] if found else text


def release(version: str) -> str:
    """The release of a version, such as `24.11`.

    >>> release("24.11.5")
    '24.11'
    """
    return ".".join(version.split(".")[:2])
