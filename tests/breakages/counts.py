"""What came of the rows when they were last played, by suite.

Each run notes the result of each row below build/breakages; `python tests/breakages/counts.py` puts the counts of what
is noted there into counts.json, and `python tests/breakages/table.py` writes these into docs/checks.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

NOTED = Path(__file__).parents[2] / "build" / "breakages"
RECORD = Path(__file__).with_name("counts.json")

BREAKAGE = ("found", "named", "mended", "told")
KINDS = {"test_a_breakage": "broken", "test_a_bad_value": "broken", "test_an_oddity": "odd", "test_a_sentence": "false"}
"""The kind of a row by the beginning of the test that plays it."""

ODD, FALSE = ("odd", "not_complained_about"), ("false", "seen")
COUNTED = {
    "broken": "breakages and bad values",
    "found": "found",
    "named": "named",
    "mended": "repaired by `deploy`",
    "told": "told, with a repair that was tried",
    "odd": "oddities",
    "not_complained_about": "not complained about",
    "false": "sentences made false",
    "seen": "seen by their checks",
}


def note(test: str, passed: bool, came: Mapping[str, bool]) -> None:
    """Note what came of a row.

    Args:
        test: the test's id, such as `…::test_a_breakage_is_found[slurmd-killed-bookworm]`.
        passed: whether the test passed.
        came: how far a breakage came.
    """
    name, _, row = test.rpartition("::")[2].rstrip("]").partition("[")
    kind = next((kind for beginning, kind in KINDS.items() if name.startswith(beginning)), "")
    if kind and row:
        NOTED.mkdir(parents=True, exist_ok=True)
        told = {"kind": kind, "suite": row.rpartition("-")[2], "passed": passed, **came}
        (NOTED / row).write_text(json.dumps(told))


def counted() -> dict[str, dict[str, int]]:
    """The counts of what is noted, by suite."""
    suites: dict[str, dict[str, int]] = {}
    for path in sorted(NOTED.glob("*")):
        one: dict[str, Any] = json.loads(path.read_text())
        counts = suites.setdefault(one["suite"], dict.fromkeys(COUNTED, 0))
        counts[one["kind"]] += 1
        for kind, good in (ODD, FALSE):
            counts[good] += one["kind"] == kind and one["passed"]
        for name in BREAKAGE:
            counts[name] += bool(one.get(name))
    return dict(sorted(suites.items()))


def lines() -> Iterator[str]:
    """The counts as a table in Markdown."""
    suites: dict[str, dict[str, int]] = json.loads(RECORD.read_text())
    yield f"| rows | {' | '.join(suites)} |"
    yield f"|---{'|---' * len(suites)}|"
    for name, words in COUNTED.items():
        yield f"| {words} | {' | '.join(str(counts[name]) for counts in suites.values())} |"


if __name__ == "__main__":
    RECORD.write_text(json.dumps(counted(), indent=1) + "\n")
