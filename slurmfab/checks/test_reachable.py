"""Hosts: can they be asked at all?"""

from __future__ import annotations

from slurmfab.checks.foundation import foundation
from slurmfab.checks.hosts import CheckedHost


@foundation
def test_host_is_reachable(host: CheckedHost) -> None:
    """SSH with the pinned key gets in, and becomes root"""
    # Without an open connection this is not even called, and the reason stands in its place.
    assert host.run("true").rc == 0, "its shell cannot run the simplest command. Repair: log in and see what it says"
