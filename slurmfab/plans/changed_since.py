"""What has changed since a plan was saved, in words: the reasons for not doing what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from slurmfab import __version__, inventory
from slurmfab.agent.resource import FAILED, OK, Change, Outcome
from slurmfab.hostlist import fold
from slurmfab.phases.munge import KEY
from slurmfab.plans.saved_plan import Files, SavedPlan
from slurmfab.report import DIFFERS, Step
from slurmfab.situation import SLURM_HOME

MOST_LINES = 30
"""How many reasons are told, one for all of their hosts each; whoever reads these knows enough."""

LATE = frozenset({(f"file:{KEY}", "content"), (f"block:{SLURM_HOME}/.ssh/authorized_keys#slurm keys", "content")})
"""Id and name of what nobody can know before the preparing phases have made it: the munge key, and public keys."""

UNSTEADY = frozenset({"slurm-nodes", "node-gate"})
"""Resources that are told in Slurm's own words for a node's state, which change while nothing is done."""

Reason = tuple[str, str]
"""A host, and what has changed there."""


def reasons_in_files(plan: SavedPlan, path: Path) -> list[str]:
    """What has changed in the cluster's own files, as lines.

    Args:
        plan: the saved plan.
        path: the cluster file that is there now.
    """
    now = Files.of(path)
    lock = inventory.lock_path(path)
    lines = []
    if now.cluster != plan.files.cluster:
        lines.append(f"{path} has been edited since ({when(path)}; the plan is of {local(plan.saved)}).")
    if now.lock != plan.files.lock:
        how = f"has changed since ({when(lock)})" if now.lock else "is gone"
        lines.append(f"{lock} {how}: another run has found out or decided something.")
    return lines


def reasons_on_hosts(plan: SavedPlan, steps: Sequence[Step], lost: Mapping[str, str]) -> list[str]:
    """What the hosts have to say now other than was shown, as lines; equal ones once for all of their hosts.

    Args:
        plan: the saved plan.
        steps: all outcomes of comparing the hosts anew.
        lost: reasons by host, of those that cannot be asked now.
    """
    found = differing(steps)
    hosts = [
        *((host, f"it was to take part, and cannot now: {lost[host]}") for host in lost if host not in plan.lost),
        *((host, "it could not be asked then, and can be now.") for host in plan.lost if host not in lost),
    ]
    away = {*lost, *plan.lost}
    keys = [key for key in dict.fromkeys((*plan.shown, *found)) if key[0] not in away]
    changed = [(key[0], reason) for key in keys for reason in other(key[2], plan.shown.get(key), found.get(key))]
    return folded((*hosts, *changed))


def reasons_after_preparing(plan: SavedPlan, steps: Sequence[Step]) -> list[str]:
    """What hosts would get that was not shown, once packages, users and keys are there, as lines.

    The plan was made when these were missing. So what a host has may be otherwise now, and less may be left to do; what
    it is to get has to be a resource that was shown, with the wanted values that were shown. Only of the munge key and
    of public keys, which did not exist, nobody could show the value.
    """
    found = differing(steps)
    return folded(
        (host, reason)
        for (host, phase, name), outcome in found.items()
        if name.partition(":")[0] not in UNSTEADY
        for reason in (
            beyond(plan.shown[host, phase, name], outcome)
            if (host, phase, name) in plan.shown
            else other(name, None, outcome)
        )
    )


def differing(steps: Iterable[Step]) -> dict[tuple[str, str, str], Outcome]:
    """What differs and a deployment would change, by host, phase and id."""
    return {
        (step.host, step.phase, outcome.id): outcome
        for step in steps
        for outcome in step.outcomes
        if outcome.status not in (OK, DIFFERS)
    }


def other(name: str, before: Outcome | None, now: Outcome | None) -> Iterator[str]:
    """How a resource differs in another way than was shown, a line for each thing; nothing when it does not.

    Args:
        name: the resource's id.
        before: as it was shown; `None` when it was right then.
        now: as it is; `None` when it is right.
    """
    if FAILED in (before.status if before else "", now.status if now else ""):
        if before is None or now is None or before.status != now.status:
            yield f"{name}: {compared(before)} then, and {compared(now)} now."
        return
    was, is_now = by_name(before), by_name(now)
    steady = name.partition(":")[0] not in UNSTEADY
    for thing in dict.fromkeys((*was, *is_now)):
        words = since(was.get(thing), is_now.get(thing), steady=steady)
        if words:
            yield f"{name}: {'it' if thing == 'content' else thing} {words}."


def compared(outcome: Outcome | None) -> str:
    """Whether a resource could be compared."""
    if outcome is not None and outcome.status == FAILED:
        return f"it could not be compared ({outcome.message.rstrip('.')})"
    return "it could"


def by_name(outcome: Outcome | None) -> dict[str, Change]:
    """An outcome's differences by their names."""
    return {change.name: change for change in outcome.changes} if outcome else {}


