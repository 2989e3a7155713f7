"""Clocks: close enough for munge, for logs and for shared files."""

from __future__ import annotations

import time

from slurmfab.checks.hosts import CheckedHost

BOUND = 5.0
"""Seconds between a host's clock and the controller's.

Munge refuses credentials that are more than 300 s old, or from the future (munge(7)). A time service keeps hosts within
milliseconds; one that is seconds off has none, and drifts towards the day on which its node stops answering.
"""


def test_clock_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """the clock agrees with the controller's"""
    (theirs, blur), (reference, more_blur) = offset(other), offset(controller)
    difference = theirs - reference
    assert abs(difference) <= BOUND + blur + more_blur, (
        f"its clock is {abs(difference):.1f} s {'ahead of' if difference > 0 else 'behind'} {controller.name}'s; "
        "at 300 s munge refuses all credentials. Repair: make a time service work there, as in: apt install chrony"
    )


def offset(host: CheckedHost) -> tuple[float, float]:
    """A host's clock minus ours, and by how much that can be wrong: half of the round trip."""
    before = time.time()
    theirs = float(host.ask("date +%s.%N"))
    after = time.time()
    return theirs - (before + after) / 2, (after - before) / 2
