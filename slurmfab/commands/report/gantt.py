"""The timeline of a run as a chart: a row of bars for each group of hosts, in the units of an SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.commands.report.charts import CHARACTER, Axis, Label, Mark, cut, duration, fits, tick_text, time_ticks
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import UNKNOWN, Step
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED

MOST_ROWS = 24  # so many rows has a timeline at most, whatever the number of hosts

LIKE = 0.03
"""Times are like each other that differ by less than this part of the run; the part is doubled until the rows fit."""

TOGETHER = ("asking", "comparing", "waking", "waiting for jobs")
"""What a run does on all hosts together before they go on at their own pace, by the words of its timeline."""

_WORST_FIRST = (FAILED, UNKNOWN, CHANGED)


@dataclass(frozen=True)
class Span:
    """A phase of a run on a host."""

    phase: str
    begin: float  # in seconds from the beginning of the run
    end: float  # in seconds from the beginning of the run
    status: str  # `failed`, `unknown` where the host was lost meanwhile, or `changed`


@dataclass(frozen=True)
class Row:
    """Hosts with the same phases at like times."""

    hosts: tuple[str, ...]  # in the order of the run
    slowest: str  # the host that was the last to end; the times are its own
    spans: tuple[Span, ...]  # its phases, in order
    lost: str = ""  # why the hosts were excluded from the run; empty where they were not
    is_rest: bool = False  # whether these hosts have less in common: all that did not fit into rows of their own

    @property
    def end(self) -> float:
        """When the last phase ended; 0 if there was none."""
        return max((span.end for span in self.spans), default=0.0)

    @property
    def has_failed(self) -> bool:
        """Whether a phase failed, or the hosts were excluded."""
        return bool(self.lost) or any(span.status != CHANGED for span in self.spans)


@dataclass(frozen=True)
class Timeline:
    """A run in time."""

    seconds: float
    rows: tuple[Row, ...]  # hosts with failures first, then the slowest
    marks: tuple[Span, ...]  # what was done on all hosts together, such as `comparing`, until the next thing began
    phases: tuple[str, ...]  # all phases of the rows, in order
    unchanged: int


def timeline(record: Record, most_rows: int = MOST_ROWS) -> Timeline:
    """The timeline of a recorded run. `most_rows`: how many rows it may have."""
    rows = host_rows(record)
    ends = [row.end for row in rows] + [at for at, _ in record.timeline]
    seconds = max([record.seconds, *ends], default=0.0)
    order = {name: number for number, name in enumerate(dict.fromkeys(doing for _, doing in record.timeline))}
    found = dict.fromkeys(step.phase for step in record.steps)
    return Timeline(
        seconds=seconds,
        rows=folded(rows, seconds, most_rows),
        marks=tuple(span for span in mark_spans(record.timeline, seconds) if span.phase in TOGETHER),
        phases=tuple(sorted(found, key=lambda phase: order.get(phase, len(order)))),
        unchanged=len(set(record.hosts) - {row.slowest for row in rows}),
    )


def host_rows(record: Record) -> list[Row]:
    """A row for each host that a run changed or lost, in the order of the run's hosts."""
    begun: dict[str, float] = {}
    for at, doing in record.timeline:
        begun.setdefault(doing, at)
    steps_of = grouped((step.host, step) for step in record.steps)
    names = dict.fromkeys(host for host in (*record.hosts, *steps_of, *record.lost))
    return [
        Row((host,), host, spans_of(steps_of.get(host, ()), begun), record.lost.get(host, ""))
        for host in names
        if host in steps_of or host in record.lost
    ]


def spans_of(steps: Iterable[Step], begun: Mapping[str, float]) -> tuple[Span, ...]:
    """The phases of one host.

    Records of earlier versions have no moments of single hosts. There a phase begins when the host has ended the one
    before, and not before the first host began it. `steps`: of the host, in the order in which they ended. `begun`:
    when each phase was first begun on any host.
    """
    spans: list[Span] = []
    before = 0.0
    for step in steps:
        begin = step.at if step.at is not None else max(before, begun.get(step.phase, 0.0))
        before = begin + step.seconds
        statuses = {outcome.status for outcome in step.outcomes}
        status = next((status for status in _WORST_FIRST if status in statuses), CHANGED)
        spans.append(Span(step.phase, begin, before, status))
    return tuple(sorted(spans, key=lambda span: span.begin))


def mark_spans(timeline: Sequence[tuple[float, str]], seconds: float) -> tuple[Span, ...]:
    """What was begun on all hosts together, each until the next one began."""
    moments = pairwise((*timeline, (seconds, "")))
    return tuple(Span(doing, at, end, CHANGED) for (at, doing), (end, _) in moments if end > at)


def folded(rows: Sequence[Row], seconds: float, most_rows: int) -> tuple[Row, ...]:
    """Rows of like hosts, failures first, then the slowest, put together until at most `most_rows` are left."""
    part = LIKE
    found = alike(rows, part * seconds)
    while len(found) > most_rows and part < 1:
        part *= 2
        found = alike(rows, part * seconds)
    found = sorted(found, key=lambda row: (not row.has_failed, -row.end))
    if len(found) <= most_rows:
        return tuple(found)
    return (*found[: most_rows - 1], joined(found[most_rows - 1 :], is_rest=True))


def alike(rows: Sequence[Row], tolerance: float) -> list[Row]:
    """Rows with the same phases, outcomes and losses, and times within seconds of tolerance, put together."""
    kinds = grouped(((row.lost, *((span.phase, span.status) for span in row.spans)), row) for row in rows)
    groups: list[list[Row]] = []
    for of_kind in kinds.values():
        begun = len(groups)
        for row in sorted(of_kind, key=lambda row: -row.end):
            group = next((group for group in groups[begun:] if are_near(group[0], row, tolerance)), None)
            if group is None:
                groups.append([row])
            else:
                group.append(row)
    place = {row.slowest: number for number, row in enumerate(rows)}
    return [joined(sorted(group, key=lambda row: place[row.slowest])) for group in groups]


def are_near(one: Row, other: Row, tolerance: float) -> bool:
    """Whether two rows with the same phases have like times."""
    return all(
        abs(mine.begin - its.begin) <= tolerance and abs(mine.end - its.end) <= tolerance
        for mine, its in zip(one.spans, other.spans, strict=True)
    )


def joined(rows: Sequence[Row], *, is_rest: bool = False) -> Row:
    """One row with the times of the slowest; `is_rest`: they have less in common than phases and times."""
    slowest = max(rows, key=lambda row: row.end)
    return replace(slowest, hosts=tuple(host for row in rows for host in row.hosts), is_rest=is_rest)


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
