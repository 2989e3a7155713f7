"""Check that all hosts have one release of Slurm; where it is another, nothing else about Slurm is checked."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from slurmfab.agent.client import commands
from slurmfab.agent.client.commands import Command
from slurmfab.checks.foundation import foundation
from slurmfab.checks.hand_made import lives_without_files
from slurmfab.checks.hosts import CheckedHost, line_of
from slurmfab.checks.release import OtherRelease
from slurmfab.inventory.cluster import Cluster
from slurmfab.inventory.lock import Lock
from slurmfab.program_name import FAB

NUMBER = re.compile(r"(\d+\.\d+)")


@foundation
def test_release_is_the_controllers(
    other: CheckedHost, controller: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock
) -> None:
    """Slurm has the same release as on the controller"""
    has_no_files = lives_without_files(other, others, cluster, lock)
    theirs = shown(other, commands.DATABASE_VERSION if has_no_files else commands.VERSION)
    reference = shown(controller, commands.VERSION)
    if release(theirs) != release(reference):
        raise OtherRelease(
            f"this host has {theirs}, but {controller.name} has {reference}: daemons of different releases understand "
            "each other only in part, and slurmctld must be the newest. Repair: install the same release there, from "
            f"the same package source, then {FAB} deploy --hosts {other.name}"
        )


def shown(host: CheckedHost, command: Command) -> str:
    """The version of Slurm on a host, such as `slurm-wlm 24.11.5`; skips the check if the command does not run."""
    done = host.as_found.run(line_of(command))
    if done.rc != 0:
        pytest.skip(f"Slurm's commands do not run on {host.name}.")
    return str(done.stdout).strip()


def release(version: str) -> str:
    """The release of a version, such as `24.11`.

    >>> release("slurm-wlm 24.11.5")
    '24.11'
    """
    found = NUMBER.search(version)
    return found[1] if found else version
