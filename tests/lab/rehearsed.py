"""How many planted faults `fab rehearse` named when they were last played.

Each run notes what came of each below build/rehearsed; `python tests/lab/rehearsed.py` puts the counts into
rehearsed.json, and these with all faults into docs/rehearse.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rehearsals import REHEARSALS

REPOSITORY = Path(__file__).parents[2]
NOTED = REPOSITORY / "build" / "rehearsed"
RECORD = Path(__file__).with_name("rehearsed.json")
PAGE = REPOSITORY / "docs" / "rehearse.md"
BEGIN, END = "<!-- the faults: tests/lab/rehearsed.py -->", "<!-- the end of the faults -->"


def note(name: str, is_named: bool) -> None:
    """Note whether a rehearsal named its fault."""
    NOTED.mkdir(parents=True, exist_ok=True)
    (NOTED / f"{name}.json").write_text(f"{json.dumps(is_named)}\n")


def recorded() -> dict[str, bool]:
    """Whether each fault was named when it was last played, by the name of its rehearsal."""
    known: dict[str, bool] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known |= {path.stem: json.loads(path.read_text()) for path in NOTED.glob("*.json")}
    return {one.name: known[one.name] for one in REHEARSALS if one.fault and one.name in known}


def lines() -> Iterator[str]:
    """The record in Markdown."""
    faults = {one.name: one.fault for one in REHEARSALS}
    known: dict[str, bool] = json.loads(RECORD.read_text())
    yield f"Of {len(known)} planted faults, rehearsals named {sum(known.values())}:"
    yield ""
    yield from (f"- {faults[name]}{'' if is_named else ' (**not named**)'}" for name, is_named in known.items())


def page() -> str:
    """The page of the documentation with the present record."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return "".join((before, BEGIN, "\n\n", *(f"{line}\n" for line in lines()), "\n", END, rest.partition(END)[2]))


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(), indent=1) + "\n")
    PAGE.write_text(page())
