"""Which nodes a job waited for: those out of service, those reserved, and those that others had."""

from __future__ import annotations

from collections.abc import Sequence

from slurmfab.commands.explain.chain import MOST_NAMED, NEAR, Cause, clock, listed, named, out_of_service, until
from slurmfab.commands.explain.evidence import Attempt, Event, Evidence, Quote, moment
from slurmfab.commands.explain.options import wants_nodes
from slurmfab.commands.explain.room import lacking
from slurmfab.on_hosts.agent.client.commands import moment as seconds_since_1970
from slurmfab.on_hosts.programs.user_tools.job_story import length


def candidates(e: Evidence, job: Attempt) -> tuple[str, ...]:
    """The nodes that a job could have: those that it asked for, or all of its partitions."""
    asked = wants_nodes(job)
    if asked:
        return asked
    return tuple(dict.fromkeys(node for name in job.partition.split(",") for node in e.nodes_of.get(name, ())))


def nodes_away(e: Evidence, job: Attempt, spell: tuple[float, float]) -> Cause | None:
    """Which nodes a job needed and could not have: out of service, or reserved; `None` where that is not known."""
    names = candidates(e, job)
    found = [*away(e, job, names, spell), *(reserved(e, names, job.limit) if job.is_waiting else [])]
    if not found:
        return None
    texts = [one.text for one in found]
    quotes = tuple(quote for one in found[:MOST_NAMED] for quote in one.quotes)
    asked = f"it asks for {listed(names)}; " if wants_nodes(job) else ""
    return Cause(asked + listed(texts), (e.record(job, "Reason"), *quotes))


def away(e: Evidence, job: Attempt, names: Sequence[str], spell: tuple[float, float]) -> list[Cause]:
    """The times that nodes were out of service up to the end of a wait, newest for each."""
    found = []
    for name in names:
        own = [one for one in e.events if one.node == name]
        events = [one for one in own if kept_away(one, job, spell)]
        if events:
            # Slurm begins a new event where the state gets another sign: one cause with its first beginning.
            found.append(Cause(out_of_service(e, earliest(events[-1], own)), (e.event(events[-1]),)))
        elif name in e.nodes and not e.nodes[name].state.is_in_service and job.is_waiting:
            found.append(of_state(e, name))
    return found


def kept_away(event: Event, job: Attempt, spell: tuple[float, float]) -> bool:
    """Whether a node was out of service while a job waited, until shortly before its start if it has started."""
    since, till = spell
    if event.begun >= till:
        return False
    return not event.ended or (event.ended > since and not job.is_waiting and till - event.ended <= NEAR)


def earliest(last: Event, events: Sequence[Event]) -> Event:
    """An event from its first beginning, where it goes on from others without a break and with the same reason."""
    for one in reversed(events):
        if one.ended and abs(one.ended - last.begun) <= 1 and one.reason == last.reason:
            last = last.__class__(last.node, one.begun, last.ended, last.state, one.by or last.by, last.reason)
    return last


def of_state(e: Evidence, name: str) -> Cause:
    """What slurmctld says of a node that is out of service, where no event is on record."""
    state = e.nodes[name].state
    word = "drained" if state.is_drained else state.description
    begun = seconds_since_1970(state.since) or 0
    event = Event(name, int(begun), 0, "DRAIN" if state.is_drained else "DOWN", state.by, state.reason)
    shown = f"NodeName={name} State={state.description} Reason={state.reason} [{state.by}@{state.since}]"
    quote = Quote(begun, e.controller, "scontrol show node", shown)
    return Cause(out_of_service(e, event) if begun else f"{name} is {word}", (quote,))


def reserved(e: Evidence, names: Sequence[str], limit: float) -> list[Cause]:
    """The reservations that have some of these nodes now, or soon for a job of that time limit."""
    found = []
    for one in e.reservations:
        common = [name for name in names if name in one.nodes]
        if common and one.end > e.now and (not limit or one.start < e.now + limit):
            verb = "is" if len(common) == 1 else "are"
            begun = f" from {clock(one.start, e.now)} on," if one.start > e.now else ""
            text = f"{listed(common)} {verb} reserved ({one.name}){begun} until {clock(one.end, e.now)}"
            if begun and limit:
                text += f", and its time limit of {length(limit)} reaches into that"
            shown = f"ReservationName={one.name} StartTime={moment(one.start)} EndTime={moment(one.end)}"
            line = f"{shown} Nodes={','.join(one.nodes)}"
            found.append(Cause(text, (Quote(one.start, e.controller, "scontrol show reservation", line),)))
    return found


def queue(e: Evidence, job: Attempt, spell: tuple[float, float]) -> Cause | None:
    """What a job waited for in the queue: nodes that came back, or that other jobs gave free; or what is so now."""
    names = job.nodes or candidates(e, job)
    out = away(e, job, names, spell)
    if job.started and out and (wants_nodes(job) or len(out) == len(candidates(e, job))):
        return of_nodes(out)
    there = [one for one in e.others if set(one.nodes) & set(names)]
    at = before_release(there, job, e.now)
    holders = [one for one in there if one.holds(at, e.now)]
    holders.sort(key=lambda one: (-(one.ended or e.now), one.number))
    short = {node: lacking(e, job, node, [one for one in holders if node in one.nodes]) for node in names}
    full = [node for node in names if short[node]]
    if job.started and len(full) < len(job.nodes or (1,)):
        return Cause("", (e.record(job, "Reason", "Submit", "Eligible", "Start"),))
    others = of_nodes(away(e, job, [node for node in names if node not in full], spell) if job.is_waiting else [])
    if not full:
        return others if others.text else None
    of_full = [one for one in holders if set(one.nodes) & set(full)]
    verb = "had" if not job.is_waiting else "have" if len(full) > 1 else "has"
    who = listed(f"{named(one, job.user)} ({until(one, e.now)})" for one in of_full)
    gres = [what for what in dict.fromkeys(short[full[0]]) if what not in ("CPUs", "MiB of memory")]
    what = f"no {listed(gres)} left for it" if gres and len(gres) == len(short[full[0]]) else "no room for it"
    text = f"{listed(full)} {verb} {what} beside {who}"
    quotes = (*(used(e, one) for one in of_full[:MOST_NAMED]), *others.quotes)
    return Cause("; ".join(filter(None, (text, others.text))), quotes)


def before_release(others: Sequence[Attempt], job: Attempt, now: float) -> float:
    """The moment at which others still had what a job then got: just before the last of them ended; or now.

    Of a job that ended while it waited, the moment before that.
    """
    if not job.started:
        return now if job.is_waiting else job.ended - 1.0
    ends = [one.ended for one in others if one.started and 0 <= job.started - one.ended <= NEAR]
    return max(ends, default=0) - 1.0


def of_nodes(found: Sequence[Cause]) -> Cause:
    """Causes of several nodes as one."""
    return Cause(listed(one.text for one in found), tuple(quote for one in found[:MOST_NAMED] for quote in one.quotes))


def used(e: Evidence, job: Attempt) -> Quote:
    """What a job had, and when, as a quote."""
    return e.record(job, "User", "QOS", "State", "Start", "End", "NodeList", "AllocTRES", "Gres")
