"""The lines that matter of a host's logs, equal ones once with their number."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Tuple

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.logs.period import SOURCES, gather
from slurmfab.on_hosts.agent.logs.what_matters import Matters
from slurmfab.on_hosts.agent.services.daemon_log import log_file

Told = Tuple[str, str, float, float, int]  # a line as it is told: source, text, first and last time, and number
MOST_LINES = 4000  # how many different lines are told; of more the last
MOST_CHARACTERS = 1 << 20  # how many characters these have together; of more the last lines


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """The lines that matter.

    `request`: `since` and `until` in seconds since 1970; and, where wanted, `sources`, `nodes` and `jobs` (see
    `Matters`), and `all` for every line. Returns `lines`: for each line its source, text, first and last time, and
    number; by the last time. `notes`: what could not be read. `now`: the host's clock. `files`: where each daemon logs.
    """
    matters = Matters(request.get("nodes", ()), request.get("jobs", ()), bool(request.get("all")))
    found = gather(context, request["since"], request["until"], tuple(request.get("sources", SOURCES)), matters)
    counted: Dict[Tuple[str, str], List[float]] = {}
    for line in found.lines:
        seen = counted.setdefault((line.source, line.text), [line.time, line.time, 0])
        seen[1], seen[2] = line.time, seen[2] + 1
    lines: List[Told] = [(*one, first, last, int(count)) for one, (first, last, count) in counted.items()]
    lines.sort(key=lambda line: line[3])
    kept = newest(lines)
    notes = list(found.notes)
    if len(kept) < len(lines):
        notes.append(
            "of %d different lines only the last %d are told; ask for a shorter period" % (len(lines), len(kept))
        )
    files = {source: log_file(context, source) for source in SOURCES if source != "kernel"}
    return {"lines": kept, "notes": notes, "now": time.time(), "files": files}


def newest(lines: List[Told]) -> List[Told]:
    """The last lines, as many as an answer may have."""
    characters = 0
    for count, line in enumerate(reversed(lines[-MOST_LINES:])):
        characters += len(line[1])
        if characters > MOST_CHARACTERS:
            return lines[len(lines) - count :]
    return lines[-MOST_LINES:]
