"""Why a job waited, spell by spell: before Slurm counted it as eligible, and until it had its nodes.

Slurm writes the reason of a wait nowhere while it changes: squeue has the present one, and slurmdbd keeps the last one
that is not the queue itself. The rest is taken from what ended shortly before the job started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurmfab.commands.explain import earlier, limits
from slurmfab.commands.explain.chain import MOST_NAMED, NEAR, Cause, Link, clock, held_by, listed, named, until
from slurmfab.commands.explain.evidence import AT_WORK, Attempt, Evidence, Quote
from slurmfab.commands.explain.nodes import before_release, nodes_away, queue, used
from slurmfab.commands.explain.options import option
from slurmfab.commands.logs.asking import Told
from slurmfab.on_hosts.agent.logs.evidence import jobs_named
from slurmfab.on_hosts.agent.logs.what_matters import jobs_in
from slurmfab.on_hosts.programs.user_tools import reasons
from slurmfab.on_hosts.programs.user_tools.job_story import length

AT_ONCE = 5.0  # a wait up to so many seconds needs no cause: Slurm starts jobs in rounds
ELIGIBLE = 2.0  # a job that was eligible within so many seconds was so from the beginning
QUEUE = ("", "Resources", "Priority")
PARTS = "the parts of a heterogeneous job start together, and only when the backfill scheduler looks, every 30 s or so"
ROUNDS = 60.0  # a wait up to so many seconds can be that for the backfill scheduler alone
SINGLE = "singleton"
LAST_REASON = "by the last reason on record, which need not have held all the time: "
_HOLD = re.compile(r"\bhold on JobId=\S+ by uid (\d+)")
_RELEASE = re.compile(r"\brelease hold on JobId=\S+ by uid (\d+)")
_UID = re.compile(r"\buid[ =](\d+)")


def links(e: Evidence, job: Attempt, *, was_requeued: bool) -> Iterator[Link]:
    """The links about the wait of a job."""
    end = job.started or job.ended or e.now
    if job.submitted and job.started and end - job.submitted <= AT_ONCE:
        return
    if not job.submitted:
        return
    is_held = job.is_waiting and "held" in job.reason.lower()
    eligible = end if is_held or not_yet(job, end) else min(job.eligible or job.submitted, end)
    # Tasks beyond the limit of their array do not count as eligible.
    before = in_the_queue if job.reason == "JobArrayTaskLimit" else before_eligible
    spells = [(job.submitted, eligible, before), (max(eligible, job.submitted), end, in_the_queue)]
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
    known = [one for one in e.others if {one.id, one.number} & set(ids) or (word == SINGLE and is_namesake(one, job))]
    newest = {one.id: one for one in sorted(known, key=lambda one: (one.submitted, one.started))}
    if job.is_waiting:
        fates = [f"{named(one, job.user)} ({fate(one, e.now)})" for one in newest.values()]
        missing = [f"job {one}" for one in ids if not any(one in (job.id, job.number) for job in known)]
        text = f"it depends on {listed([*fates, *missing]) or depends} by {word}"
        text += f", as all jobs of {job.user} with its name start one after the other" if word == SINGLE else ""
        if job.reason == "DependencyNeverSatisfied":
            text += f", which can no longer be met, so it never starts: scancel {job.id.partition('_')[0]}"
    else:
        last = [one for one in newest.values() if abs((one.started if word == "after" else one.ended) - till) <= NEAR]
        if not last:
            return Cause("")
        text = f"it depended by {word} on {listed(f'{named(one, job.user)} ({fate(one, e.now)})' for one in last)}"
    quotes = [e.record(one, "State", "Start", "End") for one in list(newest.values())[:MOST_NAMED]]
    return Cause(text, (e.record(job, "Reason", "Dependency", "SubmitLine"), *quotes))


def is_namesake(one: Attempt, job: Attempt) -> bool:
    """Whether it is an earlier job of the same user and name, which a singleton waits for."""
    is_known = one.is_at_work or one.is_waiting or job.started
    return bool(is_known) and (one.user, one.name) == (job.user, job.name) and int(one.number) < int(job.number)


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
    """Why a job that was eligible did not have its nodes: what else held it back before, and the last cause."""
    last = last_cause(e, job, spell, was_requeued)
    found = earlier.causes(e, job, spell)
    before = [one for one in found if one.about not in last.text]
    if not before:
        return last
    why = last.text or "what came after is not on record"
    is_among = not last.text or last.text.startswith(LAST_REASON) or len(before) < len(found)
    if job.started and spell[1] - found[-1].ended <= NEAR and is_among:
        before, why, last = found, "", Cause("")
    texts = [*(one.text for one in before), why]
    return Cause(
        "; then ".join(filter(None, texts)), (*(quote for one in before for quote in one.quotes), *last.quotes)
    )


def last_cause(e: Evidence, job: Attempt, spell: tuple[float, float], was_requeued: bool) -> Cause:
    """The last cause of a wait, or that of the present."""
    word = re.split(r"[,(:]", job.reason, maxsplit=1)[0].strip()
    if job.is_waiting and word.startswith("JobHeld"):
        return before_eligible(e, job, spell, was_requeued)
    if limits.is_limit(word) or word == "PartitionTimeLimit":
        return limit(e, job, word)
    of_word = {"Licenses": licences, "JobArrayTaskLimit": array_tasks}
    if word in of_word:
        return of_word[word](e, job)
    found: Cause | None = None
    if job.is_waiting and (word.startswith("Partition") or word == "AccountNotAllowed" or "permitted" in word):
        found = partition(e, job)
    elif word in ("ReqNodeNotAvail", "NodeDown", "Reservation") or "DOWN" in word:
        found = nodes_away(e, job, spell) or (ahead(e, job, spell) if job.is_waiting else None)
    elif word == "Priority" and job.is_waiting:
        found = ahead(e, job, spell) or queue(e, job, spell)
    elif word in QUEUE or not job.is_waiting:
        found = queue(e, job, spell)
    is_soon = not job.reason if job.is_waiting else spell[1] - spell[0] <= ROUNDS
    if "+" in job.id and (not found or not found.text) and is_soon:
        return Cause(PARTS, (e.record(job, "State", "Reason", "Submit", "Start"),))
    if found:
        return found
    last = LAST_REASON if job.reason and not job.is_waiting else ""
    return Cause(last + sentence(job), (e.record(job, "State", "Reason", "Start"),))


def ahead(e: Evidence, job: Attempt, spell: tuple[float, float]) -> Cause | None:
    """Which jobs come first by their priority, and what the first of them waits for; `None` where none is known."""
    mine = set(job.partition.split(","))
    others = [one for one in e.others if one.is_waiting and one.reason in QUEUE and one.priority > job.priority > 0]
    others = sorted((one for one in others if mine & set(one.partition.split(","))), key=lambda one: -one.priority)
    if not others:
        return None
    verb = "come" if len(others) > 1 else "comes"
    text = f"{listed(named(one, job.user) for one in others)} {verb} first, with a higher priority"
    quotes = tuple(e.record(one, "State", "Reason", "Priority") for one in (job, *others[:MOST_NAMED]))
    first = queue(e, others[0], spell)
    if not first or not first.text:
        return Cause(text, quotes)
    return Cause(
        f"{text}; {'the first of these' if len(others) > 1 else 'that one'} waits itself: {first.text}",
        (*quotes, *first.quotes),
    )


def array_tasks(e: Evidence, job: Attempt) -> Cause:
    """Which tasks of an array ran, where it limits how many may do so at once."""
    array = job.id.partition("_")[0]
    tasks = [one for one in (*e.jobs, *e.others) if one.id.partition("_")[0] == array and one.number != job.number]
    at = before_release(tasks, job, e.now)
    running = sorted((one for one in tasks if one.holds(at, e.now)), key=lambda one: one.started)
    which = listed(f"{named(one, job.user)} {until(one, e.now)}" for one in running)
    verb = "ran" if job.started else "run"
    text = f"as many tasks of its array {verb} as --array allows at once" + (f": {which}" if which else "")
    return Cause(
        text, (e.record(job, "State", "Reason", "SubmitLine"), *(used(e, one) for one in running[:MOST_NAMED]))
    )


def limit(e: Evidence, job: Attempt, word: str) -> Cause:
    """Which limit held a job back, and whose jobs had used it up."""
    found = limits.limit_of(e, job, word)
    record = e.record(job, "User", "Account", "QOS", "Reason")
    counted = [one for one in e.others if limits.counts(found, one, e)]
    at = before_release(counted, job, e.now)
    holders = [one for one in counted if one.holds(at, e.now)]
    if not holders or (job.is_waiting and found.holds_back(job, ())):
        told = beyond(found, job) or limits.of_time(e, job, word) or found.text or sentence(job)
        return Cause(f"{told}, by the last reason on record ({word})" if job.started else told, (record,))
    start = found.text or f"a limit ({word})"
    return Cause(
        f"{start}, which {held_by(e.now, found.user, holders)}",
        (record, *(used(e, one) for one in holders[:MOST_NAMED])),
    )


def beyond(limit: limits.HeldBy, job: Attempt) -> str:
    """That a job asks for more than a limit allows at all; empty where it does not."""
    if not limit.amount or not job.is_waiting or not limit.holds_back(job, ()):
        return ""
    asked = f"{limit.text}, and it asks for {limit.asked(job):.0f}"
    if limit.is_of_minutes:
        return f"{asked} by its time limit, where {limit.amount.used} are used up"
    return f"{asked}, so it never starts"


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
        if (shut := shut_out(e, job, name)).text:
            return shut
    return Cause(sentence(job), (e.record(job, "Partition", "Reason"),))


def shut_out(e: Evidence, job: Attempt, name: str) -> Cause:
    """That a partition does not take jobs of this account or QOS; empty where it does."""
    rules = e.rules_of.get(name, {})
    for noun, own, key in (("account", job.account, "Accounts"), ("QOS", job.qos, "Qos")):
        allowed, denied = rules.get(f"Allow{key}", "ALL"), rules.get(f"Deny{key}", "")
        if (allowed != "ALL" and own not in allowed.split(",")) or own in denied.split(","):
            shown = f"PartitionName={name} Allow{key}={allowed}" + (f" Deny{key}={denied}" if denied else "")
            quote = Quote(0, e.controller, "scontrol show partition", shown)
            return Cause(f"{noun} {own} may not use partition {name}", (e.record(job, "Partition", "Reason"), quote))
    return Cause("")
