"""What is wrong in a submit script: one finding for each thing, with its line and what to write instead."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

ERROR, WARNING, HINT = "error", "warning", "hint"
"""Severities: a job that is refused, fails, waits for ever or gets other resources; a likely mistake; advice."""

LONGEST = 200  # the most characters of a text from a script


class Finding(NamedTuple):
    """Something in a submit script."""

    line: int  # its number; 0 if it is about the whole script
    severity: str  # ERROR, WARNING or HINT
    rule: str  # a name for programs
    text: str  # what is wrong
    instead: str = ""  # what to write; empty if that is for the user to decide

    @property
    def data(self) -> Dict[str, Any]:
        """For JSON."""
        return {name: clean(value) if isinstance(value, str) else value for name, value in self._asdict().items()}


def error(line: int, rule: str, text: str, instead: str = "") -> Finding:
    """A finding with which the job is refused, fails, waits for ever or gets other resources."""
    return Finding(line, ERROR, rule, text, instead)


def warning(line: int, rule: str, text: str, instead: str = "") -> Finding:
    """A finding that is probably a mistake."""
    return Finding(line, WARNING, rule, text, instead)


def hint(line: int, rule: str, text: str, instead: str = "") -> Finding:
    """A finding that is no mistake."""
    return Finding(line, HINT, rule, text, instead)


def clean(text: str, longest: int = LONGEST) -> str:
    """A text of others as one line that does nothing to a terminal.

    >>> clean("a\\x1b[31mb\\tc")
    'a\\\\x1b[31mb\\\\tc'
    """
    safe = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return safe if len(safe) <= longest else safe[: longest - 3] + "..."
