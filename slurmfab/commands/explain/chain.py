"""A chain of causes: links in the order of time, each with the lines that it rests on."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from slurmfab.base.program_name import FAB
from slurmfab.commands.explain.evidence import Attempt, Event, Evidence, Quote, nodes_in
from slurmfab.commands.logs.asking import Told
from slurmfab.on_hosts.agent.client.amounts import bounded
from slurmfab.on_hosts.agent.logs.what_matters import BY_SYSTEMD
from slurmfab.on_hosts.agent.nodes.states import OURS, SLURM_USER, parse_reason
from slurmfab.on_hosts.programs.user_tools.job_story import length

NEAR = 15.0  # seconds between a cause and its effect, for Slurm looks at its queue from time to time
STOPPED_BEFORE = 600.0  # seconds between the end of a daemon and the moment at which slurmctld misses its node
_STARTED = re.compile(r"\bStarted\b")
_STOPPED = re.compile(r"Main process exited, code=(?:killed|exited|dumped)|Failed with result|\bStopped\b")
MOST_NAMED = 3  # how many jobs one sentence names


@dataclass(frozen=True)
class Link:
    """A link of the chain."""

    what: str  # `waited`, `started`, `ended`, `held`, `fault`, `state`, `jobs`, `repair` or `unknown`
    at: float  # when, in UTC; null where it is about no moment
    text: str  # for people
    quotes: tuple[Quote, ...] = ()  # the lines that it rests on


class Cause(NamedTuple):
    """Why a job waited for a while; empty text where that is not known."""

    text: str
    quotes: tuple[Quote, ...] = ()


def clock(seconds: float, now: float) -> str:
    """A time in this machine's zone; with its day unless that is today."""
    then = datetime.fromtimestamp(bounded(seconds))
    is_today = then.date() == datetime.fromtimestamp(bounded(now)).date()
    return then.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def listed(texts: Iterable[str], most: int = MOST_NAMED) -> str:
    """Texts as a list for people.

    >>> listed(["a", "b", "c"]), listed("abcde")
    ('a, b and c', 'a, b, c and 2 more')
    """
    found = list(texts)
    if len(found) > most:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    return " and ".join(filter(None, (", ".join(found[:-1]), found[-1]))) if found else ""


def named(job: Attempt, of: str = "") -> str:
    """A job with its user, who is left out if the sentence is about that user already."""
    return f"job {job.id}" + (f" of {job.user}" if job.user != of else "")


def held(e: Evidence, node: str = "", numbers: Container[str] = ()) -> Iterator[Link]:
    """The links about jobs that have ended and still hold nodes: on a node, or those with these numbers."""
    for one in e.over:
        for name in nodes_in(one.node_list):
            if name == node or str(one.number) in numbers:
                text, repair = e.waits.get((one.number, name), ("what it waits for there is not known", ""))
                whose = f"{one.text}, still holds the node" if node else f"it still holds {name}"
                shown = Quote(0, e.controller, "squeue", f"JobID={one.id} NodeList={one.node_list}")
                since = length(e.now - one.at)
                yield Link("held", one.at, f"{whose}, {since} after its end: {text}", (shown,))
                if repair:
                    yield Link("held", 0, f"to free {name}: {repair}")


def until(job: Attempt, now: float) -> str:
    """Until when a job had, or has, its resources."""
    if job.state == "COMPLETING":
        return "which has ended, but not yet its epilog or its processes there"
    return f"until {clock(job.ended, now)}" if job.ended else f"since {clock(job.started, now)}"


def stopped(e: Evidence, node: str, before: float) -> list[tuple[str, Told]]:
    """The daemons of a node that had stopped when it went out of service, each with systemd's line."""
    found: dict[str, tuple[str, Told]] = {}
    there = [line for line in e.lines if node in line.hosts and line.text.startswith(BY_SYSTEMD)]
    started = {line.source: line.last for line in there if _STARTED.search(line.text) and line.first <= before}
    for line in there:
        end = _STOPPED.search(line.text)
        # A line that came several times stands for all of these.
        if end and max(before - STOPPED_BEFORE, started.get(line.source, 0.0)) < line.last <= before:
            word = "was killed" if "killed" in end[0] else "was stopped" if end[0] == "Stopped" else "failed"
            found.setdefault(line.source, (f"{line.source} of {node} {word} at {clock(line.last, e.now)}", line))
    return list(found.values())


def held_by(now: float, user: str, holders: Iterable[Attempt]) -> str:
    """Whose jobs have, or had, what a limit allows: `job 4 held until 02:28:52`."""
    return listed(
        f"{named(one, user)} {'held' if one.ended else 'has'} {until(one, now)}"
        for one in sorted(holders, key=lambda one: (one.ended or now, one.number))
    )


def out_of_service(e: Evidence, event: Event) -> str:
    """What an event did to its node, by whom and why: `n2 was drained 13:58:02 to 14:05:10 by root: broken fan`."""
    reason = parse_reason(event.reason)
    words = {"DRAIN": "drained", "DOWN": "down", "INVAL": "refused by slurmctld"}
    word = next((words[one] for one in words if one in event.state), event.state.lower())
    ended = f" to {clock(event.ended, e.now)}" if event.ended else ""
    verb, since = ("was", "") if ended else ("is", "since ")
    who = author(reason.author or event.reason.startswith(OURS) * OURS, event.by)
    why = f": {reason.text}" if reason.text else ", without a reason"
    return f"{event.node} {verb} {word} {since}{clock(event.begun, e.now)}{ended}{who}{why}"


def author(ours: str, slurms: str) -> str:
    """By whom a node was taken out of service, for a sentence; empty where that is not known."""
    if ours:
        known = {"health check": " by its health check", OURS: " by slurmfab"}
        return known.get(ours, f" by {ours} with slurmfab")
    return " by slurmctld itself" if slurms == SLURM_USER else f" by {slurms}" if slurms else ""


def run_at(e: Evidence, node: str, at: float) -> str:
    """The run of slurmfab that was at work on a node, or on the nodes' states, at a moment; empty for none."""
    for run in e.runs:
        end = run.ended.timestamp() if run.ended else run.begun.timestamp() + run.seconds
        if run.begun.timestamp() - 1 <= at <= end + 1 and touches(run.steps, node):
            return f"{FAB} {run.command} by {run.by} ({run.run})"
    return ""


def touches(steps: Iterable[object], node: str) -> bool:
    """Whether steps of a run changed a node's host, or its state in Slurm."""
    for step in steps:
        for outcome in getattr(step, "outcomes", ()):
            kind, _, names = outcome.id.partition(":")
            if outcome.status == "changed" and (
                getattr(step, "host", "") == node or (kind.startswith("node-") and node in names.split(","))
            ):
                return True
    return False
