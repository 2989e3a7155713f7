"""How many planted faults `fab rehearse` named when they were last played.

Each run notes what came of each below build/rehearsed; `python tests/lab/rehearsed.py` puts the counts into
rehearsed.json, and these with all faults into docs/rehearse.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rehearsals import REHEARSALS

from slurmfab.lab.spec import SERIES

REPOSITORY = Path(__file__).parents[2]
NOTED = REPOSITORY / "build" / "rehearsed"
RECORD = Path(__file__).with_name("rehearsed.json")
PAGE = REPOSITORY / "docs" / "rehearse.md"
BEGIN, END = "<!-- the faults: tests/lab/rehearsed.py -->", "<!-- the end of the faults -->"


def note(suite: str, name: str, is_named: bool) -> None:
    """Note whether a rehearsal named its fault on a suite."""
    NOTED.joinpath(suite).mkdir(parents=True, exist_ok=True)
    (NOTED / suite / f"{name}.json").write_text(f"{json.dumps(is_named)}\n")


def recorded() -> dict[str, dict[str, bool]]:
    """By suite, whether each fault was named when it was last played there, by the name of its rehearsal."""
    known: dict[str, dict[str, bool]] = json.loads(RECORD.read_text())
    for path in NOTED.glob("*/*.json"):
        known.setdefault(path.parent.name, {})[path.stem] = json.loads(path.read_text())
    names = [one.name for one in REHEARSALS if one.fault]
    return {suite: {name: played[name] for name in names if name in played} for suite, played in sorted(known.items())}


def lines() -> Iterator[str]:
    """The record in Markdown."""
    known: dict[str, dict[str, bool]] = json.loads(RECORD.read_text())
    counts = [f"{sum(played.values())} of {len(played)} on {suite} (Slurm {SERIES[suite]})"
              for suite, played in known.items()]  # fmt: skip
    yield f"When each was last played, rehearsals named these planted faults, {' and '.join(counts)}:"
    yield ""
    for one in REHEARSALS:
        played = {suite: some[one.name] for suite, some in known.items() if one.name in some}
        missed = ", ".join(suite for suite, is_named in played.items() if not is_named)
        where = f" ({one.suite} alone)" if one.suite else ""
        if played:
            yield f"- {one.fault}{where}{f' (**not named** on {missed})' if missed else ''}"


def page() -> str:
    """The page of the documentation with the present record."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return "".join((before, BEGIN, "\n\n", *(f"{line}\n" for line in lines()), "\n", END, rest.partition(END)[2]))


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(), indent=1) + "\n")
    PAGE.write_text(page())
