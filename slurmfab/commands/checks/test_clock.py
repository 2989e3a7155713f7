"""Check that clocks agree well enough for munge, logs and shared files."""

from __future__ import annotations

import time

from slurmfab.commands.checks.applies import Seen
from slurmfab.commands.checks.hosts import CheckedHost

REFUSED = 300.0  # from so many seconds on munge rejects credentials (munge(7))
BOUND = 5.0
"""Largest allowed difference in seconds between a host's clock and the controller's.

Munge rejects credentials that are more than 300 s old or from the future (munge(7)). A time service keeps clocks within
milliseconds; a host that is seconds off has none, and its difference grows until munge rejects its credentials.
"""


def test_clock_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """the clock agrees with the controller's"""
    (theirs, blur), (reference, more_blur) = offset(other), offset(controller)
    difference = theirs - reference
    if abs(difference) <= BOUND + blur + more_blur:
        return
    raise Seen(
        "apart" if abs(difference) > REFUSED else "",
        f"its clock is {abs(difference):.1f} s {'ahead of' if difference > 0 else 'behind'} {controller.name}'s; "
        "munge refuses credentials when clocks differ by 300 s. "
        "Repair: run a time service there, for example: apt install chrony. Its servers have to be in reach, "
        "by 123/udp, and by 4460/tcp for chrony of Ubuntu 26.04 (NTS)",
    )


def offset(host: CheckedHost) -> tuple[float, float]:
    """A host's clock minus the local clock, and the largest error of that (half of the round trip), in seconds."""
    before = time.time()
    theirs = float(host.ask("date +%s.%N"))
    after = time.time()
    return theirs - (before + after) / 2, (after - before) / 2
