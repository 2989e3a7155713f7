"""Markdown of texts that were written for terminals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

WRITTEN = "This page is written from the code by `make reference`."

_SPECIAL = re.compile(r"[\\`*<>]|(?<!\w)_|_(?!\w)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def plain(text: str) -> str:
    """A text without meaning for Markdown; options are code, as their two hyphens would become a dash.

    >>> plain("--only for *.j2 files of all_reduce_perf")
    '`--only` for \\\\*.j2 files of all_reduce_perf'
    """
    return _FLAG.sub(r"`\g<0>`", _SPECIAL.sub(r"\\\g<0>", text))


def marked(text: str) -> str:
    """A text in which backticks mark code, and nothing else means anything."""
    return "`".join(part if place % 2 else plain(part) for place, part in enumerate(text.split("`")))


def code(text: str) -> str:
    """A text as code, within backticks."""
    return f"`{text}`"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; a line break within a cell becomes a space."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in row)} |"


def anchor(heading: str) -> str:
    """The fragment by which a heading is linked, as GitHub and MyST make it.

    >>> anchor("First contact: deployment")
    'first-contact-deployment'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def indented(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as a block of code."""
    for line in lines:
        yield f"    {line}".rstrip()


def text_of(lines: Iterable[str]) -> str:
    """The lines as a file, without two empty lines in a row."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
