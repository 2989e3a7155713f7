"""Check that hosts are reachable."""

from __future__ import annotations

from slurmfab.checks.foundation import foundation
from slurmfab.checks.hosts import CheckedHost


@foundation
def test_host_is_reachable(host: CheckedHost) -> None:
    """SSH login with the pinned host key works, and gives root"""
    # If the connection failed, the plugin reports its error and does not call this function.
    assert host.run("true").rc == 0, "its shell cannot run `true`. Repair: log in to the host and read the error"
