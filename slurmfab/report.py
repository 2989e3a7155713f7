"""What a run did: outcomes by phase and host, told to people while it goes on, and to machines at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import TYPE_CHECKING, Any

from slurmfab.agent.resource import CHANGED, FAILED, OK, WOULD_CHANGE, Change, Outcome
from slurmfab.errors import (
    AgentFailed,
    AnotherRun,
    BecomeRefused,
    HostError,
    HostFailed,
    PythonMissing,
    SlurmfabError,
    Unreachable,
)
from slurmfab.promises.forecast import Forecast

if TYPE_CHECKING:
    from slurmfab.promises.tally import Tally

DONE, FAILURE, LEFT_OUT = 0, 1, 3
"""Exit codes: all is as wanted; something failed; done, but for hosts that had to be left out."""

LEAVES_THE_REST_WELL = (AgentFailed, AnotherRun, BecomeRefused, HostFailed, PythonMissing, Unreachable)
"""Why a host is left out of a deployment that is done for all others: it is down, sick, full, locked and so on."""

NOT_DEPLOYING = ("drain", "reboot", "resume")
"""Commands whose lost hosts no deployment would help: jobs still run there, or somebody has drained them."""

DIFFERS = "differs"
"""The status of what is other than wanted, and what no deployment changes."""


@dataclass(frozen=True)
class Step:
    """What became of one phase on one host.

    Args:
        phase: the phase's name.
        host: the host's name.
        outcomes: of the phase's resources, in order.
        seconds: from the request to the end of the answer.
    """

    phase: str
    host: str
    outcomes: tuple[Outcome, ...]
    seconds: float = 0.0

    def with_status(self, status: str) -> tuple[Outcome, ...]:
        """Those of its outcomes that have this status."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == status)

    @property
    def has_failed(self) -> bool:
        """Whether anything in it failed."""
        return bool(self.with_status(FAILED))

    @property
    def differs(self) -> bool:
        """Whether anything in it was, or would be, other than wanted."""
        return any(outcome.status != OK for outcome in self.outcomes)


@dataclass(frozen=True)
class Report:
    """A whole run.

    Args:
        command: what was asked for, such as `deploy`.
        cluster: the cluster's name.
        hosts: those that the run was about.
        steps: in the order in which they ended; of hosts without any difference there are none but in a survey.
        lost: the hosts that could not be gone on with, and why.
        seconds: how long the run took.
        forecast: what its changes need of Slurm and would do to jobs, as the last survey showed.
        is_refused: whether it ended without them, since nobody has agreed to a danger.
        jobs: how many ran before and after its changes; `None` where nobody knew, or nothing was changed.
        left_drained: the nodes that an earlier run has drained for a change and not given back.
        other_hardware: the nodes whose hardware is not what the lock holds, which no deployment changes.
        timeline: what was begun on all hosts, each with the seconds from the beginning of the run.
    """

    command: str
    cluster: str
    hosts: tuple[str, ...]
    steps: tuple[Step, ...]
    lost: Mapping[str, HostError]
    seconds: float
    forecast: Forecast = field(default_factory=Forecast)
    is_refused: bool = False
    jobs: Tally | None = None
    left_drained: tuple[str, ...] = ()
    other_hardware: tuple[str, ...] = ()
    timeline: tuple[tuple[float, str], ...] = ()

    def count(self, status: str) -> int:
        """How many resources ended with this status."""
        return sum(len(step.with_status(status)) for step in self.steps)

    @property
    def exit_code(self) -> int:
        """0 when all is as wanted, 1 when something failed, 3 when hosts had to be left out and all others are well."""
        harmless = Unreachable if self.command in NOT_DEPLOYING else LEAVES_THE_REST_WELL
        is_left_out = all(isinstance(error, harmless) for error in self.lost.values())
        if not is_left_out or any(step.has_failed and step.host not in self.lost for step in self.steps):
            return FAILURE
        if self.is_refused or (self.jobs and self.jobs.is_broken):
            return FAILURE
        return LEFT_OUT if self.lost else DONE

    def as_json(self) -> dict[str, Any]:
        """The run as JSON values, for records and `--json`; no secret is in it, since none is in an outcome."""
        return {
            "command": self.command,
            "cluster": self.cluster,
            "hosts": list(self.hosts),
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "lost": {host: error.reason for host, error in self.lost.items()},
            "steps": [step_as_json(step) for step in self.steps],
            **self.forecast.as_json(),
            "refused": self.is_refused,
            "jobs": self.jobs.as_json() if self.jobs else None,
            "left_drained": list(self.left_drained),
            "other_hardware": list(self.other_hardware),
            "timeline": [{"at": round(at, 3), "doing": doing} for at, doing in self.timeline],
        }


