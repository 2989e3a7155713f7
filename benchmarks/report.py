"""The report: a table, notes and a plot of all results, written into a document between two marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import machine, plot
from benchmarks.results import MEMORY, SECONDS, Figure, Result, load_all

BEGIN = "<!-- measured: written by python -m benchmarks -->"
END = "<!-- /measured -->"
PLOT = "performance.svg"
HEAD = "| measured | what | median | lowest - highest | target | |\n|---|---|---|---|---|---|"
NOTHING = "Nothing was measured yet: `make bench`."
MET = {True: "met", False: "**not met**", None: ""}


def write(results: Path, document: Path, order: Sequence[str]) -> None:
    """Write a document's measured part anew, and the plot beside it; all else in it stays.

    Args:
        results: directory of the results.
        document: has both marks.
        order: names of scenarios as the table has them.

    Raises:
        ValueError: a mark is missing.
    """
    found = load_all(results, order)
    document.write_text(between(document.read_text(), rendered(found)))
    if found:
        document.with_name(PLOT).write_text(plot.bars(found))


def between(text: str, part: str) -> str:
    """A text with another part between the marks.

    Raises:
        ValueError: a mark is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the marks {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


def rendered(results: Sequence[Result]) -> str:
    """The measured part."""
    if not results:
        return NOTHING
    rows = [row(result, figure) for result in results for figure in result.figures]
    parts = [HEAD, *rows, "", f"![The ratios as bars]({PLOT})", ""]
    parts += [f"- {line}" for line in remarks(results)]
    return "\n".join(parts)


def row(result: Result, figure: Figure) -> str:
    """A line of the table."""
    target = figure.target
    what = f"{target.of} / {target.to}" if target.to else target.of
    if target.unit == MEMORY:
        what += ", memory"
    bound = "" if target.at_most is None else f"<= {target.at_most:g} {target.unit}"
    cells = (
        result.title,
        what,
        f"{number(figure.value, target.unit)} {target.unit}",
        f"{number(figure.lowest, target.unit)} - {number(figure.highest, target.unit)}",
        bound,
        MET[figure.is_met],
    )
    return f"| {' | '.join(cells)} |"


def number(value: float, unit: str) -> str:
    """A value with as many digits as it is good for."""
    if unit == MEMORY:
        return f"{value:.0f}"
    return f"{value:.2f}" if unit == SECONDS or value < 10 else f"{value:.1f}"  # noqa: PLR2004


def remarks(results: Iterable[Result]) -> Iterable[str]:
    """What a reader has to know: notes, what was left out, and on which machines; each once."""
    yield from dict.fromkeys(f"{note}" for result in results for note in result.notes)
    yield from dict.fromkeys(
        f"{way} was left out of “{result.title}”: {reason.splitlines()[0][:300]}"
        for result in results
        for way, reason in result.skipped.items()
    )
    machines: dict[str, list[str]] = {}
    for result in results:
        machines.setdefault(machine.in_words(result.machine), []).append(result.scenario)
    for words, names in machines.items():
        yield f"{words}: {', '.join(names)}."
    versions = {way: result.machine[way] for result in results for way in plot.PEERS if way in result.machine}
    if versions:
        yield "Peers: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."
    loads = [float(result.machine["load before"]) for result in results if "load before" in result.machine]
    if loads:
        yield f"Load before the scenarios: {min(loads):.1f} to {max(loads):.1f}."


def in_words(result: Result) -> str:
    """The figures of one result, as lines for a terminal."""
    lines = []
    for figure in result.figures:
        _, what, median, spread, bound, met = (cell.strip() for cell in row(result, figure)[1:-1].split("|"))
        lines.append(f"  {what}: {median} ({spread}) {bound} {met.strip('*')}".rstrip())
    return "\n".join(lines)
