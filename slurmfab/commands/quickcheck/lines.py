"""The output of quickcheck: a line for each check, and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Outcome

NAME_WIDTH = 11
"""Columns for the name of a check: the longest is `environment`."""


class LineJson(TypedDict):
    """The result of a test.

    Args:
        check: its name, such as `allocation`; stable.
        host: the node or nodes, as a hostlist; empty if there was none for it.
        outcome: `passed`, `failed` or `not run`.
        words: what was measured, what failed and why, or why it was not run; for people.
        repair: what to do if it failed, for people; empty otherwise.
        seconds: how long it took.
    """

    check: str
    host: str
    outcome: Outcome
    words: str
    repair: str
    seconds: float


class QuickcheckJson(TypedDict):
    """The results of `fab quickcheck`.

    Args:
        version: of this format: 1.
        cluster: the cluster's name.
        user: the user who ran the jobs.
        sender: the host from which they were submitted.
        exit_code: of the task.
        passed: how many tests passed.
        failed: how many failed.
        not_run: how many were not run.
        seconds: how long it took.
        checks: the tests.
    """

    version: int
    cluster: str
    user: str
    sender: str
    exit_code: int
    passed: int
    failed: int
    not_run: int
    seconds: float
    checks: list[LineJson]


@dataclass(frozen=True)
class Line:
    """The result of one check."""

    check: str  # its name, such as `allocation`
    host: str  # the node or nodes, as a hostlist; empty if there was none for it
    outcome: Outcome  # `passed`, `failed` or `not run`
    words: str  # what was measured, what failed and why, or why it was not run
    repair: str = ""  # what to do if it failed; empty otherwise
    seconds: float = 0.0

    def text(self) -> Iterator[str]:
        """The line for people, and a line with the repair if there is one."""
        place = f"{self.host}: " if self.host else ""
        outcome = "FAILED" if self.outcome == FAILED else self.outcome
        yield f"{outcome:<7}  {self.check:<{NAME_WIDTH}}  {self.seconds:4.1f} s  {place}{self.words}"
        if self.repair:
            yield f"{'':<{7 + 2 + NAME_WIDTH + 2}}repair: {self.repair}"


@dataclass(frozen=True)
class Summary:
    """The results of a quickcheck."""

    cluster: str
    user: str  # the user who submitted the jobs
    sender: str  # the host from which they were submitted
    lines: tuple[Line, ...]  # the results, in the order of the checks
    seconds: float

    def count(self, outcome: Outcome) -> int:
        """The number of checks with this outcome."""
        return sum(line.outcome == outcome for line in self.lines)

    @property
    def exit_code(self) -> int:
        """1 if a check failed, 3 if no check could be run, 0 otherwise."""
        if self.count(FAILED):
            return FAILURE
        return DONE if self.count(PASSED) else LEFT_OUT

    @property
    def headline(self) -> str:
        """The summary, as in `titanic: 4 passed, 1 not run in 6.1 s, with jobs of ann from login01`."""
        counts = ((outcome, self.count(outcome)) for outcome in (PASSED, FAILED, NOT_RUN))
        counted = ", ".join(f"{number} {outcome}" for outcome, number in counts if number)
        return f"{self.cluster}: {counted} in {self.seconds:.1f} s, with jobs of {self.user} from {self.sender}."

    def as_json(self) -> QuickcheckJson:
        """The results as JSON values."""
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
