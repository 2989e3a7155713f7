"""The history of GPU checks: JSON lines on the controller, of the newest runs only."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping

from slurmfab.programs import replaced_file

HISTORY_FILE = "history.jsonl"
MAX_BYTES = 64 * 1024 * 1024
"""Size of the part at the end of a history that is read."""

Entry = Dict[str, Any]


def entries(directory: str) -> List[Entry]:
    """All entries, oldest first; damaged lines, as after a full disk, are skipped."""
    try:
        with open(os.path.join(directory, HISTORY_FILE), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_BYTES))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "run" in entry:
            found.append(entry)
    return found


def add(directory: str, entry: Mapping[str, Any]) -> None:
    """Append an entry as one line."""
    with open(os.path.join(directory, HISTORY_FILE), "a", encoding="ascii") as file:
        file.write(json.dumps(entry, sort_keys=True) + "\n")


def prune(directory: str, keep: int) -> None:
    """Remove the oldest runs.

    Args:
        directory: of the history.
        keep: number of runs to keep.
    """
    found = entries(directory)
    runs = list(dict.fromkeys(entry["run"] for entry in found))
    if len(runs) <= keep:
        return
    kept = set(runs[-keep:])
    lines = (json.dumps(entry, sort_keys=True) + "\n" for entry in found if entry["run"] in kept)
    replaced_file.write(os.path.join(directory, HISTORY_FILE), "".join(lines))
