"""A plot without a library: a bar for each ratio that has a target, and for the peers', on a scale of factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from benchmarks.results import TIMES, Figure, Result

WIDTH, LABELS, RIGHT = 920, 270, 150
"""Of the picture, of the names on its left, and of the numbers on its right; in pixels."""

BAR, GAP, TOP, BOTTOM = 16, 10, 56, 16
PEERS = ("Ansible", "pyinfra")
STYLE = """\
text { font-family: sans-serif; font-size: 12px; fill: #1f2937 }
.title { font-weight: bold }
.faint { fill: #6b7280 }
.paper { fill: #ffffff }
.slurmfab { fill: #2b6cb0 }
.peer { fill: #a8b3c2 }
line { stroke: #e2e8f0 }
.one { stroke: #4b5563 }
.spread { stroke: #1f2937; stroke-width: 1.5 }
.target { stroke: #d03030; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb }
  .faint { fill: #9ca3af }
  .paper { fill: #0d1117 }
  .slurmfab { fill: #4a90d9 }
  .peer { fill: #5b6675 }
  line { stroke: #2a313c }
  .one { stroke: #9ca3af }
  .spread { stroke: #f3f4f6 }
  .target { stroke: #ff6b6b }
}"""
"""For bright and for dark pages."""


def bars(results: Sequence[Result]) -> str:
    """The ratios of these results as SVG, those with a target and the peers' beside them.

    Args:
        results: in the order of the picture, from above.
    """
    rows = [(result, [one for one in result.figures if is_shown(one)]) for result in results]
    rows = [(result, figures) for result, figures in rows if figures]
    values = [edge for _, figures in rows for figure in figures for edge in (figure.lowest, figure.highest)]
    values += [figure.target.at_most for _, figures in rows for figure in figures if figure.target.at_most]
    if not values:
        return svg(TOP, [])
    scale = Scale(min(0.5, *values), max(2.0, *values))
    shapes, y = list(head(scale)), TOP
    for result, figures in rows:
        shapes.append(text(8, y + 12, result.title.replace("`", ""), kind="title"))
        y += BAR + 4
        shapes += grid(scale, y - 2, y + len(figures) * (BAR + 3))
        for figure in figures:
            shapes += bar(figure, y, scale)
            y += BAR + 3
        y += GAP
    return svg(y + BOTTOM, shapes)


def is_shown(figure: Figure) -> bool:
    """Whether a figure has a bar: a ratio with a target, or a peer's."""
    target = figure.target
    return target.unit == TIMES and bool(target.to) and (target.at_most is not None or target.of in PEERS)


class Scale:
    """Factors to pixels, equal factors as equal lengths.

    Args:
        lowest: the smallest factor to be shown.
        highest: the largest one.
    """

    def __init__(self, lowest: float, highest: float) -> None:
        self.lowest, self.highest = lowest / 1.1, highest * 1.1

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
    """A bar with its name, its spread and its target; its value and the target's stand in a column at the right."""
    target = figure.target
    kind = "peer" if target.of in PEERS else "slurmfab"
    start, end = sorted((scale.x(1), scale.x(figure.value)))
    width = max(1.0, round(end - start, 1))
    shapes = [
        text(LABELS - 8, y + 12, f"{target.of} / {target.to}", anchor="end"),
        f'<rect x="{start}" y="{y}" width="{width}" height="{BAR}" class="{kind}"/>',
        line(scale.x(figure.lowest), y + BAR / 2, scale.x(figure.highest), y + BAR / 2, "spread"),
        text(WIDTH - RIGHT + 50, y + 12, factor(figure.value), anchor="end", kind="title"),
    ]
    if target.at_most is not None:
        shapes.append(line(scale.x(target.at_most), y - 2, scale.x(target.at_most), y + BAR + 2, "target"))
        shapes.append(text(WIDTH - RIGHT + 62, y + 12, f"target {target.at_most:g}", kind="faint"))
    return shapes


def factor(value: float) -> str:
    """A factor with as many digits as it is good for."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"  # noqa: PLR2004


def head(scale: Scale) -> Iterable[str]:
    """What is to be seen, and the scale."""
    yield text(8, 18, "Time as a multiple of the floor's; bar: median, line: lowest to highest round, red: target")
    for value in scale.marks:
        yield text(scale.x(value), TOP - 14, f"{value:g} x", anchor="middle", kind="faint")


def grid(scale: Scale, top: int, bottom: int) -> Iterable[str]:
    """Lines for some factors behind the bars of one scenario, the floor itself drawn stronger."""
    for value in scale.marks:
        yield line(scale.x(value), top, scale.x(value), bottom, "one" if value == 1 else "mark")


def line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" class="{kind}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Some words."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def svg(height: int, shapes: Iterable[str]) -> str:
    """A picture of these shapes."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    paper = f'<rect width="{WIDTH}" height="{height}" class="paper"/>'
    return "\n".join([head, f"<style>\n{STYLE}\n</style>", paper, *shapes, "</svg>", ""])
