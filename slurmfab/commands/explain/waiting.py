"""Why a job waited, spell by spell: before Slurm counted it as eligible, and until it had its nodes.

Slurm writes the reason of a wait nowhere while it changes: squeue has the present one, and slurmdbd keeps the last one
that is not the queue itself. The rest is taken from what ended shortly before the job started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from slurmfab.commands.explain import limits
from slurmfab.commands.explain.chain import MOST_NAMED, NEAR, Link, clock, listed, named, out_of_service, until
from slurmfab.commands.explain.evidence import AT_WORK, Attempt, Event, Evidence, Quote, moment, nodes_in
from slurmfab.commands.logs.asking import Told
from slurmfab.on_hosts.agent.client.amounts import mebibytes_of, tres_of
from slurmfab.on_hosts.agent.client.commands import moment as seconds_since_1970
from slurmfab.on_hosts.agent.logs.evidence import jobs_named
from slurmfab.on_hosts.agent.logs.what_matters import jobs_in
from slurmfab.on_hosts.programs.user_tools import reasons
from slurmfab.on_hosts.programs.user_tools.job_story import length

AT_ONCE = 5.0  # a wait up to so many seconds needs no cause: Slurm starts jobs in rounds
ELIGIBLE = 2.0  # a job that was eligible within so many seconds was so from the beginning
QUEUE = ("", "Resources", "Priority")
_HOLD = re.compile(r"\bhold on JobId=\S+ by uid (\d+)")
_RELEASE = re.compile(r"\brelease hold on JobId=\S+ by uid (\d+)")
_UID = re.compile(r"\buid[ =](\d+)")
_OPTION = {
    "begin": re.compile(r"(?:^|\s)(?:--begin[= ]|-b ?)(now\S*|\d\S*[:T+-]\S*|[a-z]{4,}|\d{6,})"),
    "hold": re.compile(r"(?:^|\s)(?:--hold|-H)(?=\s|$)"),
    "dependency": re.compile(r"(?:^|\s)(?:--dependency[= ]|-d ?)(\S+)"),
    "nodes": re.compile(r"(?:^|\s)(?:--nodelist[= ]|-w ?)(\S+)"),
    "licenses": re.compile(r"(?:^|\s)(?:--licenses[= ]|-L ?)(\S+)"),
}


class Cause(NamedTuple):
    """Why a job waited for a while; empty text where that is not known."""

    text: str
    quotes: tuple[Quote, ...] = ()


def links(e: Evidence, job: Attempt, *, was_requeued: bool) -> Iterator[Link]:
    """The links about the wait of a job."""
    end = job.started or job.ended or e.now
    if job.submitted and job.started and end - job.submitted <= AT_ONCE:
        return
    if not job.submitted:
        return
    is_held = job.is_waiting and "held" in job.reason.lower()
    eligible = end if is_held or not_yet(job, end) else min(job.eligible or job.submitted, end)
    spells = [(job.submitted, eligible, before_eligible), (max(eligible, job.submitted), end, in_the_queue)]
    for since, till, causes in spells:
        if till - since <= (ELIGIBLE if causes is before_eligible else AT_ONCE) and not (
            job.is_waiting and till >= end > since
        ):
            continue
        cause = causes(e, job, (since, till), was_requeued)
        word = "has waited" if job.is_waiting and till >= end else "waited"
        why = cause.text or "why is not on record, for Slurm keeps the last reason of a wait alone"
        yield Link("waited", since, f"{word} {length(till - since)}: {why}", cause.quotes)


def not_yet(job: Attempt, end: float) -> bool:
    """Whether a job was not yet eligible at the end of its wait."""
    return not job.started and (not job.eligible or job.eligible >= end)


def option(job: Attempt, name: str) -> str:
    """The value of an option of the command that submitted a job; its name for one without value, else empty."""
    found = _OPTION[name].search(job.submit_line.partition(" --wrap")[0])
    return (found[1] if found.groups() else name) if found else ""


def before_eligible(e: Evidence, job: Attempt, spell: tuple[float, float], was_requeued: bool) -> Cause:
    """Why a job was not eligible: it depended on others, was held, or had a time to begin."""
    till = spell[1]
    about = [line for line in e.lines if line.source == "slurmctld" and {job.id, job.number} & jobs_in(line.text)]
    released = [line for line in about if _RELEASE.search(line.text) and abs(line.first - till) <= NEAR]
    if job.reason.startswith("JobHeld") or released or (job.is_waiting and job.reason == "JobHoldMaxRequeue"):
        return held(e, job, about, released)
    depends = job.dependency or option(job, "dependency")
    if depends and (job.reason.startswith("Dependency") or not job.is_waiting):
        cause = dependency(e, job, depends, till)
        if cause.text:
            return cause
    if job.is_waiting and "held" in job.reason:
        return Cause(sentence(job), (e.record(job, "State", "Reason"),))
    if was_requeued and (job.reason == "BeginTime" or not option(job, "begin")):
        at = f", to {clock(job.eligible, e.now)}" if job.eligible else ""
        return Cause(f"Slurm puts off a job that was put back{at}", (e.record(job, "State", "Reason", "Eligible"),))
    if job.reason == "BeginTime" or option(job, "begin"):
        at = f" at {clock(job.eligible, e.now)}" if job.eligible else " later"
        asked = "was submitted to begin" if job.started or job.ended else "is to begin"
        quotes = (e.record(job, "Reason", "Eligible", "SubmitLine"),)
        return Cause(f"it {asked}{at} (--begin)", quotes)
    return Cause(sentence(job) if job.is_waiting else "", (e.record(job, "Reason", "Eligible"),))


def held(e: Evidence, job: Attempt, about: Sequence[Told], released: Sequence[Told]) -> Cause:
    """Who held a job, and who let it go."""
    holds = [line for line in about if _HOLD.search(line.text) and not _RELEASE.search(line.text)]
    record = e.record(job, "State", "Reason", "SubmitLine")
    if holds:
        who = e.user(_UID.search(holds[-1].text)[1])  # type: ignore[index]
        text = f"{who} held it at {clock(holds[-1].first, e.now)}"
    elif option(job, "hold"):
        text = f"{job.user} submitted it on hold (--hold)"
    elif job.reason == "JobHeldUser":
        text = f"it is on hold for {job.user}"
    elif job.reason.startswith("JobHeld") and not released:
        text = "it is on hold, by an administrator or by Slurm after a failed start"
    else:
        text = "it was on hold"
    if released:
        who = e.user(_RELEASE.search(released[-1].text)[1])  # type: ignore[index]
        text += f", until {who} released it at {clock(released[-1].first, e.now)}"
    elif job.is_waiting:
        text += f". To let it go: scontrol release {job.id.partition('_')[0]}"
    return Cause(text, (*e.quotes([*holds[-1:], *released[-1:]]), record))


def dependency(e: Evidence, job: Attempt, depends: str, till: float) -> Cause:
    """Which jobs a job depended on, and what became of them; empty where none fits."""
    ids = jobs_named([depends])
    kind = re.match(r"\w+", depends)
    word = kind[0] if kind else "dependency"
    known = [one for one in e.others if {one.id, one.number} & set(ids)]
    newest = {one.id: one for one in sorted(known, key=lambda one: (one.submitted, one.started))}
    if job.is_waiting:
        fates = [f"{named(one, job.user)} ({fate(one, e.now)})" for one in newest.values()]
        missing = [f"job {one}" for one in ids if not any(one in (job.id, job.number) for job in known)]
        text = f"it depends on {listed([*fates, *missing]) or depends} by {word}"
        if job.reason == "DependencyNeverSatisfied":
            text += f", which can no longer be met, so it never starts: scancel {job.id.partition('_')[0]}"
    else:
        last = [one for one in newest.values() if abs((one.started if word == "after" else one.ended) - till) <= NEAR]
        if not last:
            return Cause("")
        text = f"it depended by {word} on {listed(f'{named(one, job.user)} ({fate(one, e.now)})' for one in last)}"
    quotes = [e.record(one, "State", "Start", "End") for one in list(newest.values())[:MOST_NAMED]]
    return Cause(text, (e.record(job, "Reason", "Dependency", "SubmitLine"), *quotes))


def fate(job: Attempt, now: float) -> str:
    """What became of another job."""
    if job.state == "PENDING":
        return "which waits itself"
    if job.state in AT_WORK:
        return f"which runs since {clock(job.started, now)}"
    code = f" with exit code {job.code}" if job.state == "FAILED" and job.code else ""
    return f"{job.state}{code} at {clock(job.ended, now)}"


def sentence(job: Attempt) -> str:
    """What Slurm's reason means, with the reason."""
    told = reasons.explained(job.reason, job.id).rstrip(".")
    return f"{told} [{job.reason}]" if told else f"Slurm says {job.reason}" if job.reason else ""


