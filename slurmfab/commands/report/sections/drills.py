"""The last drills as a table: how long each took to be noticed, and until all was well again."""

from __future__ import annotations

from slurmfab.base.markup import fill
from slurmfab.commands.drill.results import BACK, LASTED, NOTICED, OUT, Entry, entries
from slurmfab.commands.report.section import Missing, Section, Sources

MOST = 8  # so many runs of each drill are shown, the newest first
TIMES = (NOTICED, OUT, BACK, LASTED)


def section(sources: Sources) -> Section | None:
    """The drills in the recorded runs; none where there was no drill."""
    found: dict[str, list[Entry]] = {}
    for entry in () if isinstance(sources.records, Missing) else entries(sources.records):
        found.setdefault(entry.drill, []).insert(0, entry)
    if not found:
        return None
    failed = sum(not of_one[0].has_passed for of_one in found.values())
    return Section(
        "drills",
        "Drills",
        fill("drills.html.j2", drills={name: of_one[:MOST] for name, of_one in sorted(found.items())}, times=TIMES),
        note="Faults on purpose, of each the newest first, and the time until they were noticed and over.",
        badge=f"{failed} failed" if failed else "passed",
        tone="bad" if failed else "good",
    )
