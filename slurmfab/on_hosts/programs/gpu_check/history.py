"""The history of GPU checks: JSON lines on the controller, of the newest runs only."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.programs import replaced_file

HISTORY_FILE = "history.jsonl"
MAX_BYTES = 64 * 1024 * 1024  # size of the part at the end of a history that is read

TEXTS = ("run", "time", "outcome", "gpus", "why", "action", "remark")
FIGURES = ("busbw", "wanted")  # the texts of an entry, and its figures in GB/s

Entry = Dict[str, Any]


def entries(directory: str) -> List[Entry]:
    """All entries, oldest first; damaged lines, as after a full disk, are skipped."""
    try:
        with open(os.path.join(directory, HISTORY_FILE), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_BYTES))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    return [entry for entry in map(parse, lines) if entry is not None and "run" in entry]


def parse(line: bytes) -> Optional[Entry]:
    """The entry in a line of a history or of the program's output; `None` if it is damaged."""
    entry = json_objects.parse(line) or {}
    nodes, progress = entry.get("nodes", []), entry.get("progress", {"measuring": [], "waiting": {}})
    if not isinstance(progress, dict) or not isinstance(entry.get("counts", {}), dict):
        return None
    waiting = progress.get("waiting")
    lists = [nodes, progress.get("measuring"), *(waiting.values() if isinstance(waiting, dict) else [None])]
    texts = [*(entry.get(name, "") for name in TEXTS), entry.get("outcome", None if nodes else "")]
    are_figures = all(entry.get(name) is None or isinstance(entry[name], (int, float)) for name in FIGURES)
    return entry if are_figures and are_texts(texts) and all(map(are_texts, lists)) else None


def are_texts(values: object) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def add(directory: str, entry: Mapping[str, Any]) -> None:
    """Append an entry as one line."""
    with open(os.path.join(directory, HISTORY_FILE), "a", encoding="ascii") as file:
        file.write(json.dumps(entry, sort_keys=True) + "\n")


def prune(directory: str, keep: int) -> None:
    """Remove the oldest runs."""
    found = entries(directory)
    runs = list(dict.fromkeys(entry["run"] for entry in found))
    if len(runs) <= keep:
        return
    kept = set(runs[-keep:])
    lines = (json.dumps(entry, sort_keys=True) + "\n" for entry in found if entry["run"] in kept)
    replaced_file.write(os.path.join(directory, HISTORY_FILE), "".join(lines))
