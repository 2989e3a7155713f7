"""Amounts over time as columns, in the units of an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slurmfab.commands.report.scales import amount, amount_ticks
from slurmfab.commands.report.sparklines import Label

WIDTH, HEIGHT = 1000.0, 190.0
LEFT, TOP, BELOW = 60.0, 8.0, 22.0
"""Room for the amounts at the left, above the columns, and for the times below them."""

MOST_TIMES = 8
"""So many times are written below the columns."""

LEAST = 1.0
"""The height of the lowest column that stands for anything at all."""

LOWEST_TOP = 1.0
"""The axis ends here or above, however little was used."""

GAP = 0.2
"""The part of a column's place that stays empty."""

HOUR, DAY = 3600, 86400


@dataclass(frozen=True)
class Column:
    """An amount: where its column is, and its words for people who point at it."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Columns:
    """The chart."""

    width: float
    height: float
    left: float  # where the columns begin
    columns: tuple[Column, ...]  # one for each amount
    amounts: tuple[Label, ...]  # the texts at the left, with the height of each line
    times: tuple[Label, ...]
    # where the amount is that the cluster has, from above; `None` where it is not known or far above
    full: float | None
    words: str


def columns(amounts: Sequence[tuple[int, float]], unit: str, full: float | None, until: int) -> Columns:
    """The chart of amounts.

    Args:
        amounts: beginnings of hours or days in seconds since 1970, evenly spread, and amounts.
        unit: of the amounts, such as `GPU hours`.
        full: how much the cluster has in each of these times; `None` where it is not known. It counts for nothing
            if more was used.
        until: the end of the last one.
    """
    most = max((value for _, value in amounts), default=0.0)
    full = full if full and full >= most else None  # records that began within the window tell less than there was
    ticks = amount_ticks(max(most, full or 0.0, LOWEST_TOP))
    scale = (HEIGHT - TOP - BELOW) / ticks[-1]
    place = (WIDTH - LEFT) / max(1, len(amounts))
    by_hours = is_by_hours([at for at, _ in amounts], until)
    drawn = []
    for number, (at, value) in enumerate(amounts):
        height = max(LEAST, value * scale) if value else 0.0
        title = f"{time_text(at, by_hours=by_hours)}: {amount(value)} {unit}" + of_full(value, full)
        x = round(LEFT + (number + GAP / 2) * place, 1)
        drawn.append(Column(x, round(HEIGHT - BELOW - height, 1), round(place * (1 - GAP), 1), round(height, 1), title))
    return Columns(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        columns=tuple(drawn),
        amounts=tuple(Label(LEFT - 8, round(HEIGHT - BELOW - tick * scale, 1), amount(tick)) for tick in ticks),
        times=time_labels([at for at, _ in amounts], place, by_hours=by_hours),
        full=None if full is None else round(HEIGHT - BELOW - full * scale, 1),
        words=words_of(amounts, unit, by_hours=by_hours),
    )


def is_by_hours(times: Sequence[int], until: int) -> bool:
    """Whether the times are hours and not days."""
    following = times[1] if len(times) > 1 else until
    return bool(times) and following - times[0] <= HOUR


def time_text(at: int, *, by_hours: bool) -> str:
    """A day or an hour as text, in local time."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}" if by_hours else day_text(at)


def day_text(at: int) -> str:
    """A day as text: that of its noon, because it begins at midnight of the controller, which may be far away."""
    return f"{datetime.fromtimestamp(at + DAY // 2).astimezone():%Y-%m-%d}"


def of_full(value: float, full: float | None) -> str:
    """The part of what the cluster has: `, 41 % of all`; empty where that is not known."""
    return f", {100 * value / full:.0f} % of all" if full else ""


def time_labels(times: Sequence[int], place: float, *, by_hours: bool) -> tuple[Label, ...]:
    """Some of the times, evenly spread from the last one.

    Args:
        place: width of a column with its gap.
        by_hours: whether the columns are hours.
    """
    step = max(1, -(-len(times) // MOST_TIMES))
    numbers = range(len(times) - 1, -1, -step)
    texts = {number: time_text(times[number], by_hours=by_hours) for number in numbers}
    shown = {number: text[-5:] if by_hours else text[5:] for number, text in texts.items()}
    return tuple(Label(round(LEFT + (number + 0.5) * place, 1), HEIGHT - 6, text) for number, text in shown.items())


def words_of(amounts: Sequence[tuple[int, float]], unit: str, *, by_hours: bool) -> str:
    """The chart in one sentence."""
    if not any(value for _, value in amounts):
        return f"No {unit} were used."
    at, most = max(amounts, key=lambda pair: pair[1])
    total = sum(value for _, value in amounts)
    each = "hour" if by_hours else "day"
    most_text = f"the most on {time_text(at, by_hours=by_hours)} ({amount(most)})"
    return f"{amount(total)} {unit} in {len(amounts)} {each}s, {amount(total / len(amounts))} a {each}; {most_text}."
