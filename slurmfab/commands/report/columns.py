"""Amounts over time as columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slurmfab.commands.report.charts import Axis, Label, Mark, Plot, amount, amount_ticks, spread

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
    moment = datetime.fromtimestamp(at if by_hours else at + DAY // 2).astimezone()
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