def since(before: Change | None, now: Change | None, *, steady: bool) -> str:
    """What happened to one thing since it was shown; empty when nothing did.

    Args:
        before: the difference that was shown; `None` for none.
        now: the one that there is; `None` for none.
        steady: whether the words for what is there have to be the same.
    """
    if before is None:
        return "" if now is None else f"was right, and {today(now)}"
    if now is None:
        return f"{intended(before)}, and now nothing differs"
    if wanted(before) != wanted(now):
        return "is to become other than was shown"
    if not steady or before == now:
        return ""
    if is_text(now):
        return "has been edited since"
    return f"was {before.actual or 'missing'}, and is {now.actual or 'missing'} now"


def today(change: Change) -> str:
    """What is the matter with something that was right."""
    if is_text(change):
        return "has been edited since"
    return f"is {change.actual or 'missing'} now instead of {change.wanted or 'missing'}"


def intended(change: Change) -> str:
    """What was to happen: `was to gain 2 lines`, `was to become 0644`."""
    if not change.diff:
        secret = change.wanted == "differs" and not change.actual
        return "was to change" if secret else f"was to become {change.wanted or 'absent'}"
    lines = change.diff.splitlines()
    gained = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    dropped = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    counts = [f"{verb} {n} line{'' if n == 1 else 's'}" for verb, n in (("gain", gained), ("lose", dropped)) if n]
    return f"was to {' and '.join(counts) or 'change'}"


def is_text(change: Change) -> bool:
    """Whether a difference is one of whole texts or secrets, which are told by their digests."""
    return bool(change.diff or change.digest)


def wanted(change: Change) -> str:
    """The wanted side of a difference, or what tells it from others."""
    return change.digest.partition("/")[2] or change.wanted


def beyond(shown: Outcome, now: Outcome) -> Iterator[str]:
    """What of a resource is to become other than was shown, once the preparing phases are done."""
    before = by_name(shown)
    for change in now.changes:
        is_known = change.name in before and (now.id, change.name) not in LATE
        if is_known and wanted(before[change.name]) != wanted(change):
            yield f"{now.id}: {'it' if change.name == 'content' else change.name} is to become other than was shown."


def folded(reasons: Iterable[Reason]) -> list[str]:
    """A line for each reason, with all of its hosts in front."""
    alike: dict[str, list[str]] = {}
    for host, reason in reasons:
        alike.setdefault(reason, []).append(host)
    lines = [f"{fold(hosts)}: {reason}" for reason, hosts in alike.items()]
    return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES} more."]


def refusal(plan: SavedPlan, lines: Sequence[str], *, is_prepared: bool) -> str:
    """What to say of a plan that is no longer true.

    Args:
        plan: the saved plan.
        lines: the reasons.
        is_prepared: whether the preparing phases are done already.
    """
    versions = "" if plan.slurmfab == __version__ else f" (made by slurmfab {plan.slurmfab}, this is {__version__})"
    done = (
        "Users, packages and keys are in place, and the rest was not begun."
        if is_prepared
        else "Nothing was changed on any host."
    )
    head = f"What the saved plan shows{versions} is not what a deployment would do now:"
    return "\n".join((head, *(f"  {line}" for line in lines), f"{done} Make the plan again: fab plan --save FILE"))


def when(path: Path) -> str:
    """When a file was last written, for people."""
    return f"{datetime.fromtimestamp(path.stat().st_mtime).astimezone():%Y-%m-%d %H:%M:%S}"


def local(moment: str) -> str:
    """A moment in UTC (ISO 8601) as people here write it."""
    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return moment
