"""The results of checks, one per check and host, and their summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from slurmfab.base.answers import STRICT_BUT_OPEN, Phrase, Text
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, NOT_ALL_CHECKED
from slurmfab.base.grouping import grouped
from slurmfab.base.json_output import Key, shows
from slurmfab.base.junit import Case

Outcome = Literal["passed", "failed", "not run"]
PASSED: Outcome = "passed"
FAILED: Outcome = "failed"
NOT_RUN: Outcome = "not run"

REPAIR = " Repair: "  # separates cause and repair in the message of a failed check


@shows(
    "group", "check", "title", "host", "outcome", "cause", "repair", "drift", "because", "own", Key("seconds", digits=3)
)  # fmt: skip
@dataclass(frozen=True)
class Result:
    """The result of a check on a host."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN  # files of earlier runs are read with this class

    group: Phrase  # the group of checks, such as `munge`; stable
    check: Phrase  # the check's name, such as `key_is_the_controllers`; stable
    title: Phrase  # a sentence for people, which may be reworded
    host: Phrase  # the host that was checked
    outcome: Outcome  # `passed`, `failed` or `not run`
    cause: Text = ""  # why it failed or was not run, for people; if it passed, a remark or empty
    repair: Text = ""  # what to do, for people; empty unless it failed
    seconds: Annotated[float, Field(ge=0)] = 0.0  # how long it took
    is_unreachable: bool = False  # whether it failed because a host is unreachable by SSH
    drift: Phrase = ""  # the kind of drift that it found such as `changed file`; empty if it is none
    because: Phrase = ""  # the failure from which this one follows, such as `daemons.munged_runs on n1`; empty for none
    own: bool = False  # whether the check is the site's own
    sign: Phrase = ""  # what a failed check saw, a word of `resting`; empty for most


@shows(
    "version", "cluster", Key("exit_code", text="of the task"), "passed", "failed", "not_run",
    Key("seconds", digits=3), Key("checks", "results"),
)  # fmt: skip
@dataclass(frozen=True)
class Verdict:
    """The results of `fab check-cluster`."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    # the results, in the order of the checks, and for each check in the order of the cluster's hosts
    results: tuple[Result, ...]
    seconds: float  # how long it took

    @property
    def passed(self) -> int:
        """How many checks passed; a check on three hosts counts as three."""
        return len(self.having(PASSED))

    @property
    def failed(self) -> int:
        """How many failed."""
        return len(self.having(FAILED))

    @property
    def not_run(self) -> int:
        """How many were not run."""
        return len(self.having(NOT_RUN))

    def having(self, outcome: Outcome) -> tuple[Result, ...]:
        """The results with this outcome."""
        return tuple(result for result in self.results if result.outcome == outcome)

    @property
    def exit_code(self) -> int:
        """0 if all passed, 1 if one failed, 3 if only because hosts are unreachable, 5 if only some were not run."""
        failed = self.having(FAILED)
        if not failed:
            return NOT_ALL_CHECKED if self.having(NOT_RUN) else DONE
        return LEFT_OUT if all(result.is_unreachable for result in failed) else FAILURE

    @property
    def headline(self) -> str:
        """Such as `38 checks passed, 1 failed, 2 not run in 6.1 s`; a check on three hosts counts as three."""
        parts = [f"{self.passed} check{'' if self.passed == 1 else 's'} passed"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.not_run} not run"] if self.not_run else []
        return f"{', '.join(parts)} in {self.seconds:.1f} s"


def as_case(test: str, result: Result) -> Case:
    """A result as a test case of JUnit. `test`: file and test, as in `own/test_motd.py::test_motd[n1]`."""
    file, _, name = test.partition("::")
    case = Case(file.removesuffix(".py").replace("/", "."), name, result.seconds)
    if result.outcome != FAILED:
        return case._replace(skipped=result.cause if result.outcome == NOT_RUN else "")
    repair = f" Repair: {result.repair}" if result.repair else ""
    because = f" Because of: {result.because}" if result.because else ""
    return case._replace(failure=f"{result.host}: {result.cause}{repair}{because}")


def cause_and_repair(message: str) -> tuple[str, str]:
    """The cause and the repair in the message of a failed check; the repair is empty if there is none.

    >>> cause_and_repair("munged is dead. Repair: fab deploy --hosts n2")
    ('munged is dead.', 'fab deploy --hosts n2')
    """
    # If pytest rewrites assertions, it appends the compared values, which the cause already names.
    text = message.split("\nassert ", 1)[0].strip()
    cause, _, repair = text.partition(REPAIR)
    return cause, repair


def by_check(results: Iterable[Result]) -> dict[tuple[str, str], list[Result]]:
    """The results of each check, by group and name of the check, in order."""
    return grouped(((result.group, result.check), result) for result in results)
