"""Draw the diagrams of the documentation: each YAML file beside this one becomes an SVG file of the same name.

    .venv/bin/python docs/pictures/draw.py

A picture is rows of boxes, each with a title and lines below it, and arrows between boxes. Words in backticks are code.
`layers.svg` has no YAML file: it is drawn from the text picture in docs/how-it-works.md, which a test of the imports
reads as well.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

HERE = Path(__file__).parent
LAYERS_PAGE = HERE.parent / "how-it-works.md"
LAYER = re.compile(r"^    │ ([a-z_ ]+?) *│ *(.*)$")
ROOM = re.compile(r"─ (.+?) ─+┤")

WIDTH = 600
"""Of each picture: so narrow that a phone shows it without making its letters too small."""
MARGIN, COLUMN_GAP, ROW_GAP, PADDING, DOT = 18, 22, 38, 10, 11
INDENT = "  "
"""Before a line that goes on with another, as wide as a dot and a space before it."""
LINE, SIZE, LETTER, CODE_LETTER = 17, 13, 7.4, 7.9
"""The height of a line, the size of its letters, and how wide one is at most on average in usual fonts."""

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .title { font-weight: 600 } .code { font: 12px monospace }
.paper { fill: #fff } .box { stroke: #57606a; fill: #f6f8fa } .file { fill: #fff8dc; stroke: #9a6700 }
.host { fill: #ddf4ff; stroke: #0969da } .secret { fill: #ffebe9; stroke: #cf222e }
.done { fill: #dafbe1; stroke: #1a7f37 } .arrow { fill: none; stroke: #57606a; stroke-width: 1.5 }
.head { fill: #57606a } .label { paint-order: stroke; stroke: #fff; stroke-width: 5px; font-size: 12px }
.dashed { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .paper { fill: #131416 } .box { fill: #21262d; stroke: #8b949e }
  .file { fill: #3a2f10; stroke: #d29922 } .host { fill: #0c2d4a; stroke: #58a6ff }
  .secret { fill: #4a1a1c; stroke: #f85149 } .done { fill: #12351c; stroke: #3fb950 }
  .arrow { stroke: #8b949e } .head { fill: #8b949e } .label { stroke: #131416 }
}"""


TURN = 14
"""How far below a box an arrow turns to one that is not straight below."""


class Strict(BaseModel):
    """A part of a YAML file, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Box(Strict):
    """A box: its title, lines of text, what kind of thing it is, and how wide it is beside the others of its row."""

    title: str = ""
    lines: tuple[str, ...] = ()
    kind: Literal["box", "file", "host", "secret", "done", "gap"] = "box"
    share: float = 1


class Arrow(Strict):
    """An arrow between two boxes, straight if they face each other; `side` leads it along the picture's edge."""

    start: str
    end: str
    text: str = ""
    side: Literal["", "left", "right"] = ""
    both: bool = False
    dashed: bool = False
    at: float = 0.5


