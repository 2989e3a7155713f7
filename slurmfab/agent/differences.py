"""Differences between two sides of a state, in a text that people can read and terminals can bear."""

from __future__ import annotations

from typing import Any

DIFF_LINES = 200
"""How much of a difference a report carries: enough to judge it, little enough to read it."""


def difference(before: str, after: str) -> str:
    """A unified diff of two texts of several lines, cut where it gets too long."""
    import difflib  # noqa: PLC0415 - most requests find no difference

    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "actual", "wanted", lineterm="", n=2))
    if not lines:
        return "only the line ends differ"
    if len(lines) > DIFF_LINES:
        lines = [*lines[:DIFF_LINES], "... and %d lines more" % (len(lines) - DIFF_LINES)]
    return "\n".join(lines)


DIGITS = 32
"""Hexadecimal digits of a digest: half of SHA-256, which is more than enough to tell two values apart."""


def digests(before: Any, after: Any, key: str) -> str:
    """Keyed digests of both sides with a slash between them; nothing without a key.

    Args:
        before: the actual value.
        after: the wanted value.
        key: random, and of one saved plan alone: so no two plans can be compared by their digests, and a digest tells
            nothing of a secret that cannot be guessed.
    """
    if not key:
        return ""
    import hashlib  # noqa: PLC0415 - only for a saved plan
    import hmac  # noqa: PLC0415

    values = ("" if side is None else str(side) for side in (before, after))
    data = (value.encode("utf-8", "surrogateescape") for value in values)
    return "/".join(hmac.new(key.encode(), one, hashlib.sha256).hexdigest()[:DIGITS] for one in data)


UNPRINTABLE = {number: "\\x%02x" % number for number in (*range(9), *range(11, 32), 127)}
"""Control characters but tab and newline: a host's file must not steer the terminal that shows the difference."""


def text(value: Any) -> str:
    """A state's value as reports show it: modes in octal by their callers, lists with commas, nothing for `None`."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        value = ",".join(str(item) for item in value)
    return str(value).encode("utf-8", "backslashreplace").decode().translate(UNPRINTABLE)
