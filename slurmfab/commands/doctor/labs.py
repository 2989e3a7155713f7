"""Whether this machine can run a lab."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.commands.doctor.finding import Finding, failure, ok, warning
from slurmfab.lab import needs, room
from slurmfab.lab.command import obstacle
from slurmfab.lab.layout import CACHE, LABS


def of_labs() -> Iterator[Finding]:
    """Yield what keeps labs from starting, what makes them slow, and where their disks are."""
    missing = obstacle()
    if missing:
        yield failure("lab", missing)
        return
    for text in needs.obstacles():
        yield failure("lab", text)
    for text in needs.remarks():
        yield warning("lab", text)
    for place in (CACHE, LABS.parent):
        # Nothing is made there before a lab is.
        there = next(parent for parent in (place, *place.parents) if parent.is_dir())
        if room.holds_overlays(there):
            yield ok("lab's disks", f"{place} can hold them")
        elif short := room.shortage(there):
            yield failure("lab's disks", short)
        else:
            yield warning("lab's disks", f"{place} cannot hold them, as in a container: a tmpfs will, in memory.")