class Picture(Strict):
    """A picture: what it shows in words, rows of boxes by name, and arrows."""

    about: str
    rows: tuple[dict[str, Box], ...]
    arrows: tuple[Arrow, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a box is drawn, with its lines broken."""

    x: float
    y: float
    width: float
    height: float
    lines: Sequence[str] = field(default=(), repr=False)

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its lower edge."""
        return self.y + self.height


def broken(lines: Sequence[str], width: float) -> list[str]:
    """Lines, broken where they would be wider than a box; with several, each begins with a dot."""
    found = []
    dot, below = ("• ", INDENT) if len(lines) > 1 else ("", "")
    for line in lines:
        letters = int((width - 2 * PADDING) / (CODE_LETTER if "`" in line else LETTER)) + line.count("`") // 3
        found += textwrap.wrap(
            line, letters, initial_indent=dot, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
        )
        if any(len(part.replace("`", "")) > letters for part in found):
            raise ValueError(f"wider than its box ({letters} letters): {line}")
    return found


def places(picture: Picture) -> dict[str, Place]:
    """Where each box is: rows one below the other, the boxes of a row equally high."""
    found: dict[str, Place] = {}
    y = float(MARGIN)
    for row in picture.rows:
        whole = WIDTH - 2 * MARGIN - COLUMN_GAP * (len(row) - 1)
        widths = [whole * box.share / sum(one.share for one in row.values()) for box in row.values()]
        texts = [broken(box.lines, width) for box, width in zip(row.values(), widths, strict=True)]
        rows = [len(text) + bool(box.title) for text, box in zip(texts, row.values(), strict=True)]
        height, x = max(rows) * LINE + 2 * PADDING, float(MARGIN)
        for name, width, text in zip(row, widths, texts, strict=True):
            if name in found:
                raise ValueError(f"two boxes are called {name}")
            found[name] = Place(x, y, width, height, text)
            x += width + COLUMN_GAP
        y += height + ROW_GAP
    return found


def words(text: str) -> str:
    """A line of text as SVG, what is in backticks as code."""
    parts = text.split("`")
    return "".join(f'<tspan class="code">{escape(p)}</tspan>' if n % 2 else escape(p) for n, p in enumerate(parts))


def drawn_box(box: Box, place: Place) -> Iterator[str]:
    """A box with its text."""
    if box.kind == "gap":
        return
    at = f'x="{place.x:.0f}" y="{place.y:.0f}" width="{place.width:.0f}" height="{place.height:.0f}"'
    yield f'<rect {at} rx="5" class="box {box.kind}"/>'
    y = place.y + PADDING + SIZE
    if box.title:
        yield f'<text x="{place.x + PADDING:.0f}" y="{y:.0f}" class="title">{words(box.title)}</text>'
        y += LINE
    for number, line in enumerate(place.lines):
        x = place.x + PADDING + (DOT if line.startswith(INDENT) else 0)
        yield f'<text x="{x:.0f}" y="{y + number * LINE:.0f}">{words(line.strip())}</text>'


def overlap(start: float, end: float, other_start: float, other_end: float, at: float) -> float | None:
    """A place in what two stretches have in common; None if that is nothing."""
    low, high = max(start, other_start), min(end, other_end)
    return low + (high - low) * at if low < high else None


def path(arrow: Arrow, start: Place, end: Place) -> list[tuple[float, float]]:
    """The corners of an arrow's line."""
    if arrow.side:
        edge = MARGIN / 2 if arrow.side == "left" else WIDTH - MARGIN / 2
        x, to_x = (start.x, end.x) if arrow.side == "left" else (start.right, end.right)
        y, to_y = start.y + start.height / 2, end.y + end.height / 2
        return [(x, y), (edge, y), (edge, to_y), (to_x, to_y)]
    across = overlap(start.x, start.right, end.x, end.right, arrow.at)
    if across is not None:
        return (
            [(across, start.bottom), (across, end.y)] if start.y < end.y else [(across, start.y), (across, end.bottom)]
        )
    level = overlap(start.y, start.bottom, end.y, end.bottom, arrow.at)
    if level is None:
        x, to_x = start.x + start.width * arrow.at, end.x + end.width / 2
        return [(x, start.bottom), (x, start.bottom + TURN), (to_x, start.bottom + TURN), (to_x, end.y)]
    return [(start.right, level), (end.x, level)] if start.x < end.x else [(start.x, level), (end.right, level)]


def drawn_arrow(arrow: Arrow, boxes: Mapping[str, Place]) -> Iterator[str]:
    """The line of an arrow, its heads, and its text beside the middle of its longest part."""
    corners = path(arrow, boxes[arrow.start], boxes[arrow.end])
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y in corners)
    heads = 'marker-end="url(#head)"' + (' marker-start="url(#tail)"' if arrow.both else "")
    yield f'<polyline points="{line}" class="arrow{" dashed" if arrow.dashed else ""}" {heads}/>'
    if arrow.text:
        (x, y), (to_x, to_y) = corners[:2]
        if x == to_x:
            yield f'<text x="{x + 8:.0f}" y="{(y + to_y) / 2 + 4:.0f}" class="label">{words(arrow.text)}</text>'
        else:
            at = f'x="{(x + to_x) / 2:.0f}" y="{y - 6:.0f}" text-anchor="middle"'
            yield f'<text {at} class="label">{words(arrow.text)}</text>'


HEADS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    f'markerUnits="userSpaceOnUse" orient="{orient}"><path d="M0 0L8 4L0 8z" class="head"/></marker>'
    for name, orient in (("head", "auto"), ("tail", "auto-start-reverse"))
)


def svg(picture: Picture) -> str:
    """A picture as the text of an SVG file, for light and dark surroundings."""
    boxes = places(picture)
    height = max(place.bottom for place in boxes.values()) + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img">',
        f"<title>{escape(picture.about)}</title>",
        f"<style>\n{STYLE}\n</style>",
        f"<defs>{HEADS}</defs>",
        f'<rect width="{WIDTH}" height="{height:.0f}" class="paper"/>',
    ]
    for row in picture.rows:
        for name, box in row.items():
            lines += drawn_box(box, boxes[name])
    for arrow in picture.arrows:
        lines += drawn_arrow(arrow, boxes)
    return "\n".join([*lines, "</svg>", ""])


def layers(page: str) -> Picture:
    """The picture of the layers: the first text picture of a page, a box for each room."""
    text = page.partition("## Layers\n")[2].partition("\n## ")[0]
    rows: list[dict[str, Box]] = []
    for number, part in enumerate(text.split("├")):
        found = [match.groups() for match in map(LAYER.match, part.splitlines()) if match]
        lines = [f"`{names}`{': ' if about else ''}{about}" for names, about in found]
        room = ROOM.match(part)
        rows.append({f"part{number}": Box(title=room[1] if room else "", lines=tuple(lines), kind="box")})
    downwards = [
        Arrow(start=f"part{number}", end=f"part{number + 1}", text="imports") for number in range(len(rows) - 1)
    ]
    return Picture(about="Which packages import which", rows=tuple(rows), arrows=tuple(downwards))


def pictures() -> dict[str, Picture]:
    """All pictures by the names of their files."""
    found = {
        path.stem: Picture.model_validate(yaml.safe_load(path.read_text())) for path in sorted(HERE.glob("*.yaml"))
    }
    return {**found, "layers": layers(LAYERS_PAGE.read_text())}


if __name__ == "__main__":
    for name, picture in pictures().items():
        (HERE / f"{name}.svg").write_text(svg(picture))
