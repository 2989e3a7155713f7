"""The history of GPU checks: the bandwidth of each node, the worst first, and of all nodes of a type; and its plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from slurmfab.commands.report.charts import Axis, Label, Mark, Plot, amount, path, spread
from slurmfab.on_hosts.programs.gpu_check.check import NOT_MEASURED, SHORT

PAIR = " and "  # between the names of two nodes that were measured together
MOST_CHECKS = 30  # so many checks are shown, the newest ones
BELOW = 22.0  # room for the times below the plot of a type
EDGE = 5.0  # room around the points

CSS = {SHORT: "short", NOT_MEASURED: "none"}
"""Classes of points that did not pass; each also has a shape of its own: a triangle, a cross, and a dot for others."""

MOST_TIMES = 6  # so many times are written below the plot of a type
SMALL, LARGE = (160.0, 40.0), (1000.0, 128.0)  # width and height of the plots of a node and of a type

LEFT, LAST = 60.0, LARGE[0] - 32
"""Room for the figures at the left of a type's plot, and where its last date is at most."""

Range = tuple[float, float]


@dataclass(frozen=True)
class Point:
    """One measurement."""

    check: int  # number of the check it belongs to, from 0 for the oldest one that is shown
    time: str  # when it was made, as in `2026-11-22 03:30`
    busbw: float | None  # bus bandwidth in GB/s; `None` where none was measured
    wanted: float | None  # the threshold in GB/s; `None` where there is none
    outcome: str  # `passed`, `falls short` or `not measured`
    words: str = ""  # the reason, and what was done with the node


@dataclass(frozen=True)
class History:
    """The measurements of a node, or of two nodes together."""

    name: str  # of the node, or of both
    gpus: str  # such as `a100 x4`; empty where unknown
    points: tuple[Point, ...]  # oldest first, one for each check at most

    @property
    def figures(self) -> tuple[float, ...]:
        """The bandwidths that were measured, oldest first."""
        return tuple(point.busbw for point in self.points if point.busbw is not None)

    @property
    def wanted(self) -> float | None:
        """The last threshold."""
        return next((point.wanted for point in reversed(self.points) if point.wanted is not None), None)

    @property
    def last(self) -> Point:
        """The last measurement."""
        return self.points[-1]

    @property
    def is_short(self) -> bool:
        """Whether the last measurement fell short."""
        return self.last.outcome == SHORT

    @property
    def change(self) -> float:
        """The last bandwidth as a part of the median before it; 1 where there is nothing to compare."""
        *earlier, newest = self.figures or (1.0,)
        return newest / median(earlier) if earlier and median(earlier) else 1.0


@dataclass(frozen=True)
class Band:
    """All nodes of one type in one check: the lowest, the median and the highest bandwidth, in GB/s."""

    check: int
    lowest: float
    middle: float
    highest: float
    count: int


def histories(entries: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], tuple[History, ...]]:
    """Times of checks, and measurements by node, worst last first, of the history in its order."""
    measured = [entry for entry in entries if entry.get("nodes")]
    runs: dict[str, str] = {}
    for entry in measured:
        runs.setdefault(str(entry["run"]), minute(entry))
    shown = list(runs)[-MOST_CHECKS:]
    number = {run: place for place, run in enumerate(shown)}
    found: dict[str, dict[int, Point]] = {}
    gpus: dict[str, str] = {}
    for entry in measured:
        if entry["run"] in number:
            name = PAIR.join(entry["nodes"])
            found.setdefault(name, {})[number[entry["run"]]] = point_of(entry, number[entry["run"]])
            gpus[name] = str(entry.get("gpus") or gpus.get(name, ""))
    every = [History(name, gpus[name], tuple(points.values())) for name, points in found.items()]
    return tuple(runs[run] for run in shown), tuple(sorted(every, key=badness))


def badness(history: History) -> tuple[bool, bool, float]:
    """What orders histories: those that fall short, those that were not measured, and the largest losses first."""
    return (not history.is_short, history.last.outcome != NOT_MEASURED, history.change)


def minute(entry: Mapping[str, Any]) -> str:
    """When an entry was made, to the minute."""
    return str(entry.get("time", ""))[:16].replace("T", " ")


def point_of(entry: Mapping[str, Any], check: int) -> Point:
    """The measurement in an entry."""
    words = "; ".join(str(entry[name]) for name in ("why", "action", "remark") if entry.get(name))
    busbw, wanted = entry.get("busbw"), entry.get("wanted")
    figure = float(busbw) if busbw else None  # 0 stands for a node without a bus between GPUs
    return Point(check, minute(entry), figure, float(wanted) if wanted else None, str(entry["outcome"]), words)


