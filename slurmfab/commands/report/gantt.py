"""The timeline of a run as a chart: a row of bars for each group of hosts, in the units of an SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmfab.base.hostlist import fold
from slurmfab.commands.report.charts import CHARACTER, Axis, Label, Mark, cut, duration, fits, tick_text, time_ticks
from slurmfab.commands.report.timeline import Row, Span, Timeline
from slurmfab.on_hosts.agent.core.resource import FAILED

WIDTH = 1000.0
LEFT, RIGHT = 190.0, 12.0  # room for the names of hosts, and behind the end of the axis
ROW, BAR = 24.0, 16.0  # heights of a row and of the bar in it
AXIS = 26.0  # height of the axis above the rows
BASELINE = 12  # where the words of the axis stand

FONT = 12.0
SMALLEST = 1.5  # the width of the shortest bar, which shall be seen
COLOURED = 7  # so many phases, those that took longest, have a colour and a number of their own


@dataclass(frozen=True)
class Line:
    """A row of the chart."""

    y: float  # its upper end
    label: str  # the hosts, as in `n[1-16]`, or `n17 and 345 others`
    title: str  # all names, for people who point at the label
    bars: tuple[Mark, ...]  # the phases
    sign: str = ""  # a sign before the label of hosts where something failed; empty for the others


@dataclass(frozen=True)
class Key:
    """A phase in the legend: the number of its colour, its name, and how long it took on the slowest host."""

    series: int
    phase: str
    seconds: str


@dataclass(frozen=True)
class TableRow:
    """A row of the table that says the same in words."""

    hosts: str
    count: int
    slowest: str
    phases: str
    ended: str
    outcome: str


@dataclass(frozen=True)
class Gantt:
    """The chart."""

    width: float
    height: float
    ticks: tuple[Label, ...]  # of the time axis
    lines: tuple[Line, ...]  # the rows, of which the first one is about all hosts together
    legend: tuple[Key, ...]  # the phases with a colour
    table: tuple[TableRow, ...]
    summary: str


def gantt(found: Timeline) -> Gantt:
    """Lay out the chart of a timeline."""
    longest: dict[str, float] = {}
    for span in (span for row in found.rows for span in row.spans):
        longest[span.phase] = max(longest.get(span.phase, 0.0), span.end - span.begin)
    coloured = sorted(found.phases, key=lambda phase: -longest.get(phase, 0.0))[:COLOURED]
    series = {phase: number for number, phase in enumerate((one for one in found.phases if one in coloured), 1)}
    axis = Axis(0, found.seconds or 1.0, LEFT, WIDTH - RIGHT)
    marks = tuple(bar_of(span, AXIS, axis, 0, "all hosts") for span in found.marks)
    whole = [Line(AXIS, "all hosts", "what was done on all hosts together", marks)] if marks else []
    first = AXIS + ROW * len(whole)
    lines = [line_of(row, first + ROW * number, axis, series) for number, row in enumerate(found.rows)]
    times = time_ticks(found.seconds) if found.seconds else ()
    return Gantt(
        width=WIDTH,
        height=first + ROW * len(lines) + 4,
        ticks=tuple(Label(axis.at(at), BASELINE, tick_text(at)) for at in times),
        lines=(*whole, *lines),
        legend=tuple(Key(number, phase, duration(longest.get(phase, 0.0))) for phase, number in series.items()),
        table=tuple(map(table_row, found.rows)),
        summary=summary_of(found),
    )


def bar_of(span: Span, y: float, axis: Axis, series: int, whose: str) -> Mark:
    """The bar of a phase at `y`, in colour `series` (1 to 7, 0 for none), with `whose` times in its title."""
    width = max(SMALLEST, round((span.end - span.begin) * (axis.end - axis.begin) / axis.high, 1))
    inside = next((text for text in (span.phase, str(series or "")) if text and fits(text, width, FONT)), "")
    outcome = {FAILED: ", failed", "unknown": ", interrupted"}.get(span.status, "")
    times = f"{duration(span.end - span.begin)}, from {duration(span.begin)} to {duration(span.end)}"
    title = f"{span.phase}{outcome}: {times} ({whose})"
    x = min(axis.at(span.begin), axis.end - SMALLEST)
    return Mark(x, y + (ROW - BAR) / 2, title, width, BAR, f"series-{series}{' failed' if outcome else ''}", inside)


def line_of(row: Row, y: float, axis: Axis, series: Mapping[str, int]) -> Line:
    """The row of a group of hosts. `series`: the numbers of the phases with a colour."""
    whose = f"{row.slowest}, the slowest of {len(row.hosts)}" if len(row.hosts) > 1 else row.slowest
    bars = tuple(bar_of(span, y, axis, series.get(span.phase, 0), whose) for span in row.spans)
    title = f"{fold(row.hosts)}: {row.lost}" if row.lost else fold(row.hosts)
    return Line(y, label_of(row), title, bars, "✕" if row.has_failed else "")


def label_of(row: Row) -> str:
    """The hosts of a row in as many characters as there is room for."""
    names, others = fold(row.hosts), len(row.hosts) - 1
    room = LEFT - FONT * (2 if row.has_failed else 1)
    if fits(names, room, FONT) or not others:
        return cut(names, room, FONT)
    rest = f" and {others} other{'s' if others > 1 else ''}"
    return cut(row.slowest, room - len(rest) * FONT * CHARACTER, FONT) + rest


def table_row(row: Row) -> TableRow:
    """A row of the table."""
    phases = "; ".join(
        f"{span.phase} {duration(span.end - span.begin)}" + ("" if span.status == "changed" else f" ({span.status})")
        for span in row.spans
    )
    outcome = row.lost or ("failed" if row.has_failed else "done")
    names = f"other hosts: {fold(row.hosts)}" if row.is_rest else fold(row.hosts)
    return TableRow(names, len(row.hosts), row.slowest, phases or "nothing", duration(row.end), outcome)


def summary_of(found: Timeline) -> str:
    """The chart in one sentence."""
    if not found.rows:
        return f"The run took {duration(found.seconds)} and changed nothing."
    slowest = max(found.rows, key=lambda row: row.end)
    count = sum(len(row.hosts) for row in found.rows)
    longest = max(slowest.spans, key=lambda span: span.end - span.begin, default=None)
    what = f", most of it for {longest.phase} ({duration(longest.end - longest.begin)})" if longest else ""
    rest = f" Nothing to change on {found.unchanged} more." if found.unchanged else ""
    hosts = "1 host" if count == 1 else f"{count} hosts"
    return f"{duration(found.seconds)} for {hosts}; the last was {slowest.slowest}{what}.{rest}"
