"""The output of quickcheck: a line for each check, and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.base.json_output import Key, shows
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Outcome

NAME_WIDTH = 11  # columns for the name of a check: the longest is `environment`


@shows("check", "host", "outcome", "words", "repair", Key("seconds", digits=3))
@dataclass(frozen=True)
class Line:
    """The result of a test."""

    check: str  # its name, such as `allocation`; stable
    host: str  # the node or nodes, as a hostlist; empty if there was none for it
    outcome: Outcome  # `passed`, `failed` or `not run`
    words: str  # what was measured, what failed and why, or why it was not run; for people
    repair: str = ""  # what to do if it failed, for people; empty otherwise
    seconds: float = 0.0  # how long it took

    def text(self) -> Iterator[str]:
        """The line for people, and a line with the repair if there is one."""
        place = f"{self.host}: " if self.host else ""
        outcome = "FAILED" if self.outcome == FAILED else self.outcome
        yield f"{outcome:<7}  {self.check:<{NAME_WIDTH}}  {self.seconds:4.1f} s  {place}{self.words}"
        if self.repair:
            yield f"{'':<{7 + 2 + NAME_WIDTH + 2}}repair: {self.repair}"


@shows(
    "version", "cluster", "user", "sender", Key("exit_code", text="of the task"), "passed", "failed", "not_run",
    Key("seconds", digits=3), Key("checks", "lines"),
)  # fmt: skip
@dataclass(frozen=True)
class Summary:
    """The results of `fab quickcheck`."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    user: str  # the user who ran the jobs
    sender: str  # the host from which they were submitted
    lines: tuple[Line, ...]  # the tests, in their order
    seconds: float  # how long it took

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return self.count(PASSED)

    @property
    def failed(self) -> int:
        """How many failed."""
        return self.count(FAILED)

    @property
    def not_run(self) -> int:
        """How many were not run."""
        return self.count(NOT_RUN)

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
