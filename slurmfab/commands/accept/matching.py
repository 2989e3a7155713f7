"""Finds the figures in the output of jobs, which any user's program may have written.

Each line is looked at by itself, and only its beginning; a number of other characters than digits is none. A regular
expression may take a very long time on a text that was made for that, so this is done in another process, which has a
time limit.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys

from slurmfab.commands.checks.user_jobs import MOST_OUTPUT

LONGEST_LINE = 4096
"""Characters of a line that are looked at."""

SECONDS = 10.0
"""Time limit for one pattern."""

SEARCH = """
import json, re, sys
pattern, longest, text = json.load(sys.stdin)
pattern, found = re.compile(pattern), None
for line in text.split("\\n"):
    match = pattern.search(line[:longest].rstrip("\\r"))
    if match and match[1] is not None:
        found = match[1]
json.dump(found, sys.stdout)
"""
"""The program of the other process: the group of the last line that matches."""

_FIGURE = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?|[+-]?\.[0-9]{1,30}")


class NoFigure(Exception):
    """The output has no such figure; the text says why."""


def figure_in(output: str, pattern: str) -> float:
    """The figure in the last line of an output that matches a pattern.

    Args:
        output: of a job; only its end is looked at.
        pattern: regular expression with one group.

    Raises:
        NoFigure: no line matches, or what matches is not a number, or the pattern takes too long.
    """
    question = json.dumps([pattern, LONGEST_LINE, output[-MOST_OUTPUT:]])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SEARCH],
            input=question.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise NoFigure(f"looking for the pattern takes more than {SECONDS:.0f} s") from None
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoFigure(f"the pattern could not be looked for: {error}") from None
    found: str | None = json.loads(done.stdout)
    if found is None:
        raise NoFigure("no line of the output matches the pattern")
    text = found.strip()
    value = float(text) if _FIGURE.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise NoFigure(f"{text[:40]!a} is not a number")
    return value
