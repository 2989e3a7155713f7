"""The report: a table, notes and a plot of all results, written into a document between two marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmarks import machine, plot
from benchmarks.results import MEMORY, MEMORY_EACH, PROCESSORS, SECONDS, Figure, Result, Target, Unit, load_all

BEGIN = "<!-- measured: written by python -m benchmarks -->"
END = "<!-- /measured -->"
PLOT = "performance.svg"
HEAD = f"""\
| measured | floor | slurmfab | lowest - highest | target | | {" | ".join(plot.PEERS)} |
|---|---|---|---|---|---|{"---|" * len(plot.PEERS)}"""
FURTHER = "| measured | what | median | lowest - highest |\n|---|---|---|---|"
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
    """The measured part: what has a target, with the peers beside it; a plot; what has none; and what to know."""
    if not results:
        return NOTHING
    aims = [row(result, figure) for result in results for figure in result.figures if figure.is_met is not None]
    rest = [further(result, figure) for result in results for figure in untold(result)]
    parts = [HEAD, *aims, "", f"![The ratios as bars]({PLOT})", ""]
    if rest:
        parts += ["Without a target:", "", FURTHER, *rest, ""]
    return "\n".join((*parts, *(f"- {line}" for line in remarks(results))))


def row(result: Result, figure: Figure) -> str:
    """A line of the table: a figure with its target, and what peers take of the same floor."""
    target = figure.target
    cells = (
        subject(result, target),
        f"{target.to}: {seconds(result, target.to)}" if target.to else "",
        f"{seconds(result, target.of)}, **{value(figure)}**" if target.to else f"**{value(figure)}**",
        spread(figure),
        bound(target),
        MET[figure.is_met],
        *(value(ratio) if (ratio := peers_ratio(result, peer, target.to)) else "" for peer in plot.PEERS),
    )
    return f"| {' | '.join(cells)} |"


def further(result: Result, figure: Figure) -> str:
    """A line of the other table."""
    return f"| {result.title} | {what(figure.target)} | {value(figure)} | {spread(figure)} |"


def untold(result: Result) -> list[Figure]:
    """The figures that are in no line of a target: neither themselves, nor as a peer's."""
    aims = {figure.target.to for figure in result.figures if figure.is_met is not None}
    return [
        figure
        for figure in result.figures
        if figure.is_met is None and not (figure.target.of in plot.PEERS and figure.target.to in aims)
    ]


def peers_ratio(result: Result, peer: str, floor: str) -> Figure | None:
    """What a peer takes of a floor, where that was measured."""
    found = (one for one in result.figures if floor and (one.target.of, one.target.to) == (peer, floor))
    return next(found, None)


def subject(result: Result, target: Target) -> str:
    """What a line is about: the scenario, and which way of it where that is not slurmfab as such."""
    part = resource(target) or target.of
    return result.title if part == "slurmfab" or result.title.startswith(part) else f"{result.title}: {part}"


def what(target: Target) -> str:
    """What is compared with what."""
    name = f"{target.of} / {target.to}" if target.to else target.of
    return f"{name}, {part}" if (part := resource(target)) else name


def resource(target: Target) -> str:
    """What a figure is about that is neither time nor a ratio of times; empty for these."""
    kinds = {MEMORY: "memory", MEMORY_EACH: "memory", PROCESSORS: "processor time"}
    each = " for each host" if target.hosts > 1 else ""
    return f"{kinds[target.unit]}{each}" if target.unit in kinds else ""


def seconds(result: Result, way: str) -> str:
    """How long a way took, for a sense of size alone."""
    return f"{number(median(sample.seconds for sample in result.samples[way]), SECONDS)} s"


def value(figure: Figure) -> str:
    """The median of all rounds."""
    return f"{number(figure.value, figure.target.unit)} {figure.target.unit}"


def spread(figure: Figure) -> str:
    """The lowest and the highest round."""
    return f"{number(figure.lowest, figure.target.unit)} - {number(figure.highest, figure.target.unit)}"


def bound(target: Target) -> str:
    """The target itself."""
    return "" if target.at_most is None else f"<= {target.at_most:g} {target.unit}"


def number(amount: float, unit: Unit) -> str:
    """A value with as many digits as it is good for."""
    if unit == MEMORY or (unit == PROCESSORS and amount >= 100):  # noqa: PLR2004
        return f"{amount:.0f}"
    return f"{amount:.2f}" if amount < 10 else f"{amount:.1f}"  # noqa: PLR2004


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
    lines = (
        f"  {what(one.target)}: {value(one)} ({spread(one)}) {bound(one.target)} {MET[one.is_met].strip('*')}"
        for one in result.figures
    )
    return "\n".join(line.rstrip() for line in lines)
