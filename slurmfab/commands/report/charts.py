"""Charts in the units of an SVG: axes, marks and labels, round ticks, short texts that fit, and columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slurmfab.on_hosts.agent.client.amounts import bounded

_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Distances between ticks of a time axis, in seconds."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_UNITS = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"))

_SMALLEST = 0.01  # amounts below this one are not told
_WITHOUT_FRACTION = 100  # from here on, numbers have no digits behind the point
CHARACTER = 0.6  # average width of a character as a part of the font's size


@dataclass(frozen=True)
class Axis:
    """Where values are: one at `low` is at `begin`, one at `high` at `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Where a value is; in the middle of an axis without length."""
        part = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.begin + part * (self.end - self.begin), 1)


@dataclass(frozen=True)
class Label:
    """A text at an axis."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Mark:
    """A dot, or a column or bar with its width and height."""

    x: float
    y: float
    title: str  # for people who point at it
    width: float = 0.0
    height: float = 0.0
    css: str = ""  # a class of the style sheet
    text: str = ""  # inside a bar


@dataclass(frozen=True)
class Plot:
    """Figures over time."""

    width: float
    height: float
    marks: tuple[Mark, ...]
    line: float | None  # the height of the dashed line: a threshold, or all that the cluster has; `None` without one
    words: str  # the plot in one sentence
    title: str = ""
    left: float = 0.0  # where the figures begin, behind the labels
    path: str = ""  # the figures as a line, with gaps where there are none
    area: str = ""  # from the lowest to the highest figures
    figures: tuple[Label, ...] = ()  # at the axis of figures
    times: tuple[Label, ...] = ()  # at that of times


def path(points: Iterable[tuple[float, float | None]], across: Axis, up: Axis) -> str:
    """The path of figures, which begins anew behind each one that is `None`."""
    parts, pen_is_down = [], False
    for place, figure in points:
        if figure is not None:
            parts.append(f"{'L' if pen_is_down else 'M'}{across.at(place)} {up.at(figure)}")
        pen_is_down = figure is not None
    return "".join(parts)


def spread(count: int, most: int) -> range:
    """Numbers of some of `count` things, at most `most`, evenly spread from the last one."""
    return range(count - 1, -1, -max(1, -(-count // most)))


def time_ticks(seconds: float, most: int = 8) -> tuple[float, ...]:
    """Ticks of a time axis from 0, at round distances.

    >>> time_ticks(43.6)
    (0.0, 10.0, 20.0, 30.0, 40.0)

    Args:
        seconds: the end of the axis.
        most: how many distances there may be.
    """
    step = next((step for step in _STEPS if seconds / step <= most), math.ceil(seconds / most / _DAY) * _DAY)
    return tuple(step * number for number in range(math.floor(seconds / step + 1e-9) + 1) if step * number >= 0.0)


def amount_ticks(top: float, most: int = 5) -> tuple[float, ...]:
    """Ticks of an axis of amounts from 0, at 1, 2 or 5 times a power of ten; the last one is at `top` or above.

    >>> amount_ticks(431)
    (0.0, 100.0, 200.0, 300.0, 400.0, 500.0)

    Args:
        most: how many distances there may be.
    """
    if top <= 0:
        return (0.0, 1.0)
    power = 10.0 ** math.floor(math.log10(top / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if top / (power * factor) <= most)
    return tuple(step * number for number in range(math.ceil(top / step - 1e-9) + 1))


def duration(seconds: float) -> str:
    """A time as text.

    >>> duration(0.264), duration(43.6), duration(135), duration(7260), duration(180000)
    ('0.26 s', '43.6 s', '2 min 15 s', '2 h 1 min', '2 d 2 h')
    """
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    for unit, name, part, part_name in _UNITS:
        if seconds >= unit:
            whole, rest = divmod(round(seconds / part), unit // part)
            return f"{whole} {name} {rest} {part_name}" if rest else f"{whole} {name}"
    raise AssertionError("every time has a unit")


def tick_text(seconds: float) -> str:
    """The text at a tick of a time axis: `10 s`, `2 min`."""
    if seconds == 0:
        return "0"
    return f"{seconds:g} s" if seconds < _MINUTE else duration(seconds)


def amount(value: float) -> str:
    """An amount in at most four digits.

    >>> amount(0.002), amount(0.25), amount(12.34), amount(431.2), amount(12345), amount(2_000_000)
    ('< 0.01', '0.25', '12.3', '431', '12.3 k', '2 M')
    """
    if 0 < value < _SMALLEST:
        return f"< {_SMALLEST}"
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{short(value / (1e3 if letter == ' k' else size))}{letter}"
    return short(value)


def short(value: float) -> str:
    """A number with three significant digits, and all digits before the point."""
    return f"{value:.0f}" if abs(value) >= _WITHOUT_FRACTION else f"{value:.3g}"


def fits(text: str, width: float, size: float) -> bool:
    """Whether a text fits into a width, with a little room on both sides. `size`: of the font, in the same unit."""
    return (len(text) + 1) * size * CHARACTER <= width


def cut(text: str, width: float, size: float) -> str:
    """The beginning of a text that fits into a width, with an ellipsis where something is missing.

    >>> cut("n[001-480,482-960]", 90, 12)
    'n[001-480,…'

    Args:
        size: of the font, in the same unit.
    """
    most = max(1, int(width / (size * CHARACTER)) - 1)
    return text if len(text) <= most + 1 else f"{text[:most]}…"


WIDTH, HEIGHT = 1000.0, 190.0
LEFT, TOP, BELOW = 60.0, 8.0, 22.0  # room for the amounts at the left, above the columns, and for the times below them
MOST_TIMES = 8  # so many times are written below the columns
LEAST = 1.0  # the height of the lowest column that stands for anything at all
LOWEST_TOP = 1.0  # the axis ends here or above, however little was used
GAP = 0.2  # the part of a column's place that stays empty

HOUR, DAY = 3600, 86400


def columns(amounts: Sequence[tuple[int, float]], unit: str, full: float | None, until: int) -> Plot:
    """The chart of amounts at evenly spread times (seconds since 1970) up to `until`, in a unit as `GPU hours`.

    `full`: how much the cluster has in each, `None` where it is not known. It counts for nothing if more was used.
    """
    most = max((value for _, value in amounts), default=0.0)
    full = full if full and full >= most else None  # records that began within the window tell less than there was
    ticks = amount_ticks(max(most, full or 0.0, LOWEST_TOP))
    floor = HEIGHT - BELOW
    up, across = Axis(0, ticks[-1], floor, TOP), Axis(0, max(1, len(amounts)), LEFT, WIDTH)
    by_hours = is_by_hours([at for at, _ in amounts], until)
    texts = [time_text(at, by_hours=by_hours) for at, _ in amounts]
    width = round((WIDTH - LEFT) / max(1, len(amounts)) * (1 - GAP), 1)
    drawn = []
    for number, (text, (_, value)) in enumerate(zip(texts, amounts, strict=True)):
        height = max(LEAST, round(floor - up.at(value), 1)) if value else 0.0
        part = f", {100 * value / full:.0f} % of all" if full else ""
        title = f"{text}: {amount(value)} {unit}{part}"
        drawn.append(Mark(across.at(number + GAP / 2), round(floor - height, 1), title, width, height))
    shown = [text[-5:] if by_hours else text[5:] for text in texts]
    return Plot(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        marks=tuple(drawn),
        figures=tuple(Label(LEFT - 8, up.at(tick), amount(tick)) for tick in ticks),
        times=tuple(
            Label(across.at(number + 0.5), HEIGHT - 6, shown[number]) for number in spread(len(texts), MOST_TIMES)
        ),
        line=None if full is None else up.at(full),
        words=words_of(amounts, unit, by_hours=by_hours),
    )


def is_by_hours(times: Sequence[int], until: int) -> bool:
    """Whether the times are hours and not days."""
    following = times[1] if len(times) > 1 else until
    return bool(times) and following - times[0] <= HOUR


def time_text(at: int, *, by_hours: bool) -> str:
    """An hour in local time, or a day: that of its noon, as it begins at midnight of a controller that may be far."""
    moment = datetime.fromtimestamp(bounded(at if by_hours else at + DAY // 2)).astimezone()
    return f"{moment:%Y-%m-%d %H:%M}" if by_hours else f"{moment:%Y-%m-%d}"


def words_of(amounts: Sequence[tuple[int, float]], unit: str, *, by_hours: bool) -> str:
    """The chart in one sentence."""
    if not any(value for _, value in amounts):
        return f"No {unit} were used."
    at, most = max(amounts, key=lambda pair: pair[1])
    total = sum(value for _, value in amounts)
    each = "hour" if by_hours else "day"
    most_text = f"the most on {time_text(at, by_hours=by_hours)} ({amount(most)})"
    return f"{amount(total)} {unit} in {len(amounts)} {each}s, {amount(total / len(amounts))} a {each}; {most_text}."
