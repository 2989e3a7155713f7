"""Terminals for tests: streams that say they are one, and what people see on them."""

from __future__ import annotations

import io
import re

import pytest


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, typed: str, *, is_one: bool = True) -> io.StringIO:
    """Somebody at a terminal who types this, or input and output that are none; returns what is shown."""
    kind = Terminal if is_one else io.StringIO
    shown = kind()
    monkeypatch.setattr("sys.stdin", kind(typed))
    monkeypatch.setattr("sys.stderr", shown)
    return shown


def shown_on(out: io.StringIO) -> list[str]:
    """The lines of a terminal: a carriage return begins a line anew; colours count as nothing."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", out.getvalue())
    return [line.rsplit("\r", 1)[-1] for line in text.split("\n")]


def words_on(out: io.StringIO) -> str:
    """What is shown, without its line breaks."""
    return " ".join(out.getvalue().split())
