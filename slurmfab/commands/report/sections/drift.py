"""What a deployment would change now, as `fab plan` has it, with the kinds of drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurmfab.base.hostlist import fold
from slurmfab.base.markup import Markup, fill
from slurmfab.base.program_name import FAB
from slurmfab.commands.report.section import Missing, Section, Sources, Tone
from slurmfab.core.engine.report import Report, Step, describe
from slurmfab.core.impact.drift_kinds import CHANGED_FILE, CRASHED, KEY_NOT_LOADED, OLDER_FILE, OTHER_HARDWARE
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, Outcome

ID, TITLE = "drift", "Drift"

TO_DO = "to be deployed"
"""The kind of differences that are no drift: the cluster file asks for something that the hosts do not have yet."""

REPAIRS = {
    CHANGED_FILE: f"{FAB} deploy writes the file again.",
    OLDER_FILE: f"{FAB} deploy has the daemon read its file.",
    KEY_NOT_LOADED: f"{FAB} deploy restarts munge.",
    CRASHED: f"systemd has started it again; its log and journal say why it ended, and {FAB} deploy takes note of it.",
    OTHER_HARDWARE: "Repair the node; if its hardware was changed on purpose, see the last line.",
    TO_DO: f"{FAB} deploy does it; {FAB} plan shows it in full.",
    FAILED: f"The comparison failed there; {FAB} plan shows it in full.",
}
"""What to do about each kind, the kinds in the order of the page."""

MOST_LINES = 40  # so many lines of a difference are shown
MOST_GROUPS = 200  # so many differences are shown


@dataclass(frozen=True)
class Difference:
    """The same difference on some hosts."""

    hosts: str  # as a hostlist
    count: int  # how many these are
    phase: str  # in which a deployment would change it
    lines: tuple[str, ...]
    more: int = 0  # how many lines are left out


@dataclass(frozen=True)
class Kind:
    """All differences of one kind, on how many hosts they are, and what to do."""

    name: str
    hosts: int
    repair: str
    differences: tuple[Difference, ...]
    more: int = 0


def section(sources: Sources) -> Section | None:
    """The differences; none where the hosts were not asked."""
    plan = sources.plan
    if isinstance(plan, Missing):
        return Section(ID, TITLE, Markup(""), note=plan.reason) if plan.reason else None
    kinds = kinds_of(plan.steps)
    badge, tone = badge_of(plan)
    content = fill("drift.html.j2", kinds=kinds, daemons=plan.forecast.renewal)
    return Section(ID, TITLE, content, note=note_of(plan), badge=badge, tone=tone)


def differing_hosts(plan: Report) -> set[str]:
    """The hosts on which something differs."""
    return {step.host for step in plan.steps if step.differs}


def badge_of(plan: Report) -> tuple[str, Tone]:
    """How many hosts differ."""
    count = len(differing_hosts(plan))
    return (f"{count} {'host' if count == 1 else 'hosts'}", "watch") if count else ("none", "good")


def note_of(plan: Report) -> str:
    """What was compared with what."""
    compared = len({step.host for step in plan.steps})
    differing = len(differing_hosts(plan))
    if not differing:
        return f"All {compared} hosts that answered are as the cluster file says."
    return f"{differing} of {compared} hosts differ from the cluster file; nothing was changed for this page."


def kinds_of(steps: Sequence[Step]) -> tuple[Kind, ...]:
    """The differences by kind, those of equal hosts together."""
    alike: dict[str, dict[tuple[str, tuple[Outcome, ...]], list[str]]] = {}
    for step in steps:
        by_kind: dict[str, list[Outcome]] = {}
        for outcome in step.outcomes:
            if outcome.status != OK:
                plain = replace(outcome, seconds=0.0, drift="")
                by_kind.setdefault(FAILED if outcome.status == FAILED else outcome.drift or TO_DO, []).append(plain)
        for kind, outcomes in by_kind.items():
            alike.setdefault(kind, {}).setdefault((step.phase, tuple(outcomes)), []).append(step.host)
    return tuple(made_kind(name, alike[name]) for name in REPAIRS if name in alike)


def made_kind(name: str, alike: dict[tuple[str, tuple[Outcome, ...]], list[str]]) -> Kind:
    """All differences of one kind. `alike`: hosts by phase and outcomes."""
    ordered = sorted(alike.items(), key=lambda item: -len(item[1]))
    shown = [difference(phase, outcomes, hosts) for (phase, outcomes), hosts in ordered[:MOST_GROUPS]]
    hosts = Counter(host for names in alike.values() for host in names)
    return Kind(name, len(hosts), REPAIRS[name], tuple(shown), max(0, len(ordered) - MOST_GROUPS))


def difference(phase: str, outcomes: Sequence[Outcome], hosts: Sequence[str]) -> Difference:
    """One difference, with its first lines."""
    lines = [line for outcome in outcomes for text in describe(outcome) for line in text.splitlines()]
    return Difference(fold(hosts), len(hosts), phase, tuple(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES))
