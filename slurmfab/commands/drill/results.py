"""The results of drills: lines for people, JSON, JUnit XML, and steps in records, which are their history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple

from slurmfab.base import junit
from slurmfab.base.exit_codes import DONE, FAILURE, NOT_ALL_CHECKED
from slurmfab.base.json_output import Key, shows
from slurmfab.base.junit import Case
from slurmfab.base.terminal import in_one_line
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.drill.drills import Drill
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Step
from slurmfab.core.plan.alert_rules import rules
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Change, Outcome

COMMAND = "drill"  # the command, and the phase, under which records have drills
PASSED: Literal["passed"] = "passed"
NOT_PASSED: Literal["failed"] = "failed"
NOT_RUN: Literal["not run"] = "not run"
NOTICED, OUT, BACK, LASTED = "noticed", "out of service", "back", "lasted"  # the times, as records name them
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
TIME = re.compile(r"[\d.]{1,12} s")
LONGEST_WORDS = 500


@dataclass(frozen=True)
class Alert:
    """An alert rule about a fault."""

    name: str  # of the rule
    after: int  # seconds that the fault has to last for it (`for`)
    fires: bool  # whether the fault lasted as long


@shows(
    "drill", "host", "outcome", Key("noticed", digits=3), Key("out", digits=3), Key("back", digits=3),
    Key("lasted", digits=3), "sign", "cause", "repair", "alerts", Key("resumed", "is_resumed"),
)  # fmt: skip
@dataclass(frozen=True)
class Result:
    """The result of a drill; times are seconds, and null for what did not happen."""

    drill: str  # its name
    host: str  # the host of the fault; empty if none was fit for it
    outcome: Literal["passed", "failed", "not run"]  # `passed`, `failed` or `not run`
    noticed: float | None = None  # until Slurm showed a first sign of it, or a slurmctld was in charge again
    out: float | None = None  # until the node was drained or down; null for drills of controllers
    back: float | None = None  # from the end of the fault until nodes were in service again, and ran a job
    lasted: float = 0.0  # how long the fault lasted
    sign: str = ""  # the node's state and reason while it lasted
    cause: str = ""  # why it failed or was not run
    repair: str = ""  # what to try
    alerts: tuple[Alert, ...] = ()  # the alert rules about it; none without `monitoring`
    is_resumed: bool = False  # whether slurmfab resumed the node, which Slurm leaves down for long, or for good

    @property
    def line(self) -> str:
        """The result in a sentence or two."""
        where = f"{self.drill} on {self.host}" if self.host else self.drill
        times = [("noticed after", self.noticed), ("out of service after", self.out)]
        told = ", ".join(f"{word} {seconds:.1f} s" for word, seconds in times if seconds is not None)
        told += f": {self.sign}" if self.sign else ""
        told += f"; well again {self.back:.1f} s after its end" if self.back is not None else ""
        told += ", resumed by slurmfab" if self.is_resumed else ""
        words = {PASSED: told, NOT_PASSED: f"FAILED: {self.cause}", NOT_RUN: f"not run: {self.cause}"}
        ends = [f"Repair: {self.repair}"] if self.repair else []
        ends += [f"Alert: {alert_words(self.alerts)}"] if self.outcome != NOT_RUN else []
        parts = (f"{where}: {words[self.outcome]}", *ends)
        return in_one_line(" ".join(one if one.endswith("?") else f"{one.rstrip('.')}." for one in parts))


@shows("version", "cluster", "results", Key("seconds", digits=3), Key("exit_code", text="of the task"))
@dataclass(frozen=True)
class Verdict:
    """The results of `fab drill`."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    results: tuple[Result, ...]  # in the order of the command line
    seconds: float  # how long it took

    @property
    def exit_code(self) -> int:
        """0 if all passed, 1 if one failed, 5 if only some were not run."""
        outcomes = {one.outcome for one in self.results}
        return FAILURE if NOT_PASSED in outcomes else NOT_ALL_CHECKED if NOT_RUN in outcomes else DONE

    @property
    def headline(self) -> str:
        """Such as `titanic: 2 drills passed, 1 failed in 61.2 s.`."""
        counts = {word: sum(one.outcome == word for one in self.results) for word in (PASSED, NOT_PASSED, NOT_RUN)}
        told = [f"{count} drill{'' if count == 1 else 's'} {word}" for word, count in counts.items() if count]
        return f"{self.cluster}: {', '.join(told)} in {self.seconds:.1f} s."

    def as_junit(self) -> str:
        """The results as JUnit XML, for CI systems."""
        return junit.as_xml(f"drills of {self.cluster}", map(case, self.results), self.seconds)


def case(result: Result) -> Case:
    """A result as a test case."""
    repair = f" Repair: {result.repair}." if result.repair else ""
    words = f"{result.host}: {result.cause}.{repair}" if result.host else result.cause
    seconds = result.lasted + (result.back or 0)
    failure, skipped = (words if result.outcome == one else "" for one in (NOT_PASSED, NOT_RUN))
    return Case(f"drill.{result.drill}", result.host or result.drill, seconds, failure, skipped)


def alerts(cluster: Cluster, drill: Drill, lasted: float) -> tuple[Alert, ...]:
    """The alert rules about a fault that lasted so many seconds; empty without `monitoring`."""
    if cluster.monitoring is None:
        return ()
    known = {rule.alert: seconds_of(rule.lasting) for rule in rules(cluster)}
    return tuple(Alert(name, known[name], lasted >= known[name]) for name in drill.alerts if name in known)


def seconds_of(lasting: str) -> int:
    """The seconds of a rule's `for`.

    >>> seconds_of("10m")
    600
    """
    return int(lasting[:-1]) * UNITS[lasting[-1]]


def alert_words(found: Sequence[Alert]) -> str:
    """What would have fired, for people."""
    if not found:
        return "none, since the cluster file has no monitoring"
    return ", ".join(
        f"{one.name} {'would have fired' if one.fires else f'would fire after {span(one.after)}'}" for one in found
    )


def span(seconds: int) -> str:
    """Seconds in the largest unit that fits: `10 min`."""
    word = next(word for word in reversed(UNITS) if seconds >= UNITS[word])
    return f"{seconds // UNITS[word]} {'min' if word == 'm' else word}"


def as_step(result: Result) -> Step:
    """A result as a step of the run, for its record."""
    times = {NOTICED: result.noticed, OUT: result.out, BACK: result.back, LASTED: result.lasted or None}
    changes = tuple(Change(name, "", f"{value:.1f} s") for name, value in times.items() if value is not None)
    status = CHANGED if result.outcome == PASSED else FAILED
    outcome = Outcome(f"{COMMAND}:{result.drill}", status, changes, result.cause[:LONGEST_WORDS])
    return Step(COMMAND, result.host, (outcome,), result.lasted + (result.back or 0))


class Entry(NamedTuple):
    """A drill in the record of a run."""

    begun: datetime  # when the run began
    by: str  # who ran it
    drill: str
    host: str
    has_passed: bool
    times: dict[str, str]  # by `NOTICED`, `OUT`, `BACK` and `LASTED`
    cause: str


def entries(records: Iterable[Record]) -> Iterator[Entry]:
    """Yield the drills in records, oldest first."""
    for record in records:
        for step in record.steps if record.command == COMMAND else ():
            for one in step.outcomes:
                kind, _, name = one.id.partition(":")
                times = {change.name: change.wanted for change in one.changes if TIME.fullmatch(change.wanted)}
                if kind == COMMAND:
                    yield Entry(record.begun, record.by, name, step.host, one.status == CHANGED, times, one.message)
