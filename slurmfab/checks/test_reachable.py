"""Who can be asked at all: hosts by SSH, slurmctld by Slurm's commands. These checks run whatever `--only` says."""

from __future__ import annotations

import pytest

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.slurm import ping


@pytest.mark.foundation
def test_host_is_reachable(host: CheckedHost) -> None:
    """the host answers on SSH with its pinned key"""
    # Without an open connection this is not even called, and the reason stands in its place.
    assert host.run("true").rc == 0, "its shell cannot run the simplest command. Repair: log in and see what it says"


@pytest.mark.foundation
def test_controller_answers(host: CheckedHost) -> None:
    """slurmctld answers to Slurm's commands"""
    says = ping(host)
    assert says.endswith("is UP"), (
        f"`scontrol ping` says: {says}. Repair: fab deploy; if slurmctld runs already, look for a firewall, other "
        "clocks and other munge keys"
    )
