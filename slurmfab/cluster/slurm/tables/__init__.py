"""Tables about Slurm's keys: sections with lines of `key = value`, or of a key alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def read_table(name: str) -> Mapping[str, Mapping[str, str]]:
    """The sections of a table, with values by key in the order of the file; empty for a key alone."""
    found: dict[str, dict[str, str]] = {}
    title = ""
    for line in (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            title = line[1:-1]
            found[title] = {}
        elif line and not line.startswith("#"):
            key, _, value = line.partition(" = ")
            found[title][key] = value
    return found
