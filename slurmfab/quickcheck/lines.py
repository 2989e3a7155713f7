"""What quickcheck tells: one line for each thing that it tried, and a last one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slurmfab.checks.results import DONE, FAILED, FAILURE, LEFT_OUT, NOT_RUN, PASSED, Outcome

WIDTH = 11
"""Columns for the name of what was tried: the longest is `environment`."""


@dataclass(frozen=True)
class Line:
    """What became of one thing that was tried.

    Args:
        check: what was tried, such as `allocation`.
        host: on which node or nodes, as a hostlist; empty where there was none for it.
        outcome: `passed`, `failed` or `not run`.
        words: what was seen, what is wrong and why, or why it was not run.
        repair: what to do where it failed.
        seconds: how long it took.
    """

    check: str
    host: str
    outcome: Outcome
    words: str
    repair: str = ""
    seconds: float = 0.0

    def text(self) -> Iterator[str]:
        """The line for people, and the repair below it."""
        place = f"{self.host}: " if self.host else ""
        outcome = "FAILED" if self.outcome == FAILED else self.outcome
        yield f"{outcome:<7}  {self.check:<{WIDTH}}  {self.seconds:4.1f} s  {place}{self.words}"
        if self.repair:
            yield f"{'':<{7 + 2 + WIDTH + 2}}repair: {self.repair}"


@dataclass(frozen=True)
class Summary:
    """All lines of a quickcheck.

    Args:
        cluster: the cluster's name.
        user: whose jobs they were.
        sender: the host that sent them.
        lines: in the order in which they were tried.
        seconds: how long everything took, connections included.
    """

    cluster: str
    user: str
    sender: str
    lines: tuple[Line, ...]
    seconds: float

    def count(self, outcome: Outcome) -> int:
        """How many lines have this outcome."""
        return sum(line.outcome == outcome for line in self.lines)

    @property
    def exit_code(self) -> int:
        """1 where something failed, 3 where no job could be tried, 0 otherwise."""
        if self.count(FAILED):
            return FAILURE
        return DONE if self.count(PASSED) else LEFT_OUT

    @property
    def headline(self) -> str:
        """The last line, as in `titanic: 4 passed, 1 not run in 6.1 s, with jobs of ann from login01`."""
        counts = ((outcome, self.count(outcome)) for outcome in (PASSED, FAILED, NOT_RUN))
        words = ", ".join(f"{number} {outcome}" for outcome, number in counts if number)
        return f"{self.cluster}: {words} in {self.seconds:.1f} s, with jobs of {self.user} from {self.sender}."

    def as_json(self) -> dict[str, Any]:
        """The lines as JSON values; docs/quickcheck.md documents the shape."""
        return {
            "version": 1,
            "cluster": self.cluster,
            "user": self.user,
            "sender": self.sender,
            "exit_code": self.exit_code,
            "passed": self.count(PASSED),
            "failed": self.count(FAILED),
            "not_run": self.count(NOT_RUN),
            "seconds": round(self.seconds, 3),
            "checks": [
                {
                    "check": line.check,
                    "host": line.host,
                    "outcome": line.outcome,
                    "words": line.words,
                    "repair": line.repair,
                    "seconds": round(line.seconds, 3),
                }
                for line in self.lines
            ],
        }