def bands(of_type: Sequence[History]) -> tuple[Band, ...]:
    """The bandwidths of several nodes by check; checks without any are left out."""
    by_check: dict[int, list[float]] = {}
    for history in of_type:
        for point in history.points:
            if point.busbw is not None:
                by_check.setdefault(point.check, []).append(point.busbw)
    return tuple(
        Band(check, min(figures), median(figures), max(figures), len(figures))
        for check, figures in sorted(by_check.items())
    )


def range_of(of_type: Iterable[History]) -> Range:
    """From the lowest figure or threshold of all nodes of a type to the highest: all plots of a type share one."""
    known = [value for one in of_type for value in (*one.figures, one.wanted) if value is not None]
    return min(known, default=0.0), max(known, default=0.0)


def axes(checks: int, figures: Range, size: tuple[float, float], left: float = 0.0) -> tuple[Axis, Axis]:
    """The axes of checks, of which one alone is at the right, and of figures."""
    width, height = size
    across = Axis(min(0, checks - 2), checks - 1, left + EDGE, width - EDGE)
    return across, Axis(*figures, height - EDGE, EDGE)


def sparkline(history: History, checks: int, figures: Range) -> Plot:
    """The plot of a node: a line, and marks for the last measurement and all that did not pass."""
    across, up = axes(checks, figures, SMALL)
    points = sorted(history.points, key=lambda point: point.check)
    marks = (
        # A measurement without a figure is at the lower edge.
        Mark(
            across.at(point.check),
            up.begin if point.busbw is None else up.at(point.busbw),
            f"{point.time}: {told(point)}",
            css=CSS.get(point.outcome, "passed"),
        )
        for point in points
        if point.outcome in CSS or point is points[-1]
    )
    return Plot(
        *SMALL,
        marks=tuple(marks),
        line=None if history.wanted is None else up.at(history.wanted),
        words=words_of(history),
        path=path([(point.check, point.busbw) for point in points], across, up),
    )


def told(point: Point) -> str:
    """A measurement in words: `98.2 GB/s, falls short (wanted 120): drained`."""
    figure = f"{amount(point.busbw)} GB/s, " if point.busbw is not None else ""
    wanted = f" (wanted {amount(point.wanted)})" if point.wanted is not None and point.outcome == SHORT else ""
    return f"{figure}{point.outcome}{wanted}" + (f": {point.words}" if point.words else "")


def words_of(history: History) -> str:
    """The plot of a node in one sentence."""
    figures = history.figures
    span = f"{len(figures)} measured, {amount(min(figures))} to {amount(max(figures))} GB/s; " if figures else ""
    return f"{history.name}: {span}last on {history.last.time}: {told(history.last)}"


def type_plot(title: str, of_type: Sequence[History], times: Sequence[str]) -> Plot:
    """The plot of all nodes of a type: medians, and the area from the lowest to the highest figure of each check."""
    found, (low, high) = bands(of_type), range_of(of_type)
    across, up = axes(len(times), (low, high), LARGE, LEFT)
    wanted = next((one.wanted for one in of_type if one.wanted is not None), None)
    outline = [(band.check, band.lowest) for band in found] + [(band.check, band.highest) for band in reversed(found)]
    width, height = LARGE
    return Plot(
        width,
        height + BELOW,
        title=title,
        left=LEFT,
        area=f"{path(outline, across, up)}Z" if outline else "",
        path=path([(band.check, band.middle) for band in found], across, up),
        marks=tuple(Mark(across.at(band.check), up.at(band.middle), band_words(band, times)) for band in found),
        line=None if wanted is None else up.at(wanted),
        figures=apart(Label(LEFT - 8, up.at(one), amount(one)) for one in (low, wanted, high) if one is not None),
        times=tuple(
            Label(min(across.at(check), LAST), height + BELOW - 4, times[check][:10])
            for check in spread(len(times), MOST_TIMES)
        ),
        words=f"{title}, {len(of_type)} measured: " + (band_words(found[-1], times) if found else "no figures"),
    )


def apart(labels: Iterable[Label], distance: float = 13.0) -> tuple[Label, ...]:
    """Labels that do not cover one another: those too near to an earlier one are left out."""
    kept: list[Label] = []
    for label in labels:
        if all(abs(label.y - other.y) >= distance for other in kept):
            kept.append(label)
    return tuple(kept)


def band_words(band: Band, times: Sequence[str]) -> str:
    """What all nodes of a type reached in a check."""
    figures = f"{amount(band.lowest)} to {amount(band.highest)} GB/s, median {amount(band.middle)}"
    return f"{times[band.check]}: {figures} ({band.count} measured)"
