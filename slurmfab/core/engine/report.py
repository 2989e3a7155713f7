"""The report of a run: outcomes by phase and host, as data, as JSON, and as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic_core import SchemaValidator, core_schema

from slurmfab.base.answers import MOST_TEXT, checked_object, strict_object
from slurmfab.base.errors import (
    AgentFailed,
    AnotherRun,
    BecomeRefused,
    HostError,
    HostFailed,
    PythonMissing,
    SlurmfabError,
    Unreachable,
)
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.folding import fold_lines
from slurmfab.base.grouping import grouped
from slurmfab.base.json_output import Key, shows
from slurmfab.base.terminal import hang, in_one_line
from slurmfab.core.impact.forecast import Forecast
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, SKIPPED, WOULD_CHANGE, Change, Outcome

if TYPE_CHECKING:
    from slurmfab.core.impact.job_tally import JobTally

LEAVES_THE_REST_WELL = (AgentFailed, AnotherRun, BecomeRefused, HostFailed, PythonMissing, Unreachable)
"""Errors by which one host is skipped and the others are deployed: it is down, full, locked and so on."""

NOT_DEPLOYING = ("drain", "drill", "reboot", "resume", "update", "upgrade")
"""Commands after which a deployment does not help failed hosts: jobs still run there, an admin has drained them, or the
same command goes on."""

UNKNOWN = "unknown"  # the status of the resource at work on a host when the host was lost: it may have been changed

WITHOUT_FOLLOWERS = ("ssh-login:", "person-home:", "authorized-keys:", "lost-jobs:")
"""The beginnings of ids of resources that nothing depends on: a host where one fails stays in the run."""

USER_JOBS = "user jobs"  # the phase of batch jobs of a user, at the end of a deployment

DIFFERS = "differs"  # the status of a resource that differs from what is wanted and that a deployment does not change

shows(
    Key("name", text="what differs, such as `mode`"),
    Key("actual", text="its value before; empty for none"),
    Key("wanted", text="its value afterwards; empty for none"),
    Key("diff", text="the difference of a file's text as a unified diff; empty for other differences"),
)(Change)  # without the digest, which only saved plans need
shows(
    Key("id", text="such as `file:/etc/slurm/slurm.conf`"),
    Key("status", text="`changed`, `would change`, `differs`, `failed`, `skipped` or `unknown`"),
    Key("message", text="why it failed, or what else is to be said; may be empty"),
    Key("drift", text="the kind of drift, such as `changed file`; empty if it is none"),
    Key("changes", text="in what it differed"),
)(Outcome)  # without secrets, which an outcome never has


@shows("phase", "host", Key("at", digits=3), Key("seconds", digits=3), "ok", Key("outcomes", "not_ok"))
@dataclass(frozen=True)
class Step:
    """A phase on a host."""

    phase: str  # such as `packages`
    host: str  # the host's name
    outcomes: tuple[Outcome, ...]  # of the phase's resources, in order
    seconds: float = 0.0  # how long it took
    # when it began, in seconds from the beginning of the run; null where that is not known
    at: float | None = field(default=None, compare=False)

    @property
    def not_ok(self) -> tuple[Outcome, ...]:
        """Of the other resources."""
        return tuple(outcome for outcome in self.outcomes if outcome.status != OK)

    @property
    def ok(self) -> int:
        """How many resources were right already."""
        return len(self.outcomes) - len(self.not_ok)

    def with_status(self, status: str) -> tuple[Outcome, ...]:
        """The outcomes with this status."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == status)

    @property
    def has_failed(self) -> bool:
        """Whether a resource failed."""
        return bool(self.with_status(FAILED))

    @property
    def fatal(self) -> tuple[Outcome, ...]:
        """The failed outcomes on which other resources of the host depend."""
        return tuple(outcome for outcome in self.with_status(FAILED) if not outcome.id.startswith(WITHOUT_FOLLOWERS))

    @property
    def differs(self) -> bool:
        """Whether a resource was changed, would be changed, differs or failed."""
        return bool(self.not_ok)


@shows(Key("at", digits=3), "doing")
class Mark(NamedTuple):
    """What was begun on all hosts."""

    at: float  # when, in seconds from the beginning of the run
    doing: str  # what