def step_as_json(step: Step) -> dict[str, Any]:
    """A step as JSON values, with the resources that were right already left out."""
    told = [outcome for outcome in step.outcomes if outcome.status != OK]
    return {
        "phase": step.phase,
        "host": step.host,
        "seconds": round(step.seconds, 3),
        "ok": len(step.outcomes) - len(told),
        "outcomes": [
            {
                "id": outcome.id,
                "status": outcome.status,
                "message": outcome.message,
                "drift": outcome.drift,
                "changes": [change_as_json(change) for change in outcome.changes],
            }
            for outcome in told
        ],
    }


def change_as_json(change: Change) -> dict[str, Any]:
    """A difference as JSON values; digests are for saved plans alone."""
    return {"name": change.name, "actual": change.actual, "wanted": change.wanted, "diff": change.diff}


def outcome_from(line: Mapping[str, Any]) -> Outcome:
    """An outcome in a line of an agent's answer; the many hosts with the same differences share their texts."""
    changes = tuple(Change(**shared(change)) for change in line.get("changes", ()))
    return Outcome(**{**shared(line), "changes": changes})


def shared(plain: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values in which each text is the one that others have as well."""
    return {key: intern(value) if type(value) is str else value for key, value in plain.items()}


def headline(step: Step) -> str:
    """What became of a phase on a host, in a few words: `2 changed`, `1 failed`."""
    counts = {status: len(step.with_status(status)) for status in (CHANGED, WOULD_CHANGE, FAILED)}
    words = [f"{count} {status}" for status, count in counts.items() if count]
    return ", ".join(words) or "ok"


def details(outcome: Outcome) -> tuple[str, ...]:
    """The lines that tell an outcome's differences, without indentation: `uid: 1001 -> 64030`, or a unified diff."""
    lines = [f"{outcome.id}: {outcome.status}" + (f" ({outcome.drift})" if outcome.drift else "")]
    for change in outcome.changes:
        if change.diff:
            lines += [f"  {change.name}:", *(f"    {line}" for line in change.diff.splitlines())]
        elif outcome.status == DIFFERS:
            lines.append(f"  {change.name}: {change.actual or '(none)'}, and the lock has {change.wanted or '(none)'}")
        elif not change.actual and change.wanted == "differs":
            lines.append(f"  {change.name}: differs (not shown, it is secret)")
        else:
            lines.append(f"  {change.name}: {change.actual or '(none)'} -> {change.wanted or '(none)'}")
    return tuple(lines)


def failures(steps: Iterable[Step], lost: Mapping[str, SlurmfabError]) -> tuple[str, ...]:
    """One line for each failed resource and each lost host: host, what, why, what to try; none of them twice."""
    told = [f"{step.host}: {outcome.id}: {outcome.message}" for step in steps for outcome in step.with_status(FAILED)]
    return tuple(dict.fromkeys((*told, *map(str, lost.values()))))


def folded(steps: Sequence[Step]) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """Steps with equal details put together: (phase, hosts, lines), in the order of their first host."""
    # What is equal is put together before it is told, for the texts of ten thousand hosts take their time.
    alike: dict[tuple[str, tuple[Outcome, ...]], list[str]] = {}
    for step in steps:
        outcomes = tuple(replace(outcome, seconds=0.0) for outcome in step.outcomes if outcome.status != OK)
        if outcomes:
            alike.setdefault((step.phase, outcomes), []).append(step.host)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (phase, outcomes), hosts in alike.items():
        lines = tuple(line for outcome in outcomes for line in told(outcome))
        groups.setdefault((phase, lines), []).extend(hosts)
    return tuple((phase, tuple(hosts), lines) for (phase, lines), hosts in groups.items())


def told(outcome: Outcome) -> tuple[str, ...]:
    """An outcome's details, with its message where it has one."""
    return (*details(outcome), *((f"  {outcome.message}",) if outcome.message else ()))