def in_the_queue(e: Evidence, job: Attempt, spell: tuple[float, float], was_requeued: bool) -> Cause:
    """Why a job that was eligible did not have its nodes."""
    word = re.split(r"[,(:]", job.reason, maxsplit=1)[0].strip()
    if job.is_waiting and word.startswith("JobHeld"):
        return before_eligible(e, job, spell, was_requeued)
    if limits.is_limit(word):
        return limit(e, job, word)
    of_word = {"Licenses": licences, "JobArrayTaskLimit": array_tasks}
    if word in of_word:
        return of_word[word](e, job)
    found: Cause | None = None
    if word.startswith("Partition") and job.is_waiting:
        found = partition(e, job)
    elif word in ("ReqNodeNotAvail", "NodeDown", "Reservation") or "DOWN" in word:
        found = nodes_away(e, job, spell)
    elif word in QUEUE or not job.is_waiting:
        found = queue(e, job, spell)
    if found:
        return found
    last = "by the last reason on record, which need not have held all the time: " if job.started and job.reason else ""
    return Cause(last + sentence(job), (e.record(job, "State", "Reason", "Start"),))


def array_tasks(e: Evidence, job: Attempt) -> Cause:
    """Which tasks of an array run, where it limits how many may do so at once."""
    array = job.id.partition("_")[0]
    at_work = [one for one in (*e.jobs, *e.others) if one.id.partition("_")[0] == array and one.is_at_work]
    which = listed(named(one, job.user) for one in at_work)
    text = f"as many tasks of its array run as --array allows at once: {which}"
    return Cause(text, (e.record(job, "State", "Reason", "SubmitLine"),))


