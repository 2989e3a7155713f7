"""A plot without a library: one bar for each ratio, on a scale of factors, with a line where its target is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from benchmarks.results import TIMES, Figure, Result

WIDTH, LABELS, RIGHT = 900, 330, 70
"""Of the picture, of the names on its left, and of the free strip on its right; in pixels."""

BAR, GAP, TOP, BOTTOM = 16, 8, 46, 28
COLOURS = {"slurmfab": "#2b6cb0", "peer": "#a0aec0", "floor": "#cbd5e0"}
STYLE = "font-family: sans-serif; font-size: 12px; fill: #2d3748"
PEERS = ("Ansible", "pyinfra")


def bars(results: Sequence[Result]) -> str:
    """All ratios of these results as SVG.

    Args:
        results: in the order of the picture, from above.
    """
    rows = [
        (result, [one for one in result.figures if one.target.unit == TIMES and one.target.to]) for result in results
    ]
    rows = [(result, figures) for result, figures in rows if figures]
    values = [figure.value for _, figures in rows for figure in figures]
    values += [figure.target.at_most for _, figures in rows for figure in figures if figure.target.at_most]
    if not values:
        return svg(TOP, [])
    scale = Scale(min(0.5, *values), max(2.0, *values))
    shapes: list[str] = []
    y = TOP
    for result, figures in rows:
        shapes.append(text(8, y + 11, result.title, weight="bold"))
        y += BAR + 2
        for figure in figures:
            shapes += bar(figure, y, scale)
            y += BAR + 2
        y += GAP
    return svg(y + BOTTOM, [*grid(scale, y), *shapes])


class Scale:
    """Factors to pixels, equal factors as equal lengths.

    Args:
        lowest: the smallest factor to be shown.
        highest: the largest one.
    """

    def __init__(self, lowest: float, highest: float) -> None:
        self.lowest, self.highest = lowest / 1.2, highest * 1.2

    def x(self, value: float) -> float:
        """Where a factor is."""
        part = math.log(value / self.lowest) / math.log(self.highest / self.lowest)
        return round(LABELS + part * (WIDTH - LABELS - RIGHT), 1)

    @property
    def marks(self) -> tuple[float, ...]:
        """Factors that get a line: 1, 2, 5 and their tenfolds and tenths."""
        wanted = (base * 10.0**power for power in range(-3, 5) for base in (1, 2, 5))
        return tuple(value for value in wanted if self.lowest <= value <= self.highest)


def bar(figure: Figure, y: int, scale: Scale) -> list[str]:
    """A bar with its name, its value, its spread, and its target."""
    target = figure.target
    colour = COLOURS["peer" if target.of in PEERS else "slurmfab"]
    start, end = sorted((scale.x(1), scale.x(figure.value)))
    shapes = [
        text(LABELS - 8, y + 12, f"{target.of} / {target.to}", anchor="end"),
        f'<rect x="{start}" y="{y}" width="{max(1.0, round(end - start, 1))}" height="{BAR}" fill="{colour}"/>',
        line(scale.x(figure.lowest), y + BAR / 2, scale.x(figure.highest), y + BAR / 2, "#1a202c"),
        text(
            max(end, scale.x(figure.highest)) + 5,
            y + 12,
            f"{figure.value:.2g}" if figure.value < 1 else f"{figure.value:.1f}",
        ),
    ]
    if target.at_most is not None:
        shapes.append(line(scale.x(target.at_most), y - 1, scale.x(target.at_most), y + BAR + 1, "#c53030"))
    return shapes


def grid(scale: Scale, bottom: int) -> Iterable[str]:
    """Lines for some factors, the floor itself drawn stronger."""
    yield text(8, 18, "Times of the floor, by factors; medians, with the lowest and highest round; red: the target")
    for value in scale.marks:
        x = scale.x(value)
        yield line(x, TOP - 8, x, bottom, "#1a202c" if value == 1 else "#e2e8f0")
        yield text(x, TOP - 12, f"{value:g}", anchor="middle")


def line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    """A straight line."""
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{colour}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    """Some words."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" style="{STYLE}">{escape(words)}</text>'


def svg(height: int, shapes: Iterable[str]) -> str:
    """A picture of these shapes on white."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *shapes, "</svg>", ""])
