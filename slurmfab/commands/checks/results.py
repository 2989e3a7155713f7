"""The results of checks, one per check and host, and their summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict

from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, NOT_ALL_CHECKED
from slurmfab.base.junit import Case

Outcome = Literal["passed", "failed", "not run"]
PASSED: Outcome = "passed"
FAILED: Outcome = "failed"
NOT_RUN: Outcome = "not run"

REPAIR = " Repair: "
"""Separates cause and repair in the message of a failed check."""


class ResultJson(TypedDict):
    """The result of a check on a host.

    Args:
        group: the group of checks, such as `munge`; stable.
        check: the check's name, such as `key_is_the_controllers`; stable.
        title: a sentence for people, which may be reworded.
        host: the host that was checked.
        outcome: `passed`, `failed` or `not run`.
        cause: why it failed or was not run, for people; if it passed, a remark or empty.
        repair: what to do, for people; empty unless it failed.
        drift: the kind of drift, such as `changed file`; empty if it is none.
        because: the failure from which this one follows, such as `daemons.munged_runs on n1`; empty for none.
        own: whether the check is the site's own.
        seconds: how long it took.
    """

    group: str
    check: str
    title: str
    host: str
    outcome: Outcome
    cause: str
    repair: str
    drift: str
    because: str
    own: bool
    seconds: float


class ChecksJson(TypedDict):
    """The results of `fab check-cluster`.

    Args:
        version: of this format: 1.
        cluster: the cluster's name.
        exit_code: of the task.
        passed: how many checks passed; a check on three hosts counts as three.
        failed: how many failed.
        not_run: how many were not run.
        seconds: how long it took.
        checks: the results.
    """

    version: int
    cluster: str
    exit_code: int
    passed: int
    failed: int
    not_run: int
    seconds: float
    checks: list[ResultJson]


@dataclass(frozen=True)
class Result:
    """The result of one check on one host."""

    group: str  # the group of checks, such as `munge`
    check: str  # the check's name, such as `key_is_the_controllers`
    title: str
    host: str  # the name of the host that the check tested
    outcome: Outcome  # `passed`, `failed` or `not run`
    cause: str = ""  # why it failed or was not run; a remark if it passed, mostly empty
    repair: str = ""  # how to repair the problem; empty if unknown
    seconds: float = 0.0  # duration on this host
    is_unreachable: bool = False  # whether it failed because a host is unreachable by SSH
    drift: str = ""  # the kind of drift that it found (`slurmfab.core.impact.drift_kinds`); empty for none
    because: str = ""  # the failure from which this one follows, as `group.check on host`; empty for none
    own: bool = False  # whether the check is the site's own


@dataclass(frozen=True)
class Verdict:
    """The results of all checks."""

    cluster: str
    results: tuple[Result, ...]  # in the order of the checks, and for each check in the order of the cluster's hosts
    seconds: float

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
        passed, failed, left = (len(self.having(outcome)) for outcome in (PASSED, FAILED, NOT_RUN))
        parts = [f"{passed} check{'' if passed == 1 else 's'} passed"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{left} not run"] if left else []
        return f"{', '.join(parts)} in {self.seconds:.1f} s"

    def as_json(self) -> ChecksJson:
        """The results as JSON values."""
        return {
            "version": 1,
            "cluster": self.cluster,
            "exit_code": self.exit_code,
            "passed": len(self.having(PASSED)),
            "failed": len(self.having(FAILED)),
            "not_run": len(self.having(NOT_RUN)),
            "seconds": round(self.seconds, 3),
            "checks": [
                {
                    "group": result.group,
                    "check": result.check,
                    "title": result.title,
                    "host": result.host,
                    "outcome": result.outcome,
                    "cause": result.cause,
                    "repair": result.repair,
                    "drift": result.drift,
                    "because": result.because,
                    "own": result.own,
                    "seconds": round(result.seconds, 3),
                }
                for result in self.results
            ],
        }


def as_case(test: str, result: Result) -> Case:
    """A result as a test case of JUnit.

    Args:
        test: file and test, as in `own/test_motd.py::test_motd[n1]`.
    """
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
    checks: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        checks.setdefault((result.group, result.check), []).append(result)
    return checks
