"""Small plots of figures over checks: one of a node, and one of all nodes of a type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurmfab.commands.report.charts import Axis, Label, Mark, Plot, amount, path, spread
from slurmfab.commands.report.gpu_history import Band, History, Point, bands
from slurmfab.on_hosts.programs.gpu_check.check import NOT_MEASURED, SHORT

BELOW = 22.0
"""Room for the times below the plot of a type."""

EDGE = 5.0
"""Room around the points."""

CSS = {SHORT: "short", NOT_MEASURED: "none"}
"""Classes of points that did not pass; each also has a shape of its own: a triangle, a cross, and a dot for others."""

MOST_TIMES = 6
"""So many times are written below the plot of a type."""

SMALL, LARGE = (160.0, 40.0), (1000.0, 128.0)
"""Width and height of the plots of a node and of a type."""

LEFT, LAST = 60.0, LARGE[0] - 32
"""Room for the figures at the left of a type's plot, and where its last date is at most."""

Range = tuple[float, float]


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
    """The plot of all nodes of a type: medians, and the area from the lowest to the highest figure of each check.

    Args:
        times: of all checks that are shown.
    """
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