@shows(
    "version", "command", "cluster", "hosts", Key("exit_code", text="of the task"), Key("seconds", digits=3),
    Key("lost", "reasons"), "steps", Key("slurm_conf", "forecast.labels"), Key("daemons", "forecast.renewal"),
    Key("dangers", "forecast.disruptions"), Key("refused", "is_refused"), "jobs", "left_drained", "other_hardware",
    "not_met", "timeline", "only", "others",
)  # fmt: skip
@dataclass(frozen=True)
class Report:
    """A run that compares hosts with the cluster file, or changes them."""

    version: ClassVar[int] = 1  # of this format: 1
    command: str  # the task, such as `deploy`
    cluster: str  # the cluster's name
    hosts: tuple[str, ...]  # the hosts that the run was for
    # phases by host, in the order in which they ended, as far as something differed there; a survey has all
    steps: tuple[Step, ...]
    failed_hosts: Mapping[str, HostError]  # the error of each host that was skipped for the rest of the run
    seconds: float  # how long the run took
    # what its changes require of Slurm's daemons and would do to jobs, by the last survey
    forecast: Forecast = field(default_factory=Forecast)
    is_refused: bool = False  # whether it ended without changes, since a change that would harm jobs was not allowed
    # the jobs before and after the changes; null if nothing was changed, or no slurmctld knew of jobs
    jobs: JobTally | None = None
    left_drained: tuple[str, ...] = ()  # nodes that an earlier run drained and that are still drained
    # the nodes whose hardware differs from the lock, which a deployment does not change
    other_hardware: tuple[str, ...] = ()
    timeline: tuple[Mark, ...] = ()  # what was begun when
    finds_work: bool = False  # whether it was a dry run that found something to do
    error_code: int = DONE  # exit code of the error that ended the run early; 0 where none did
    # hosts of a first contact that did not answer, as the user typed them, each with the reason
    not_met: Mapping[str, str] = field(default_factory=dict)
    # the resources that a survey found to differ: host, phase and id
    differed: frozenset[tuple[str, str, str]] = frozenset()
    # the words of `--only`; empty where all phases were carried out. Exit codes are about these phases then
    only: tuple[str, ...] = ()
    others: tuple[Step, ...] = ()  # what differs in phases that `--only` leaves out, and stays so

    @property
    def changes(self) -> int:
        """The number of resources that are as wanted only now: a plan's, and not only those that were converged."""
        changed = resource_keys(self.steps, CHANGED)
        if self.error_code or self.is_refused:
            return self.count(CHANGED)
        wrong = resource_keys(self.steps, FAILED, SKIPPED, UNKNOWN)
        settled = {key for key in self.differed if key[0] not in self.failed_hosts} - changed - wrong
        return self.count(CHANGED) + len(settled)

    def count(self, status: str) -> int:
        """The number of resources with this status."""
        return sum(len(step.with_status(status)) for step in self.steps)

    @property
    def reasons(self) -> Mapping[str, str]:
        """The hosts that were left out, each with the reason."""
        return {host: error.reason for host, error in self.failed_hosts.items()}

    @property
    def exit_code(self) -> int:
        """The exit code of the process: that of the error that ended the run early, or else by the outcomes.

        0 if all hosts are as wanted, 1 if something failed, 3 if hosts were skipped, do not let the slurm user in, do
        not reach a user's home, or a lost job is left to a person, and all else is as wanted, 4 if a dry run found
        something to do.
        """
        if self.error_code:
            return self.error_code
        harmless = Unreachable if self.command in NOT_DEPLOYING else LEAVES_THE_REST_WELL
        are_skipped = all(isinstance(error, harmless) for error in self.failed_hosts.values())
        failed = [step for step in self.steps if step.has_failed and step.host not in self.failed_hosts]
        if not are_skipped or any(step.fatal for step in failed):
            return FAILURE
        if self.is_refused or (self.jobs and self.jobs.is_broken):
            return FAILURE
        if self.failed_hosts or failed or self.not_met:
            return LEFT_OUT
        return SOMETHING_TO_DO if self.finds_work else DONE


def resource_keys(steps: Iterable[Step], *statuses: str) -> frozenset[tuple[str, str, str]]:
    """The resources of outcomes with one of these statuses: host, phase and id."""
    return frozenset(
        (step.host, step.phase, one.id) for step in steps for one in step.outcomes if one.status in statuses
    )


@cache
def outcome_model() -> SchemaValidator:
    """The model of an outcome in an agent's answer; the kind of drift is not the agent's to tell."""
    text, statuses = core_schema.str_schema(max_length=MOST_TEXT), [OK, CHANGED, WOULD_CHANGE, FAILED, SKIPPED]
    change = strict_object({"name": text}, dict.fromkeys(("actual", "wanted", "diff", "digest"), text))
    others = {
        "changes": core_schema.list_schema(change),
        "message": text,
        "seconds": core_schema.float_schema(ge=0, allow_inf_nan=False),
        "drift": core_schema.literal_schema([""]),
        "others": core_schema.list_schema(core_schema.list_schema(text, min_length=2, max_length=2)),
    }
    return SchemaValidator(strict_object({"id": text, "status": core_schema.literal_schema(statuses)}, others))


def outcome_from(answer: Any, host: str = "") -> Outcome:
    """The outcome in a line of an agent's answer, equal texts stored once; AgentFailed if it is none."""
    line = checked_object(host, outcome_model(), answer, "outcome")
    changes = tuple(Change(**interned(without_secrets(change))) for change in line.get("changes", ()))
    message = hide(line.get("message", ""))
    message = hang(message) if "\n" in message else message
    others = tuple((intern(name), hang(why)) for name, why in line.get("others", ()))
    return Outcome(
        intern(line["id"]), intern(line["status"]), changes, intern(message), line.get("seconds", 0.0), others=others
    )


