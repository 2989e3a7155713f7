"""A text with its lines joined, so that a secret that a line break has split is found, and the way back to its places.

What logs and diffs put before each line (time, host, program) is left out of the joined text. A line break may also be
written as `\\n`, as in JSON.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

_BREAK = re.compile(r"\r?\n|(?:\\r)?\\n")
_BEFORE = re.compile(
    r"[ \t]{0,64}"
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]{0,12}\]?[ \t]{1,8}"
    r"|(?:[A-Z][a-z]{2} {1,2}\d{1,2} )\d\d:\d\d:\d\d[ \t]{1,8})?"
    r"(?:[\w.-]{1,64}[ \t]{1,8}[\w./@-]{1,64}(?:\[\d{1,9}\])?:[ \t]{1,8})?"
    r"(?:\[\d{1,9}(?:\.\w{1,16})?\] )?(?:(?:fatal|error|info|verbose|debug\d?): )?"
    r"[ \t>|\"']{0,64}"
)
"""What is before the text of a line: white space, a time, `host program[pid]:`, or marks of a quotation."""

_AFTER = " \t\\\"'\ufffd"  # what may be between the text of a line and its end; a carriage return was replaced before


class JoinedText:
    """A text whose lines are `joined` directly; `is_split` if it had more than one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._joined_at: list[int] = []
        self._text_at: list[int] = []
        parts, size, begin = [], 0, 0
        for end, following in self._lines():
            first = begin
            if begin:
                before = _BEFORE.match(text, begin, end)
                first = before.end() if before else begin
            part = text[first:end].rstrip(_AFTER)
            self._joined_at.append(size)
            self._text_at.append(first)
            parts.append(part)
            size += len(part)
            begin = following
        self.joined = "".join(parts)
        self.is_split = len(parts) > 1

    def _lines(self) -> Iterator[tuple[int, int]]:
        """Yield the end of each line, and the beginning of the next one."""
        for found in _BREAK.finditer(self.text):
            yield found.span()
        yield len(self.text), len(self.text)

    def places(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the places in the text, one in each line, of a part of the joined text."""
        line = bisect_right(self._joined_at, first) - 1
        while first < end:
            next_line = self._joined_at[line + 1] if line + 1 < len(self._joined_at) else len(self.joined)
            size = min(end, next_line) - first
            if size > 0:
                begin = self._text_at[line] + first - self._joined_at[line]
                yield begin, begin + size
                first += size
            line += 1

    @cached_property
    def line_begins(self) -> list[int]:
        """Where the lines of the text begin that line breaks end, in order."""
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def line(self, place: int) -> tuple[int, int]:
        """Where the line begins and ends that has a place of the text."""
        number = bisect_right(self.line_begins, place)
        end = self.line_begins[number] - 1 if number < len(self.line_begins) else len(self.text)
        return self.line_begins[number - 1], end
