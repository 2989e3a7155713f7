"""What checks of GPUs have measured: JSON lines on the controller, those of the newest runs."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping

FILE = "history.jsonl"
LARGEST = 64 * 1024 * 1024
"""Bytes of a history that are read at most; what is before them is of no use to anybody."""

Entry = Dict[str, Any]


def entries(directory: str) -> List[Entry]:
    """All that is kept, oldest first; lines that are damaged, as by a full disk, are left out."""
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LARGEST))
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
    """Write one line at the end."""
    with open(os.path.join(directory, FILE), "a", encoding="ascii") as file:
        file.write(json.dumps(entry, sort_keys=True) + "\n")


def prune(directory: str, keep: int) -> None:
    """Drop the oldest runs.

    Args:
        directory: where the history lies.
        keep: how many runs stay.
    """
    found = entries(directory)
    runs = list(dict.fromkeys(entry["run"] for entry in found))
    if len(runs) <= keep:
        return
    kept = set(runs[-keep:])
    path = os.path.join(directory, FILE)
    with open(path + ".new", "w", encoding="ascii") as file:
        file.writelines(json.dumps(entry, sort_keys=True) + "\n" for entry in found if entry["run"] in kept)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