def interned(plain: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values whose texts are interned, so that equal ones share memory."""
    return {key: intern(value) if type(value) is str else value for key, value in plain.items()}


SHOWN = ("actual", "wanted", "diff")  # the parts of a change that people see


def without_secrets(change: Mapping[str, Any]) -> dict[str, Any]:
    """A change whose texts have `(hidden)` in the place of what looks like a secret.

    Its digests still compare what was there. Nothing after this knows the secret: no plan, record, page or bundle.
    Resources whose state is a secret as a whole are hidden on their hosts already.
    """
    return {key: hide(value) if key in SHOWN and type(value) is str else value for key, value in change.items()}


@lru_cache(maxsize=256)
def hide(text: str) -> str:
    """A text without secrets; cached, because many hosts have equal differences."""
    if not text:
        return ""
    # It has some 30 patterns that a run without differences need not compile.
    from slurmfab.on_hosts.agent.logs import secret_detectors

    return secret_detectors.without_secrets(text)


def apart(step: Step) -> tuple[Step, tuple[Step, ...]]:
    """A step without what its outcomes say about other hosts, such as nodes not ready, and a step for each of these."""
    others = tuple(
        replace(step, host=host, outcomes=(Outcome(f"{outcome.id.partition(':')[0]}:{host}", FAILED, message=why),))
        for outcome in step.outcomes
        for host, why in outcome.others
    )
    own = tuple(replace(outcome, others=()) for outcome in step.outcomes) if others else step.outcomes
    return replace(step, outcomes=own), others


def headline(step: Step) -> str:
    """The outcomes of a phase on a host, counted: `2 changed`, `1 failed`."""
    counts = {status: len(step.with_status(status)) for status in (CHANGED, WOULD_CHANGE, FAILED)}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count) or "ok"


def difference_lines(outcome: Outcome) -> tuple[str, ...]:
    """An outcome's differences in lines: `uid: 1001 -> 64030`, or a unified diff."""
    lines = [f"{outcome.id}: {outcome.status}" + (f" ({outcome.drift})" if outcome.drift else "")]
    for change in outcome.changes:
        actual, wanted = (in_one_line(value) or "(none)" for value in (change.actual, change.wanted))
        if change.diff:
            lines += [f"  {change.name}:", *(f"    {line}" for line in change.diff.splitlines())]
        elif outcome.status == DIFFERS:
            lines.append(f"  {change.name}: {actual}{f'; the lock has {wanted}' if change.wanted else ''}")
        elif not change.actual and change.wanted == "differs":
            lines.append(f"  {change.name}: differs (not shown, it is secret)")
        else:
            lines.append(f"  {change.name}: {actual} -> {wanted}")
    return tuple(lines)


def failures(steps: Iterable[Step], failed_hosts: Mapping[str, SlurmfabError]) -> tuple[str, ...]:
    """A line for each failed resource and each skipped host, folded over hosts: host, what failed, why, what to try."""
    failed = [(step.host, f"{outcome.id}: {outcome.message}") for step in steps for outcome in step.with_status(FAILED)]
    lost = [(error.host, error.reason) for error in failed_hosts.values() if isinstance(error, HostError)]
    others = dict.fromkeys(str(error) for error in failed_hosts.values() if not isinstance(error, HostError))
    return (*fold_lines([*failed, *lost]), *others)


class FoldedSteps(NamedTuple):
    """The hosts on which a phase has the same outcomes, and these outcomes in lines."""

    phase: str
    hosts: tuple[str, ...]
    lines: tuple[str, ...]


def by_differences(steps: Iterable[Step]) -> dict[tuple[str, tuple[Outcome, ...]], list[str]]:
    """The hosts by phase and what differs in it; steps without differences left out."""
    found = ((step, tuple(replace(outcome, seconds=0.0) for outcome in step.not_ok)) for step in steps)
    return grouped(((step.phase, outcomes), step.host) for step, outcomes in found if outcomes)


def fold_steps(steps: Sequence[Step]) -> tuple[FoldedSteps, ...]:
    """Steps with equal outcomes put together, in the order of their first host; those without differences left out."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    # Equal outcomes are found before their lines are made, which takes long for ten thousand hosts.
    for (phase, outcomes), hosts in by_differences(steps).items():
        lines = tuple(line for outcome in outcomes for line in describe(outcome))
        groups.setdefault((phase, lines), []).extend(hosts)
    return tuple(FoldedSteps(phase, tuple(hosts), lines) for (phase, lines), hosts in groups.items())


def describe(outcome: Outcome) -> tuple[str, ...]:
    """An outcome's differences in lines, with its message if it has one."""
    return (*difference_lines(outcome), *((f"  {outcome.message}",) if outcome.message else ()))
