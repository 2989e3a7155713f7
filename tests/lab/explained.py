"""How `fab explain` told the incidents when they were last played, by suite.

Each run notes what came of each incident below build/explained; `python tests/lab/explained.py` puts the counts of what
is noted there into explained.json, an answer into explained.txt, and both into docs/explain.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
NOTED = REPOSITORY / "build" / "explained"
RECORD = Path(__file__).with_name("explained.json")
PAGE = REPOSITORY / "docs" / "explain.md"
EXAMPLE = Path(__file__).with_name("explained.txt")
COUNTED = {"played": "incidents", "right": "right chains", "false": "false causes"}


def note(suite: str, name: str, lacking: Sequence[str], false: Sequence[str], told: tuple[str, float]) -> None:
    """Note what came of an incident.

    Args:
        suite: on which suite.
        name: of the incident.
        lacking: the wanted words that its chain lacks.
        false: the false causes that it names.
        told: the words of the chain, and in how many seconds.
    """
    NOTED.mkdir(parents=True, exist_ok=True)
    found = {"suite": suite, "lacking": list(lacking), "false": list(false), "seconds": round(told[1], 2)}
    (NOTED / f"{name}-{suite}.json").write_text(json.dumps({**found, "told": told[0]}) + "\n")


def counted() -> dict[str, dict[str, float]]:
    """The counts of what is noted, by suite, with the median and the longest time of an answer in seconds."""
    found: dict[str, dict[str, float]] = {}
    times: dict[str, list[float]] = {}
    for path in sorted(NOTED.glob("*.json")):
        one = json.loads(path.read_text())
        counts = found.setdefault(one["suite"], dict.fromkeys(COUNTED, 0))
        counts["played"] += 1
        counts["right"] += not one["lacking"]
        counts["false"] += len(one["false"])
        times.setdefault(one["suite"], []).append(one["seconds"])
    for suite, all_times in times.items():
        found[suite] |= {"median": sorted(all_times)[len(all_times) // 2], "longest": max(all_times)}
    return dict(sorted(found.items()))


def lines() -> Iterator[str]:
    """The record as a table in Markdown."""
    suites = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if not suites:
        yield "No run has been counted yet."
        return
    yield f"| | {' | '.join(suites)} |"
    yield f"|---{'|--:' * len(suites)}|"
    for name, words in COUNTED.items():
        yield f"| {words} | {' | '.join(str(counts[name]) for counts in suites.values())} |"
    for name, words in (("median", "median of the times to answer"), ("longest", "longest time")):
        yield f"| {words} | {' | '.join(f'{counts[name]:.1f} s' for counts in suites.values())} |"


def keep(answer: str) -> None:
    """Keep an answer as the example of the page."""
    NOTED.mkdir(parents=True, exist_ok=True)
    (NOTED / EXAMPLE.name).write_text(answer)


def indented(text: str) -> Iterator[str]:
    """A text as a block in Markdown."""
    yield "```text"
    yield from text.rstrip("\n").split("\n")
    yield "```"


def between(text: str, what: str, new: Iterable[str]) -> str:
    """A page with other lines between the marks of a part of it."""
    begin, end = f"<!-- the {what}: tests/lab/explained.py -->", f"<!-- the end of the {what} -->"
    before, _, rest = text.partition(begin)
    return "".join((before, begin, "\n\n", *(f"{line}\n" for line in new), "\n", end, rest.partition(end)[2]))


def page() -> str:
    """The page of the documentation with the present record."""
    return between(between(PAGE.read_text(), "score", lines()), "answer", indented(EXAMPLE.read_text()))


if __name__ == "__main__":
    if found := counted():
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
    if (NOTED / EXAMPLE.name).exists():
        EXAMPLE.write_text((NOTED / EXAMPLE.name).read_text())
    PAGE.write_text(page())