def limit(e: Evidence, job: Attempt, word: str) -> Cause:
    """Which limit held a job back, and whose jobs had used it up."""
    found = limits.limit_of(e, job, word)
    record = e.record(job, "User", "Account", "QOS", "Reason")
    counted = [one for one in e.others if limits.counts(found, one, e)]
    at = before_release(counted, job, e.now)
    holders = [one for one in counted if one.holds(at, e.now)]
    if not holders:
        told = found.text or sentence(job)
        return Cause(f"{told}, by the last reason on record ({word})" if job.started else told, (record,))
    holders.sort(key=lambda one: (one.ended or e.now, one.number))
    which = listed(f"{named(one, found.user)} held {until(one, e.now)}" if one.ended else
                   f"{named(one, found.user)} has {until(one, e.now)}" for one in holders)  # fmt: skip
    start = found.text or f"a limit ({word})"
    return Cause(f"{start}, which {which}", (record, *(used(e, one) for one in holders[:MOST_NAMED])))


def used(e: Evidence, job: Attempt) -> Quote:
    """What a job had, and when, as a quote."""
    return e.record(job, "User", "QOS", "State", "Start", "End", "NodeList", "AllocTRES")


def licences(e: Evidence, job: Attempt) -> Cause:
    """Whose jobs have the licences that a job wants."""
    wanted = licences_of(job)
    counted = [one for one in e.others if wanted & licences_of(one)]
    at = before_release(counted, job, e.now)
    holders = [one for one in counted if one.holds(at, e.now)]
    text = f"all licences of {listed(sorted(wanted))} were in use" if wanted else "all its licences were in use"
    if holders:
        text += f", by {listed(f'{named(one, job.user)} {until(one, e.now)}' for one in holders)}"
    quotes = (e.record(one, "User", "Start", "SubmitLine") for one in holders[:MOST_NAMED])
    return Cause(text, (e.record(job, "Reason", "SubmitLine"), *quotes))


def licences_of(job: Attempt) -> set[str]:
    """The names of the licences that a job asked for."""
    words = re.split(r"[,;|]", job.licences or option(job, "licenses"))
    asked = {word.partition(":")[0].partition("@")[0] for word in words} - {""}
    return asked | set(re.findall(r"license/([^=,]+)=", job.tres))


