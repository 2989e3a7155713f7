"""Small plots of figures over checks, in the units of an SVG: one of a node, and one of all nodes of a type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurmfab.commands.report.gpu_history import Band, History, Point, bands
from slurmfab.commands.report.scales import amount
from slurmfab.on_hosts.programs.gpu_check.check import NOT_MEASURED, SHORT

BELOW = 22.0
"""Room for the times below the plot of a type."""

EDGE = 5.0
"""Room around the points."""

PASSED_CSS, SHORT_CSS, NONE_CSS = "passed", "short", "none"
CSS = {SHORT: SHORT_CSS, NOT_MEASURED: NONE_CSS}
"""Classes of points; each also has a shape of its own: a dot, a triangle, a cross."""

MOST_TIMES = 6
"""So many times are written below the plot of a type."""


@dataclass(frozen=True)
class Frame:
    """Where figures are drawn."""

    width: float
    height: float
    left: float = 0.0


SMALL = Frame(160.0, 40.0)
LARGE = Frame(1000.0, 128.0, 60.0)
"""The plots of a node and of a type."""


@dataclass(frozen=True)
class Scale:
    """What becomes of figures on the way up: all plots of a type share one."""

    low: float  # the figure at the lower edge
    high: float  # the figure at the upper edge

    def y(self, figure: float, height: float) -> float:
        """Where a figure is, from above."""
        part = (figure - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(height - EDGE - part * (height - 2 * EDGE), 1)


@dataclass(frozen=True)
class Dot:
    """A measurement: where it is, its class, and its words for people who point at it."""

    x: float
    y: float
    css: str
    title: str


@dataclass(frozen=True)
class Sparkline:
    """The plot of a node."""

    width: float
    height: float
    path: str  # the line, with gaps where nothing was measured
    wanted: float | None  # where the threshold is, from above; `None` where there is none
    dots: tuple[Dot, ...]  # the last measurement, and all that did not pass
    words: str


@dataclass(frozen=True)
class Label:
    """A text at an axis."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class TypePlot:
    """The plot of all nodes of a type."""

    title: str
    width: float
    height: float
    area: str  # from the lowest to the highest figure of each check
    path: str
    dots: tuple[Dot, ...]  # the medians, with their words
    wanted: float | None  # where the threshold is, from above; `None` where there is none
    figures: tuple[Label, ...]
    times: tuple[Label, ...]
    words: str


def scale_of(of_type: Iterable[History]) -> Scale:
    """The scale of all nodes of a type, from the lowest figure or threshold to the highest."""
    known = [value for one in of_type for value in (*one.figures, one.wanted) if value is not None]
    return Scale(min(known, default=0.0), max(known, default=0.0))


def across(check: int, checks: int, frame: Frame) -> float:
    """Where a check is from the left; one alone is at the right."""
    part = check / (checks - 1) if checks > 1 else 1.0
    return round(frame.left + EDGE + part * (frame.width - frame.left - 2 * EDGE), 1)


def sparkline(history: History, checks: int, scale: Scale) -> Sparkline:
    """The plot of a node.

    Args:
        checks: how many checks there are.
    """
    points = sorted(history.points, key=lambda point: point.check)
    shown = [point for point in points if point.outcome in CSS or point is points[-1]]
    wanted = history.wanted
    return Sparkline(
        width=SMALL.width,
        height=SMALL.height,
        path=line([(point.check, point.busbw) for point in points], checks, scale, SMALL),
        wanted=None if wanted is None else scale.y(wanted, SMALL.height),
        dots=tuple(dot_of(point, checks, scale) for point in shown),
        words=words_of(history),
    )


def dot_of(point: Point, checks: int, scale: Scale) -> Dot:
    """A measurement as a dot; one without a figure is at the lower edge."""
    y = SMALL.height - EDGE if point.busbw is None else scale.y(point.busbw, SMALL.height)
    css = CSS.get(point.outcome, PASSED_CSS)
    return Dot(across(point.check, checks, SMALL), y, css, f"{point.time}: {told(point)}")


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


def line(figures: Sequence[tuple[int, float | None]], checks: int, scale: Scale, frame: Frame) -> str:
    """The path of figures by check, which begins anew behind each gap.

    Args:
        figures: by check; `None` where nothing was measured.
        checks: how many checks there are.
        frame: where the path is drawn.
    """
    parts, pen_is_down = [], False
    for check, figure in figures:
        if figure is not None:
            command = "L" if pen_is_down else "M"
            parts.append(f"{command}{across(check, checks, frame)} {scale.y(figure, frame.height)}")
        pen_is_down = figure is not None
    return "".join(parts)


def type_plot(title: str, of_type: Sequence[History], times: Sequence[str]) -> TypePlot:
    """The plot of all nodes of a type.

    Args:
        times: of all checks that are shown.
    """
    found, scale, checks = bands(of_type), scale_of(of_type), len(times)
    wanted = next((one.wanted for one in of_type if one.wanted is not None), None)
    lows = [(band.check, band.lowest) for band in found]
    highs = [(band.check, band.highest) for band in found]
    outline = line([*lows, *reversed(highs)], checks, scale, LARGE)
    dots = tuple(
        Dot(across(band.check, checks, LARGE), scale.y(band.middle, LARGE.height), PASSED_CSS, band_words(band, times))
        for band in found
    )
    marks = dict.fromkeys(value for value in (scale.low, wanted, scale.high) if value is not None)
    return TypePlot(
        title=title,
        width=LARGE.width,
        height=LARGE.height + BELOW,
        area=f"{outline}Z" if outline else "",
        path=line([(band.check, band.middle) for band in found], checks, scale, LARGE),
        dots=dots,
        wanted=None if wanted is None else scale.y(wanted, LARGE.height),
        figures=apart([Label(LARGE.left - 8, scale.y(value, LARGE.height) + 4, amount(value)) for value in marks]),
        times=tuple(time_labels(times)),
        words=f"{title}, {len(of_type)} measured: " + (band_words(found[-1], times) if found else "no figures"),
    )


def apart(labels: Sequence[Label], distance: float = 13.0) -> tuple[Label, ...]:
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


def time_labels(times: Sequence[str]) -> Iterable[Label]:
    """The dates of some checks, evenly spread."""
    step = max(1, -(-len(times) // MOST_TIMES))
    for check in range(len(times) - 1, -1, -step):
        yield Label(across(check, len(times), LARGE), LARGE.height + BELOW - 4, times[check][:10])
