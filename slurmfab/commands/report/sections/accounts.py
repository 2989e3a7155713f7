"""Accounts, users and QOS with their limits, and how much of each is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slurmfab.base.markup import Markup, fill
from slurmfab.commands.report.charts import amount
from slurmfab.commands.report.section import Missing, Section, Sources, Tone
from slurmfab.core.status.limits_in_use import Limit, LimitedUse

ID, TITLE = "accounts", "Accounts and limits"

MOST_ACCOUNTS, MOST_USERS = 300, 50
"""So many accounts are shown, in the order of their tree, and so many users, those nearest to a limit first."""

NEARLY = 0.9  # from this part on, a limit is nearly used up

NOTE = (
    "As slurmctld counts it: what running jobs have now, and the limits that are set. Share and use lately are parts "
    "among the accounts with the same parent; the mark in the bar of the use is the share."
)

MEMORY = "MiB of memory"
_MIB_PER_GIB = 1024


@dataclass(frozen=True)
class Bar:
    """A limit as a bar."""

    text: str  # such as `12 of 100 CPUs`
    percent: float  # the width of the bar: 100 where the limit is used up
    tone: Tone  # `bad` where nothing is left, `watch` where little is left, otherwise `plain`
    words: str  # `used up` or `nearly used up`; empty where enough is left


@dataclass(frozen=True)
class Row:
    """An account, user or QOS."""

    name: str
    depth: int  # how many accounts are above it
    account: str  # of a user; empty for the others
    running: str  # what its jobs have now, in words
    shares: float | None  # its part by shares among its siblings, in percent; `None` where it has none, as root
    usage: float | None  # its part of the use lately, in percent; `None` where it has none
    bars: tuple[Bar, ...]


def section(sources: Sources) -> Section | None:
    """The accounts; none where the cluster has no accounting."""
    found = sources.limits
    if isinstance(found, Missing):
        return Section(ID, TITLE, Markup(""), note=found.reason) if found.reason else None
    tree = list(in_tree([one for one in found if one.account and not one.user]))
    users = sorted((one for one in found if one.user and (one.limits or one.running)), key=lambda one: -one.fullest)
    qos = [one for one in found if one.qos and (one.limits or one.running)]
    content = fill(
        "accounts.html.j2",
        accounts=[row_of(one, depth) for one, depth in tree[:MOST_ACCOUNTS]],
        more_accounts=max(0, len(tree) - MOST_ACCOUNTS),
        users=[row_of(one) for one in users[:MOST_USERS]],
        more_users=max(0, len(users) - MOST_USERS),
        qos=[row_of(one) for one in qos],
    )
    badge, tone = badge_of(found)
    return Section(ID, TITLE, content, note=NOTE, badge=badge, tone=tone)


def badge_of(found: Sequence[LimitedUse]) -> tuple[str, Tone]:
    """How many limits are used up."""
    count = sum(limit.part >= 1 for one in found for limit in one.limits)
    return (f"{count} used up", "watch") if count else ("", "plain")


def in_tree(accounts: Sequence[LimitedUse]) -> Iterator[tuple[LimitedUse, int]]:
    """The accounts in the order of their tree, each with the number of accounts above it."""
    below: dict[str, list[LimitedUse]] = {}
    names = {one.account for one in accounts}
    for one in accounts:
        below.setdefault(one.parent if one.parent in names and one.parent != one.account else "", []).append(one)
    waiting = [(one, 0) for one in reversed(below.pop("", []))]
    while waiting:
        account, depth = waiting.pop()
        yield account, depth
        waiting += [(one, depth + 1) for one in reversed(below.pop(account.account, []))]


def row_of(one: LimitedUse, depth: int = 0) -> Row:
    """The row of an account, user or QOS."""
    return Row(
        name=one.qos or (f"{one.user} in {one.partition}" if one.partition else one.user) or one.account,
        depth=depth,
        account=one.account if one.user else "",
        running=running_text(one.running),
        shares=100 * one.shares if one.shares else None,
        usage=100 * one.usage if one.shares and one.usage is not None else None,
        bars=tuple(map(bar_of, one.limits)),
    )


def running_text(running: Mapping[str, float]) -> str:
    """What running jobs have: `3 jobs, 12 CPUs, 1 GPU`."""
    shown = {"running jobs": "job", "CPUs": "CPU", "GPUs": "GPU"}
    return ", ".join(
        f"{amount(running[name])} {one}{'' if running[name] == 1 else 's'}"
        for name, one in shown.items()
        if name in running
    )


def bar_of(limit: Limit) -> Bar:
    """A limit as a bar."""
    used, allowed, what = limit.used, limit.limit, limit.resource
    if what == MEMORY:
        used, allowed, what = used / _MIB_PER_GIB, allowed / _MIB_PER_GIB, "GiB of memory"
    tone: Tone = "bad" if limit.part >= 1 else "watch" if limit.part >= NEARLY else "plain"
    words = {"bad": "used up", "watch": "nearly used up"}.get(tone, "")
    percent = round(100 * min(1.0, limit.part), 1)
    return Bar(f"{amount(used)} of {amount(allowed)} {what}", percent, tone, words)