def partition(e: Evidence, job: Attempt) -> Cause:
    """What keeps a partition from starting a job."""
    for name in job.partition.split(","):
        found = e.partitions.get(name)
        if found and found.state != "UP" and job.reason in ("PartitionDown", "PartitionInactive"):
            quote = Quote(0, e.controller, "scontrol show partition", f"PartitionName={name} State={found.state}")
            lines = [
                line
                for line in e.lines
                if f"update_part: setting state to {found.state} for partition {name}" in line.text
            ]
            since = f" since {clock(lines[-1].last, e.now)}" if lines else ""
            repair = f"scontrol update PartitionName={name} State=UP"
            text = f"partition {name} is {found.state.lower()}{since}: it starts no jobs until {repair}"
            return Cause(text, (e.record(job, "Reason"), quote, *e.quotes(lines[-1:])))
    return Cause(sentence(job), (e.record(job, "Partition", "Reason"),))


def candidates(e: Evidence, job: Attempt) -> tuple[str, ...]:
    """The nodes that a job could have: those that it asked for, or all of its partitions."""
    asked = wants_nodes(job)
    if asked:
        return asked
    return tuple(dict.fromkeys(node for name in job.partition.split(",") for node in e.nodes_of.get(name, ())))


def wants_nodes(job: Attempt) -> tuple[str, ...]:
    """The nodes that a job asks for by name."""
    return job.wanted_nodes or nodes_in(option(job, "nodes"))


def nodes_away(e: Evidence, job: Attempt, spell: tuple[float, float]) -> Cause | None:
    """Which nodes a job needed and could not have: out of service, or reserved; `None` where that is not known."""
    names = candidates(e, job)
    found = [*away(e, job, names, spell), *([] if job.started else reserved(e, names))]
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
        elif name in e.nodes and not e.nodes[name].state.is_in_service and not job.started:
            found.append(of_state(e, name))
    return found


def kept_away(event: Event, job: Attempt, spell: tuple[float, float]) -> bool:
    """Whether a node was out of service while a job waited, until shortly before its start if it has started."""
    since, till = spell
    if event.begun >= till:
        return False
    return not event.ended or (event.ended > since and (not job.started or till - event.ended <= NEAR))


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


def reserved(e: Evidence, names: Sequence[str]) -> list[Cause]:
    """The reservations that have some of these nodes now or soon."""
    found = []
    for one in e.reservations:
        common = [name for name in names if name in one.nodes]
        if common and one.end > e.now:
            verb = "is" if len(common) == 1 else "are"
            text = f"{listed(common)} {verb} reserved ({one.name}) until {clock(one.end, e.now)}"
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
    full = [node for node in names if is_full(e, job, node, [one for one in holders if node in one.nodes])]
    if job.started and len(full) < len(job.nodes or (1,)):
        return Cause("", (e.record(job, "Reason", "Submit", "Eligible", "Start"),))
    others = of_nodes([] if job.started else away(e, job, [node for node in names if node not in full], spell))
    if not full:
        return others if others.text else None
    of_full = [one for one in holders if set(one.nodes) & set(full)]
    verb = "had" if job.started else "have" if len(full) > 1 else "has"
    who = listed(f"{named(one, job.user)} ({until(one, e.now)})" for one in of_full)
    text = f"{listed(full)} {verb} no room for it beside {who}"
    quotes = (*(used(e, one) for one in of_full[:MOST_NAMED]), *others.quotes)
    return Cause("; ".join(filter(None, (text, others.text))), quotes)


def before_release(others: Sequence[Attempt], job: Attempt, now: float) -> float:
    """The moment at which others still had what a job then got: just before the last of them ended; or now."""
    if not job.started:
        return now
    ends = [one.ended for one in others if one.started and 0 <= job.started - one.ended <= NEAR]
    return max(ends, default=0) - 1.0


def of_nodes(found: Sequence[Cause]) -> Cause:
    """Causes of several nodes as one."""
    return Cause(listed(one.text for one in found), tuple(quote for one in found[:MOST_NAMED] for quote in one.quotes))


def is_full(e: Evidence, job: Attempt, node: str, holders: Sequence[Attempt]) -> bool:
    """Whether a node had no room for a job beside others, by CPUs or memory as far as these are known."""
    there = e.nodes.get(node)
    if not there or not holders:
        return False
    cpus = sum(share(one.cpus, one) for one in holders) + share(max(1, job.cpus), job)
    memory = sum(share(memory_of(one), one) for one in holders) + share(memory_of(job), job)
    return cpus > there.cpus or memory > there.memory


def share(amount: float, job: Attempt) -> float:
    """A node's part of what a job has on all of its nodes."""
    return amount / max(1, len(job.nodes))


def memory_of(job: Attempt) -> int:
    """The memory of a job on all of its nodes, in MiB."""
    return mebibytes_of(tres_of(job.tres).get("mem", "")) or 0
