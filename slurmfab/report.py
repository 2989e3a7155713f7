"""What a run did: outcomes by phase and host, told to people while it goes on, and to machines at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slurmfab.agent.resource import CHANGED, FAILED, OK, WOULD_CHANGE, Change, Outcome
from slurmfab.errors import HostError, SlurmfabError, Unreachable

DONE, FAILURE, LEFT_OUT = 0, 1, 3
"""Exit codes: all is as wanted; something failed; done, but for hosts that could not be reached."""


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
    """

    command: str
    cluster: str
    hosts: tuple[str, ...]
    steps: tuple[Step, ...]
    lost: Mapping[str, HostError]
    seconds: float

    def count(self, status: str) -> int:
        """How many resources ended with this status."""
        return sum(len(step.with_status(status)) for step in self.steps)

    @property
    def exit_code(self) -> int:
        """0 when all is as wanted, 1 when something failed, 3 when hosts could not be reached and all else is well."""
        if self.count(FAILED) or any(not isinstance(error, Unreachable) for error in self.lost.values()):
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
                "changes": [asdict(change) for change in outcome.changes],
            }
            for outcome in told
        ],
    }


def outcome_from(line: Mapping[str, Any]) -> Outcome:
    """An outcome in a line of an agent's answer."""
    plain = dict(line)
    plain["changes"] = tuple(Change(**change) for change in plain.get("changes", ()))
    return Outcome(**plain)


def headline(step: Step) -> str:
    """What became of a phase on a host, in a few words: `2 changed`, `1 failed`."""
    counts = {status: len(step.with_status(status)) for status in (CHANGED, WOULD_CHANGE, FAILED)}
    words = [f"{count} {status}" for status, count in counts.items() if count]
    return ", ".join(words) or "ok"


def details(outcome: Outcome) -> tuple[str, ...]:
    """The lines that tell an outcome's differences, without indentation: `uid: 1001 -> 64030`, or a unified diff."""
    lines = [f"{outcome.id}: {outcome.status}"]
    for change in outcome.changes:
        if change.diff:
            lines += [f"  {change.name}:", *(f"    {line}" for line in change.diff.splitlines())]
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
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for step in steps:
        lines = tuple(line for outcome in step.outcomes if outcome.status != OK for line in told(outcome))
        if lines:
            groups.setdefault((step.phase, lines), []).append(step.host)
    return tuple((phase, tuple(hosts), lines) for (phase, lines), hosts in groups.items())


def told(outcome: Outcome) -> tuple[str, ...]:
    """An outcome's details, with its message where it has one."""
    return (*details(outcome), *((f"  {outcome.message}",) if outcome.message else ()))
