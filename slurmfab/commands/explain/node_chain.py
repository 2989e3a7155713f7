"""The chain of a node: since when it is in its state, by whom and why, what became of jobs, what brings it back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from slurmfab.base.program_name import FAB
from slurmfab.commands.explain.chain import Link, clock, held, listed, named, out_of_service, run_at, stopped
from slurmfab.commands.explain.evidence import Attempt, Event, Evidence, Quote
from slurmfab.commands.explain.nodes import earliest, of_state, reserved
from slurmfab.core.status.snapshot import Node
from slurmfab.on_hosts.agent.client.commands import moment
from slurmfab.on_hosts.agent.logs.what_matters import GRAVE, jobs_in
from slurmfab.on_hosts.agent.nodes.states import SLURMS_OWN
from slurmfab.on_hosts.programs.user_tools.job_story import length

MARGIN = 30.0  # seconds around a change of state whose jobs and lines belong to it
BESIDE = 3.0  # seconds around it whose lines are quoted
MOST_EVENTS = 5
MOST_LINES = 5
_ANEW = re.compile(r"version \S+ started|reconfig", re.IGNORECASE)
_OTHER_CONF = re.compile(r"appears to have a different slurm\.conf")


def links(e: Evidence, name: str, lost: Mapping[str, str], health: Sequence[str]) -> tuple[Link, ...]:
    """All links of a node. `lost`: hosts that do not answer. `health`: what its health check finds now."""
    node = e.nodes.get(name)
    events = [one for one in e.events if one.node == name]
    found: list[Link] = []
    if node:
        found += state(e, node, events)
    found += held(e, name)
    since = since_of(node, events) if node and not node.state.is_in_service else 0.0
    found += jobs(e, name, since)
    found += [Link("state", 0, one.text, one.quotes) for one in reserved(e, [name], 0)]
    found += daemons(e, name, since)
    if name in lost:
        found.append(Link("unknown", 0, f"{name} does not answer over SSH: {lost[name]}"))
    found += [Link("health", 0, f"its health check finds now: {one}") for one in health]
    if node:
        found += repair(node, name in lost, health)
    return tuple(found)


def since_of(node: Node, events: Sequence[Event]) -> float:
    """Since when a node is out of service; 0 where that is not known."""
    open_ones = [one for one in events if not one.ended]
    if open_ones:
        return earliest(open_ones[-1], events).begun
    return moment(node.state.since) or 0.0


def state(e: Evidence, node: Node, events: Sequence[Event]) -> Iterator[Link]:
    """What the node is now, and what it was before."""
    reason = f" Reason={node.state.reason} [{node.state.by}@{node.state.since}]" if node.state.reason else ""
    shown = f"NodeName={node.name} State={node.state.description}{reason}"
    quote = Quote(0, e.controller, "scontrol show node", shown)
    past = [one for one in events if one.ended]
    if node.state.is_in_service:
        over = {str(one.number) for one in e.over}
        there = [one for one in e.others if node.name in one.nodes and one.is_at_work]
        at_work = [one for one in there if one.number not in over]
        who = f", with {listed(named(one) for one in at_work)}" if at_work else ""
        yield Link("state", 0, f"{node.name} is in service ({node.state.description}){who}", (quote,))
        for one in past[-MOST_EVENTS:]:
            yield Link("state", one.begun, event_text(e, one), (e.event(one),))
        return
    open_ones = [one for one in events if not one.ended]
    since = since_of(node, events)
    if open_ones:
        text, quotes = event_text(e, earliest(open_ones[-1], events)), [e.event(open_ones[-1]), quote]
    else:
        cause = of_state(e, node.name)
        run = run_at(e, node.name, since) if since else ""
        text, quotes = cause.text + (f" ({run})" if run else ""), [quote]
    yield Link("state", since, text + (f", for {length(e.now - since)}" if since else ""), tuple(quotes))


def event_text(e: Evidence, event: Event) -> str:
    """What an event did, with the run of slurmfab that it belongs to."""
    run = run_at(e, event.node, event.begun)
    return out_of_service(e, event) + (f" ({run})" if run else "")


def jobs(e: Evidence, name: str, since: float) -> Iterator[Link]:
    """The jobs that the node lost when it went out of service, and those that it still has."""
    if not since:
        return
    own = [one for one in e.others if name in one.nodes]
    lost = [
        one for one in own
        if one.state in ("NODE_FAIL", "REQUEUED", "BOOT_FAIL") and abs((one.ended or e.now) - since) <= MARGIN
    ]  # fmt: skip
    still = [one for one in own if one.is_at_work]
    ended = [one for one in own if one.ended > since + MARGIN and one.started and one not in lost]
    if lost:
        fates = listed((f"{named(one)} ({'put back' if one.state == 'REQUEUED' else one.state})" for one in lost), 8)
        yield Link("jobs", since, f"it lost {fates}", tuple(record(e, one) for one in lost[:3]))
    if ended:
        text = f"since then {len(ended)} job{'s have' if len(ended) > 1 else ' has'} ended there"
        yield Link(
            "jobs",
            since,
            f"{text}: {listed((f'{named(one)} ({one.state})' for one in ended), 5)}",
            tuple(record(e, one) for one in ended[:3]),
        )
    if still:
        yield Link(
            "jobs",
            0,
            f"it still has {listed((named(one) for one in still), 8)}",
            tuple(record(e, one) for one in still[:3]),
        )
    if not (lost or ended or still):
        yield Link(
            "jobs", since, "it lost no job" if e.has_records else "which jobs it lost is not known without accounting"
        )


def record(e: Evidence, job: Attempt) -> Quote:
    """The record of a job as a quote."""
    return e.record(job, "User", "State", "Start", "End", "NodeList")


def daemons(e: Evidence, name: str, since: float) -> Iterator[Link]:
    """What logs say around the moment at which the node went out of service; of a node in service what is wrong."""
    is_named = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    about = [line for line in e.lines if name in line.hosts or is_named.search(line.text)]
    starts = (line for line in e.lines if name in line.hosts or line.source == "slurmctld")
    anew = max((line.last for line in starts if _ANEW.search(line.text)), default=0.0)
    if conf := [line for line in about if _OTHER_CONF.search(line.text) and line.last > anew][-1:]:
        text = f"at {clock(conf[0].last, e.now)} slurmctld said that its slurm.conf was another one than slurmctld's"
        yield Link("daemons", conf[0].last, f"{text}. To compare: {FAB} plan", e.quotes(conf))
        about.remove(conf[0])
    if not since:
        wrong = [line for line in about if line.source.startswith("slurm") and GRAVE.search(line.text)]
        if wrong:
            yield Link("lines", 0, "of the last hour", e.quotes(wrong[-MOST_LINES:], MOST_LINES))
        return
    ends = stopped(e, name, since)
    if ends:
        yield Link("daemons", since, listed(text for text, _ in ends), e.quotes([line for _, line in ends]))
    near = [line for line in about if abs(line.first - since) <= BESIDE]
    ids = {one for line in near for one in jobs_in(line.text)}
    whose = listed(dict.fromkeys(named(one) for one in e.others if {one.id, one.number} & ids))
    if near:
        yield Link(
            "lines", since, "around that time" + (f", about {whose}" if whose else ""), e.quotes(near, MOST_LINES)
        )


def repair(node: Node, is_silent: bool, health: Sequence[str]) -> Iterator[Link]:
    """What brings a node back into service."""
    state, name = node.state, node.name
    if state.is_in_service:
        return
    if state.is_under_way:
        yield Link("repair", 0, "it comes back by itself; wait")
    elif is_silent:
        yield Link("repair", 0, f"switch it on, or repair its network, then: {FAB} resume {name}")
    elif state.is_for_health or health:
        yield Link(
            "repair", 0, f"repair what the health check finds; it then resumes the node. At once: {FAB} resume {name}"
        )
    elif state.is_set_by_person:
        yield Link("repair", 0, f"when {state.by} agrees: {FAB} resume {name} --any")
    elif "DOWN" in state.flags or state.reason.startswith(SLURMS_OWN) or not state.answers:
        yield Link("repair", 0, f"{FAB} resume {name}, which repairs its daemons first")
    else:
        yield Link("repair", 0, f"{FAB} resume {name}")
