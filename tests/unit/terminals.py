"""Terminals for tests: streams that say they are one, and what people see on them."""

from __future__ import annotations

import io
import re


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown_on(out: io.StringIO) -> list[str]:
    """The lines of a terminal: a carriage return begins a line anew; colours count as nothing."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", out.getvalue())
    return [line.rsplit("\r", 1)[-1] for line in text.split("\n")]
