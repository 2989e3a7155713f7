"""Differences between the actual and the wanted state, as text that is safe to print on a terminal."""

from __future__ import annotations

from typing import Any

DIFF_LINES = 200  # the maximum number of lines of a unified diff in a report


def difference(before: str, after: str) -> str:
    """A unified diff of two texts, limited to `DIFF_LINES` lines."""
    import difflib  # slow to import, and most requests find no difference

    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "actual", "wanted", lineterm="", n=2))
    if not lines:
        return "only the line ends differ"
    if len(lines) > DIFF_LINES:
        lines = [*lines[:DIFF_LINES], "... and %d more lines" % (len(lines) - DIFF_LINES)]
    return "\n".join(lines)


DIGEST_DIGITS = 32  # hexadecimal digits of a digest: half of SHA-256, more than enough to distinguish two values


def digests(before: Any, after: Any, key: str) -> str:
    """HMAC of both values by a saved plan's own key, or empty: plans cannot be compared, nor secrets guessed."""
    if not key:
        return ""
    import hashlib  # slow to import, and needed only for a saved plan
    import hmac

    values = ("" if side is None else str(side) for side in (before, after))
    data = (value.encode("utf-8", "surrogateescape") for value in values)
    return "/".join(hmac.new(key.encode(), one, hashlib.sha256).hexdigest()[:DIGEST_DIGITS] for one in data)


UNPRINTABLE = {number: "\\x%02x" % number for number in (*range(9), *range(11, 32), 127)}
"""Control characters except tab and newline, because a host's file must not control the operator's terminal."""


def text(value: Any) -> str:
    """A value of a state as reports show it: lists with commas, empty for `None`, control characters as `\\xNN`."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        value = ",".join(str(item) for item in value)
    return str(value).encode("utf-8", "backslashreplace").decode().translate(UNPRINTABLE)


def one_line(text: str) -> str:
    """A text with line breaks and the like written out.

    >>> one_line("two\\nlines")
    'two\\\\nlines'
    """
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
