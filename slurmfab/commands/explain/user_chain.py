"""The chain of a user: whether they may run jobs, why theirs wait, and how theirs ended lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone

from slurmfab.base.grouping import grouped
from slurmfab.base.program_name import FAB
from slurmfab.commands.explain import waiting
from slurmfab.commands.explain.chain import MOST_NAMED, Link, clock, listed
from slurmfab.commands.explain.evidence import Attempt, Evidence, Quote
from slurmfab.commands.explain.limits import counted
from slurmfab.core.status import limits_in_use
from slurmfab.on_hosts.agent.client.amounts import bounded, number_of
from slurmfab.on_hosts.programs.user_tools import endings

DAY = 86400
NO_SHELLS = ("/nologin", "/false")
LITTLE_SPACE = 64  # MiB; with less in the home directory most programs fail
GOOD = ("COMPLETED",)


def links(e: Evidence, user: str, accounts: Mapping[str, Mapping[str, str]], *, has_database: bool) -> tuple[Link, ...]:
    """All links of a user. `accounts`: what hosts have of the user, by host."""
    own = [one for one in (*e.jobs, *e.others) if one.user == user]
    e = replace(e, others=(*e.others, *e.jobs))  # the user's own jobs use up limits, too
    newest = {one.number: one for one in sorted(own, key=lambda one: (one.submitted, one.started))}
    return (
        *may_run(e, user, has_database=has_database),
        *may_submit(e, user),
        *homes(user, accounts),
        *why_they_wait(e, [one for one in newest.values() if one.is_waiting]),
        *how_they_ended(e, user, [one for one in newest.values() if one.ended]),
        *at_work(e, [one for one in newest.values() if one.is_at_work]),
    )


def may_run(e: Evidence, user: str, *, has_database: bool) -> Iterator[Link]:
    """Whether the user has an account of Slurm's."""
    names = list(dict.fromkeys(one.account for one in e.associations))
    command = f"sacctmgr show associations where user={user}"
    if names:
        text = f"{user} may use account{'s' if len(names) > 1 else ''} {listed(names, 8)}"
        yield Link("account", 0, text, (Quote(0, e.controller, command, ", ".join(names)),))
    elif has_database and e.has_records:
        text = f"{user} has no account of Slurm's, so Slurm refuses all jobs of {user}. "
        text += f"Give the user accounts in the cluster file, then {FAB} deploy"
        yield Link("account", 0, text, (Quote(0, e.controller, command, "(nothing)"),))


def homes(user: str, accounts: Mapping[str, Mapping[str, str]]) -> Iterator[Link]:
    """Where the user, or the home directory, is missing or has no space."""
    faults = grouped(
        (fault, host)
        for host, found in accounts.items()
        for fault in (home_fault(user, found), login_fault(user, found))
        if fault
    )
    for fault, hosts in faults.items():
        quote = Quote(
            0,
            hosts[0],
            "getent passwd; stat",
            " ".join(f"{name}={value}" for name, value in accounts[hosts[0]].items() if value),
        )
        yield Link("home", 0, f"on {listed(sorted(hosts), 8)}: {fault}", (quote,))


def home_fault(user: str, found: Mapping[str, str]) -> str:
    """What is wrong with a user on a host; empty for nothing."""
    if not found.get("home"):
        return f"there is no user {user}"
    if found.get("trouble"):
        return f"the home directory {found['home']} cannot be used"
    if found["owner"] != found["uid"]:
        return f"the home directory {found['home']} belongs to UID {found['owner']}, and {user} has {found['uid']}"
    if int(found["free"]) < LITTLE_SPACE:
        return f"the file system of {found['home']} is full ({found['free']} MiB free)"
    if found.get("files") == "0":
        return f"the file system of {found['home']} can hold no more files"
    return ""


def login_fault(user: str, found: Mapping[str, str]) -> str:
    """What keeps a user from logging in to a host; empty for nothing."""
    if found.get("expired"):
        day = datetime.fromtimestamp(bounded((number_of(found["expired"]) or 0) * DAY), timezone.utc).date()
        return f"the user {user} expired on {day}, and cannot log in"
    shell = found.get("shell", "")
    if shell.endswith(NO_SHELLS):
        return f"the shell of {user} is {shell}, so that {user} cannot log in"
    return ""


def may_submit(e: Evidence, user: str) -> Iterator[Link]:
    """The limits of jobs in the queue that are used up, so that Slurm refuses more of them."""
    for one in limits_in_use.parse(e.limits) if e.limits else ():
        mine = one.user == user or (not one.user and one.account in {own.account for own in e.associations})
        for limit in one.limits if mine and not one.qos else ():
            if limit.name in ("MaxSubmitJobs", "GrpSubmitJobs") and limit.used >= limit.limit:
                whom = user if one.user else "all its users together"
                jobs = counted(limit.limit, "jobs")
                text = f"account {one.account} allows {whom} {jobs} in the queue, and as many are there: "
                shown = f"Account={one.account} UserName={one.user} {limit.name}={limit.limit:.0f}({limit.used:.0f})"
                quote = Quote(0, e.controller, "scontrol show assoc_mgr", shown)
                yield Link("account", 0, f"{text}Slurm refuses those that {user} submits now", (quote,))


def why_they_wait(e: Evidence, jobs: list[Attempt]) -> Iterator[Link]:
    """Why the user's jobs wait, those with the same reason together."""
    for same in grouped((job.reason, job) for job in jobs).values():
        found = list(waiting.links(e, same[0], was_requeued=False))
        why = found[-1].text.partition(": ")[2] if found else waiting.sentence(same[0])
        verb = "wait" if len(same) > 1 else "waits"
        what = f"{len(same)} jobs" if len(same) > MOST_NAMED else listed(f"job {one.id}" for one in same)
        yield Link("waited", same[0].submitted, f"{what} {verb}: {why}", found[-1].quotes if found else ())


def how_they_ended(e: Evidence, user: str, jobs: list[Attempt]) -> Iterator[Link]:
    """How the user's jobs of the last day ended, those alike together."""
    meanings = grouped(("" if one.state in GOOD else endings.meaning(one.state, one.code), one) for one in jobs)
    good = len(meanings.pop("", ()))
    if jobs:
        number = f"{len(jobs)} job{'s' if len(jobs) > 1 else ''}"
        yield Link("ended", 0, f"of {number} of {user} that ended within a day {good} ended well")
    for meaning, same in sorted(meanings.items(), key=lambda pair: -len(pair[1])):
        nodes = Counter(node for one in same for node in one.nodes)
        where = f", all on {next(iter(nodes))}" if len(nodes) == 1 and len(same) > 1 else ""
        which = listed(f"job {one.id}" for one in same[-MOST_NAMED:])
        number = f"{len(same)} jobs{where}, the last ones {which}" if len(same) > 1 else which
        quotes = tuple(e.record(one, "State", "ExitCode", "End", "NodeList") for one in same[-MOST_NAMED:])
        yield Link("ended", max(one.ended for one in same), f"{meaning}: {number}", quotes)


def at_work(e: Evidence, jobs: list[Attempt]) -> Iterator[Link]:
    """The jobs that run."""
    if jobs:
        text = listed(
            (f"job {one.id} runs since {clock(one.started, e.now)} on {listed(one.nodes)}" for one in jobs), 5
        )
        yield Link("started", 0, text, tuple(e.record(one, "State", "Start", "NodeList") for one in jobs[:MOST_NAMED]))
