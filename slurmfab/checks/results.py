"""What checks found: one result per check and host, and the verdict on the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["passed", "failed", "not run"]
PASSED: Outcome = "passed"
FAILED: Outcome = "failed"
NOT_RUN: Outcome = "not run"

DONE, FAILURE, LEFT_OUT = 0, 1, 3
"""Exit codes: all is well; a check failed; nothing failed but that hosts could not be reached."""

REPAIR = " Repair: "
"""What stands between cause and repair in the message of a failed check."""


@dataclass(frozen=True)
class Result:
    """What one check found on one host.

    Args:
        group: the checks of one kind, such as `munge`.
        check: its name, such as `key_is_the_controllers`.
        title: the same as a sentence.
        host: the host that it is about.
        outcome: `passed`, `failed` or `not run`.
        cause: what is wrong and why, or why it was not run.
        repair: what to do about it.
        seconds: how long it took on this host.
        is_unreachable: whether it failed for want of an SSH connection.
        drift: the kind of drift that it has found; empty for none.
    """

    group: str
    check: str
    title: str
    host: str
    outcome: Outcome
    cause: str = ""
    repair: str = ""
    seconds: float = 0.0
    is_unreachable: bool = False
    drift: str = ""


@dataclass(frozen=True)
class Verdict:
    """What all checks found.

    Args:
        cluster: the cluster's name.
        results: in the order of the checks, hosts in the cluster's order.
        seconds: how long everything took, connections included.
    """

    cluster: str
    results: tuple[Result, ...]
    seconds: float

    def having(self, outcome: Outcome) -> tuple[Result, ...]:
        """The results with this outcome."""
        return tuple(result for result in self.results if result.outcome == outcome)

    @property
    def exit_code(self) -> int:
        """0 when nothing failed, 3 when hosts could not be reached and all else is well, 1 otherwise."""
        failed = self.having(FAILED)
        if not failed:
            return DONE
        return LEFT_OUT if all(result.is_unreachable for result in failed) else FAILURE

    @property
    def headline(self) -> str:
        """`38 checks passed, 1 failed, 2 not run in 6.1 s`; a check on three hosts counts as three."""
        passed, failed, left = (len(self.having(outcome)) for outcome in (PASSED, FAILED, NOT_RUN))
        words = [f"{passed} check{'' if passed == 1 else 's'} passed"]
        words += [f"{failed} failed"] if failed else []
        words += [f"{left} not run"] if left else []
        return f"{', '.join(words)} in {self.seconds:.1f} s"

    def as_json(self) -> dict[str, Any]:
        """The verdict as JSON values; docs/checks.md documents the shape."""
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
                    "seconds": round(result.seconds, 3),
                }
                for result in self.results
            ],
        }


def cause_and_repair(message: str) -> tuple[str, str]:
    """The two halves of a failed check's message.

    >>> cause_and_repair("munged is dead. Repair: fab deploy --hosts n2")
    ('munged is dead.', 'fab deploy --hosts n2')
    """
    # Where pytest rewrites asserts, it adds what was compared; people have the cause already.
    text = message.split("\nassert ", 1)[0].strip()
    cause, _, repair = text.partition(REPAIR)
    return cause, repair


def by_check(results: Iterable[Result]) -> dict[tuple[str, str], list[Result]]:
    """The results of each check, in order."""
    checks: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        checks.setdefault((result.group, result.check), []).append(result)
    return checks
