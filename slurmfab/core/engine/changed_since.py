"""What has changed since a plan was saved, as text: the reasons why the plan is not carried out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from slurmfab import __version__
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.paths import MUNGE_KEY, SLURM_HOME
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine.report import DIFFERS, Step
from slurmfab.core.engine.saved_plan import Files, ResourceOnHost, SavedPlan
from slurmfab.on_hosts.agent.core.listing import first_of
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, Change, Outcome

MOST_LINES = 30  # the most reasons that a message lists; equal reasons of several hosts are one line

LATE = frozenset({(f"file:{MUNGE_KEY}", "content"), (f"block:{SLURM_HOME}/.ssh/authorized_keys#slurm keys", "content")})
"""Id and name of values that are unknown before the preparing phases create them: the munge key and public keys."""

UNSTEADY = frozenset({"slurm-nodes", "node-gate"})
"""Kinds of resources whose actual value is Slurm's text for a node's state, which changes without a deployment."""


class Reason(NamedTuple):
    """A change on a host since the plan was saved."""

    host: str
    text: str  # what changed


def reasons_in_files(plan: SavedPlan, path: Path) -> list[str]:
    """Changes of the cluster file and the lock, as lines. Raises InputError if a file cannot be read."""
    now = Files.of(path)
    lock = loading.lock_path(path)
    lines = []
    if now.cluster != plan.files.cluster:
        saved = local_time(plan.saved)
        lines.append(f"{path} was edited after the plan was saved ({modified_at(path)}; the plan is of {saved}).")
    if now.lock != plan.files.lock:
        change = f"was changed by another run ({modified_at(lock)})" if now.lock else "is missing now"
        lines.append(f"{lock} {change}.")
    return lines


def reasons_on_hosts(plan: SavedPlan, steps: Sequence[Step], lost: Mapping[str, str]) -> list[str]:
    """Changes on the hosts, as lines; equal changes are one line for all of their hosts.

    `steps`: all outcomes of comparing the hosts again. `lost`: the hosts that are excluded now, each with the reason.
    """
    found = differing(steps)
    hosts = [
        *(
            Reason(host, f"it was part of the plan but is excluded now: {reason}")
            for host, reason in lost.items()
            if host not in plan.lost
        ),
        *(
            Reason(host, "it was excluded when the plan was saved, but answers now.")
            for host in plan.lost
            if host not in lost
        ),
    ]
    excluded = {*lost, *plan.lost}
    keys = [key for key in dict.fromkeys((*plan.shown, *found)) if key.host not in excluded]
    changed = [
        Reason(key.host, text) for key in keys for text in resource_changes(key.id, plan.shown.get(key), found.get(key))
    ]
    return fold_reasons((*hosts, *changed))


def reasons_after_preparing(plan: SavedPlan, steps: Sequence[Step]) -> list[str]:
    """Changes on the hosts that the plan does not show, after packages, users and keys are in place, as lines.

    The plan was made before these were there. So the actual state of a resource may differ from the plan, and less may
    be left to do. A resource that changes must be in the plan, with the wanted values of the plan. The munge key and
    public keys are excepted, since the plan could not show them before they were created. `steps`: all outcomes of
    comparing the hosts again.
    """
    return fold_reasons(
        Reason(key.host, text)
        for key, outcome in differing(steps).items()
        if key.id.partition(":")[0] not in UNSTEADY
        for text in (
            unplanned_values(plan.shown[key], outcome) if key in plan.shown else resource_changes(key.id, None, outcome)
        )
    )


def differing(steps: Iterable[Step]) -> dict[ResourceOnHost, Outcome]:
    """The outcomes of the resources that differ and that a deployment would change."""
    return {
        ResourceOnHost(step.host, step.phase, outcome.id): outcome
        for step in steps
        for outcome in step.outcomes
        if outcome.status not in (OK, DIFFERS)
    }


def resource_changes(name: str, before: Outcome | None, now: Outcome | None) -> Iterator[str]:
    """How a resource has changed since the plan was saved, a line for each value; none if it has not.

    `before`: its outcome in the plan, `now`: its outcome now; `None` where it is correct.
    """
    if FAILED in (before.status if before else "", now.status if now else ""):
        if before is None or now is None or before.status != now.status:
            yield f"{name}: it {comparability(before)} when the plan was saved, and {comparability(now)} now."
        return
    values_before, values_now = changes_by_name(before), changes_by_name(now)
    is_steady = name.partition(":")[0] not in UNSTEADY
    for value in dict.fromkeys((*values_before, *values_now)):
        text = describe_change(value, values_before.get(value), values_now.get(value), is_steady=is_steady)
        if text:
            yield f"{name}: {text}."


def comparability(outcome: Outcome | None) -> str:
    """Whether a resource could be compared, with the reason where it could not."""
    if outcome is not None and outcome.status == FAILED:
        return f"could not be compared ({outcome.message.rstrip('.')})"
    return "could be compared"


def changes_by_name(outcome: Outcome | None) -> dict[str, Change]:
    """The differences of an outcome, by name."""
    return {change.name: change for change in outcome.changes} if outcome else {}


def describe_change(name: str, before: Change | None, now: Change | None, *, is_steady: bool) -> str:
    """How one value of a resource has changed since the plan was saved; empty if it has not.

    Args:
        name: the name of the value, such as `mode`.
        before: its difference in the plan; `None` for none.
        now: its difference now; `None` for none.
        is_steady: whether the actual value must be the same as in the plan.
    """
    subject = subject_of(name)
    if before is None:
        return "" if now is None else describe_new(subject, now)
    if now is None:
        return f"{describe_planned(name, before)}; now nothing differs"
    if wanted_value(before) != wanted_value(now):
        return f"{subject} would get another value than the plan shows"
    if not is_steady or before == now:
        return ""
    if is_text(now):
        return f"{subject} was edited after the plan was saved"
    return f"{subject} was {before.actual or 'missing'} when the plan was saved, and is {now.actual or 'missing'} now"


def subject_of(name: str) -> str:
    """A value as the subject of a sentence; `it` for the content of a file, since its resource is named already."""
    return "it" if name == "content" else name


def describe_new(subject: str, change: Change) -> str:
    """How a value has become wrong that was correct when the plan was saved."""
    if is_text(change):
        return f"{subject} was correct, but was edited after the plan was saved"
    return f"{subject} was correct, but is {change.actual or 'missing'} now instead of {change.wanted or 'missing'}"


def describe_planned(name: str, change: Change) -> str:
    """What the plan does to a value: `the plan adds 2 lines`, `the plan sets mode to 0644`."""
    if not change.diff:
        if change.wanted == "differs" and not change.actual:
            return f"the plan changes {subject_of(name)}"
        return f"the plan sets {name} to {change.wanted or 'absent'}"
    lines = change.diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    counts = [f"{verb} {n} line{'' if n == 1 else 's'}" for verb, n in (("adds", added), ("removes", removed)) if n]
    where = "" if name == "content" else f" in {name}"
    return f"the plan {' and '.join(counts) or 'changes lines'}{where}"


def is_text(change: Change) -> bool:
    """Whether a difference is between whole texts or secrets, which are compared by their digests."""
    return bool(change.diff or change.digest)


def wanted_value(change: Change) -> str:
    """The wanted value of a difference, or its digest."""
    return change.digest.partition("/")[2] or change.wanted


def unplanned_values(shown: Outcome, now: Outcome) -> Iterator[str]:
    """A line for each value of a resource that would become, after the preparing phases, other than the plan shows."""
    before = changes_by_name(shown)
    for change in now.changes:
        is_known = change.name in before and (now.id, change.name) not in LATE
        if is_known and wanted_value(before[change.name]) != wanted_value(change):
            yield f"{now.id}: {subject_of(change.name)} would get another value than the plan shows."


def fold_reasons(reasons: Iterable[Reason]) -> list[str]:
    """A line for each reason, with all of its hosts at the beginning."""
    alike = grouped((reason.text, reason.host) for reason in reasons)
    return first_of((f"{fold(hosts)}: {text}" for text, hosts in alike.items()), MOST_LINES)


def format_refusal(plan: SavedPlan, lines: Sequence[str], *, is_prepared: bool) -> str:
    """The message about a saved plan that is outdated. `is_prepared`: whether the preparing phases are done already."""
    versions = "" if plan.slurmfab == __version__ else f" (made by slurmfab {plan.slurmfab}, this is {__version__})"
    done = (
        "Users, packages and keys are in place; nothing else was changed."
        if is_prepared
        else "Nothing was changed on any host."
    )
    head = f"The saved plan{versions} is outdated:"
    return "\n".join((head, *(f"  {line}" for line in lines), f"{done} Make the plan again: {FAB} plan --save FILE"))


def modified_at(path: Path) -> str:
    """The time at which a file was last written, in local time."""
    return f"{datetime.fromtimestamp(path.stat().st_mtime).astimezone():%Y-%m-%d %H:%M:%S}"


def local_time(moment: str) -> str:
    """A time in UTC (ISO 8601) as local time; unchanged if it is not in this format."""
    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return moment
