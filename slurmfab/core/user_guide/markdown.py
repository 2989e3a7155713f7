"""Markdown: templates become Markdown, with one filter for what people type and one for texts of others, and HTML."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from slurmfab.base.markup import Markup

if TYPE_CHECKING:
    from markdown_it.token import Token

WIDTH = 100  # characters of a line of a paragraph, for people who read Markdown in a terminal

_TEMPLATES = Path(__file__).parents[2] / "templates/guide"
_URL = re.compile(r"(https?://[^\s<>]*[^\s<>.,;:)])")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-]|(?<=^\d)[.]|(?<=^\d\d)[.])")
_HEADING = re.compile(r"#+ ")
_ITEM = re.compile(r"(?:-|\d+\.) ")
_AS_THEY_ARE = ("|", "#")  # how lines begin that are no part of a paragraph: rows of tables, and headings


def fill(template: str, /, **values: Any) -> str:
    """Fill in a Markdown template of `templates/guide/`; texts of others go through its filters."""
    return wrapped(_environment().get_template(template).render(**values))


def code(text: str) -> str:
    """A text as code: with as many backquotes as it needs (CommonMark 0.31, 6.1).

    >>> code("cn[01-16]"), code("a`b")
    ('`cn[01-16]`', '``a`b``')
    """
    longest = max(map(len, re.findall("`+", text)), default=0)
    marks = "`" * (longest + 1)
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{room}{text}{room}{marks}"


def plain(text: str) -> str:
    """A text of others, in which nothing is markup but addresses of pages, which become links.

    >>> plain("*Help*: https://wiki.example.org/lab.")
    '\\\\*Help\\\\*: <https://wiki.example.org/lab>.'
    """
    parts = _URL.split(text)
    return "".join(f"<{part}>" if at % 2 else _SPECIAL.sub(r"\\\1", part) for at, part in enumerate(parts))


def wrapped(text: str) -> str:
    """Markdown with its paragraphs wrapped, and never more than one empty line."""
    return "".join(f"{block}\n\n" for block in map(_block, _blocks(text)) if block).rstrip("\n") + "\n"


def _blocks(text: str) -> Iterator[str]:
    """Yield the parts of Markdown that empty lines divide; headings and fenced blocks are parts, too."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        if is_code or (line.strip() and not _HEADING.match(line)):
            lines.append(line.rstrip())
        else:
            yield from ("\n".join(lines), line.rstrip())
            lines = []
    yield "\n".join(lines)


def _block(block: str) -> str:
    """A part of Markdown with its paragraphs and the items of its lists wrapped."""
    if block.startswith("```"):
        return block
    texts: list[str] = []
    for line in block.splitlines():
        is_new = not texts or _ITEM.match(line) or line.startswith(_AS_THEY_ARE) or texts[-1].startswith(_AS_THEY_ARE)
        if is_new:
            texts.append(line)
        else:
            texts[-1] += f" {line.strip()}"
    return "\n".join(map(_paragraph, texts))


def _paragraph(text: str) -> str:
    if text.startswith(_AS_THEY_ARE):
        return text
    item = _ITEM.match(text)
    indent = " " * len(item[0]) if item else ""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def html(text: str) -> tuple[Markup, list[tuple[str, str]]]:
    """Markdown as HTML, in which HTML is text, and the id and text of each heading of the second level."""
    from markdown_it import MarkdownIt  # 30 ms that clusters without a guide need not pay

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    headings = list(_with_ids(tokens))
    rendered: str = parser.renderer.render(tokens, parser.options, {})
    rendered = rendered.replace("<table>", '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>')
    rendered = re.sub(r' style="text-align:right"', ' class="number"', rendered)
    # Everything in it comes from a parser that escapes text.
    return Markup(rendered.replace("</table>", "</table></div>")), headings


def _with_ids(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Give each heading an id made of its words; yield those of the second level with their texts."""
    for opening, inside in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        words = "".join(child.content for child in inside.children or ())
        name = "-".join(re.findall("[a-z0-9]+", words.lower()))
        opening.attrSet("id", name)
        if opening.tag == "h2":
            yield name, words


@cache
def _environment() -> Environment:
    """The Jinja2 environment for Markdown: nothing is escaped by itself, and undefined names are errors."""
    environment = Environment(  # noqa: S701 - what comes of it is text, which `html` escapes
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(code=code, plain=plain)
    return environment
