"""What held a job back before the last cause of its wait: whatever it could not have started beside, and that ended.

Slurm keeps no reasons of a wait but the last one. A limit that was used up, a node that was out of service or a
reservation is on record by itself, and a job that asked for just that cannot have started meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from slurmfab.commands.explain import limits, nodes
from slurmfab.commands.explain.chain import MOST_NAMED, clock, held_by, listed, out_of_service
from slurmfab.commands.explain.evidence import Attempt, Evidence, Quote, Reservation, moment, nodes_in
from slurmfab.commands.explain.options import wants_nodes
from slurmfab.on_hosts.agent.client.commands import moment as seconds_since_1970

SHORT = 2.0  # a cause that ended so soon after the submission held nothing back
_MADE = re.compile(r"Created reservation=(\S+) .*?nodes=(\S+) .*?start=(\S+) end=(\S+)")
_GONE = re.compile(r"(?:resv_delete|delete_reservation) complete for (\S+)")


class Earlier(NamedTuple):
    """A cause that held a job back for a part of its wait."""

    about: str  # words that another text about the same cause has, too
    ended: float
    text: str
    quotes: tuple[Quote, ...]


def causes(e: Evidence, job: Attempt, spell: tuple[float, float]) -> list[Earlier]:
    """The causes that ended within a spell of a wait, in the order of their ends."""
    since, till = spell
    found = (*of_limits(e, job, spell), *of_nodes(e, job, spell), *of_reservations(e, job))
    # Records have whole seconds, and lines of logs parts of them.
    return sorted((one for one in found if since + SHORT < one.ended < till + 1), key=lambda one: one.ended)


def of_limits(e: Evidence, job: Attempt, spell: tuple[float, float]) -> Iterator[Earlier]:
    """The limits that others had used up. One of a QOS counts in place of that of an account."""
    known: set[tuple[str, str]] = set()
    for word in limits.ALL:
        limit = limits.limit_of(e, job, word)
        key = (word.removeprefix("QOS").removeprefix("Assoc")[:3], limit.amount.resource if limit.amount else "-")
        if not limit.amount or (key in known and word.startswith("Assoc")) or limit.holds_back(job, ()):
            continue
        known.add(key)
        counted = [one for one in e.others if limits.counts(limit, one, e) and one.number != job.number]
        for end in sorted({one.ended for one in counted if spell[0] < one.ended <= spell[1]}, reverse=True):
            holders = [one for one in counted if one.holds(end - 1.0, e.now)]
            if limit.holds_back(job, holders) and sum(map(limit.asked, holders)) <= limit.amount.most:
                text = f"{limit.text}, which {held_by(e.now, limit.user, holders)}"
                yield Earlier(limit.text, end, text, tuple(nodes.used(e, one) for one in holders[:MOST_NAMED]))
                break


def of_nodes(e: Evidence, job: Attempt, spell: tuple[float, float]) -> Iterator[Earlier]:
    """The times at which nodes that the job asks for were out of service."""
    for name in wants_nodes(job):
        own = [one for one in e.events if one.node == name]
        for one in own:
            if one.ended and one.ended > spell[0] and not any(abs(one.ended - next_one.begun) <= 1 for next_one in own):
                text = out_of_service(e, nodes.earliest(one, own))
                yield Earlier(text, one.ended, text, (e.event(one),))


def of_reservations(e: Evidence, job: Attempt) -> Iterator[Earlier]:
    """The reservations, over now, of nodes that the job asks for, or of all that it could have."""
    names = nodes.candidates(e, job)
    for one, quotes in (*recorded(e), *logged(e)):
        common = [name for name in names if name in one.nodes]
        is_needed = common if wants_nodes(job) else len(common) == len(names)
        reach = one.end + job.limit if job.limit else float("inf")
        if common and is_needed and one.name != job.reservation and one.start < reach:
            verb = "was" if len(common) == 1 else "were"
            start = f" from {clock(one.start, e.now)} on" if one.start > one.end else ""
            into = ", into which its time limit reached," if start else ""
            text = f"{listed(common)} {verb} reserved ({one.name}){start}{into} until {clock(one.end, e.now)}"
            yield Earlier(f"reserved ({one.name})", one.end, text, quotes)


def recorded(e: Evidence) -> Iterator[tuple[Reservation, tuple[Quote, ...]]]:
    """The reservations that have begun and ended, as slurmdbd has them."""
    for one in e.past_reservations:
        if one.end <= e.now:
            shown = f"{one.name} Start={moment(one.start)} End={moment(one.end)} NodeNames={','.join(one.nodes)}"
            yield one, (Quote(one.start, e.controller, "sacctmgr show reservation", shown),)


def logged(e: Evidence) -> Iterator[tuple[Reservation, tuple[Quote, ...]]]:
    """The reservations that were deleted before they had begun, of which slurmctld's log alone tells."""
    gone = {match[1]: line for line in e.lines if (match := _GONE.search(line.text))}
    for line in e.lines:
        made = _MADE.search(line.text)
        if made and made[1] in gone and gone[made[1]].last >= line.first:
            start, end = seconds_since_1970(made[3]) or 0.0, gone[made[1]].last
            if start > end:
                yield Reservation(made[1], start, end, nodes_in(made[2])), e.quotes([line, gone[made[1]]])
