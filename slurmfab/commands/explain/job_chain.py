"""The chain of a job: why it waited, where it ran, how it ended, and whether its node was at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmfab.base.program_name import FAB
from slurmfab.commands.explain import ending, waiting
from slurmfab.commands.explain.chain import Link, clock, held, listed, run_at
from slurmfab.commands.explain.evidence import Attempt, Evidence
from slurmfab.on_hosts.programs.user_tools.job_story import length

MOST_ATTEMPTS = 10  # of a job that was put back again and again, so many of its last attempts are told
MOST_TASKS = 8  # of an array
_SUSPENDED = re.compile(r"_rpc_suspend\(suspend\) for (\S+)")


def links(e: Evidence) -> tuple[Link, ...]:
    """All links of a job, or of the tasks of an array, one after another."""
    found: list[Link] = []
    numbers = list(dict.fromkeys(one.number for one in e.jobs))
    for number in numbers[:MOST_TASKS]:
        own = [one for one in e.jobs if one.number == number]
        if len(numbers) > 1:
            found.append(Link("task", 0, f"job {own[0].id}: {own[-1].state}"))
        for place, job in list(enumerate(own))[-MOST_ATTEMPTS:]:
            found += of_attempt(e, job, was_requeued=place > 0 or (len(own) == 1 and job.restarts > 0))
        found += held(e, numbers=(number,))
    if len(numbers) > MOST_TASKS:
        found.append(Link("task", 0, f"and {len(numbers) - MOST_TASKS} more tasks; ask for one: ARRAY_TASK"))
    return tuple(found)


def of_step(e: Evidence, name: str) -> Iterator[Link]:
    """The links about the step that was asked for, if any."""
    for job in e.jobs:
        for step in (one for one in job.steps if name and one.name == name):
            by = f" by {e.user(step.by)}" if step.by else ""
            code = f", exit code {step.code.partition(':')[0]}" if step.code[:1] not in ("", "0") else ""
            peak = f"; the most that was measured of one task is {step.peak} MiB" if step.peak else ""
            yield Link("ended", 0, f"step {job.id}.{name}: {step.state}{by}{code}{peak}", (e.record(job, "State"),))


def suspended(e: Evidence, job: Attempt) -> Link:
    """The link about a job that does not go on."""
    lines = [line for line in e.lines if (found := _SUSPENDED.search(line.text)) and found[1] in (job.id, job.number)]
    since = f" since {clock(lines[-1].last, e.now)}" if lines else ""
    text = f"it is suspended{since}, and keeps its nodes. To let it go on: scontrol resume {job.id}"
    return Link("started", lines[-1].last if lines else 0, text, (*e.quotes(lines[-1:]), e.record(job, "State")))


def of_attempt(e: Evidence, job: Attempt, *, was_requeued: bool) -> Iterator[Link]:
    """The links of one attempt."""
    if job.is_forgotten:
        text = (
            f"slurmctld does not know it: a crash lost it within seconds after it was submitted, at "
            f"{clock(job.submitted, e.now)}. It will not run: its user has to submit it again. slurmdbd calls it "
            f"{job.state}"
        )
        text += "" if job.ended else f" until its record is ended: {FAB} close-runaways"
        yield Link("ended", job.submitted, text, (e.record(job, "State", "Submit", "Start"),))
        return
    yield from waiting.links(e, job, was_requeued=was_requeued)
    if job.started:
        wait = job.started - job.submitted
        soon = f", {length(wait)} after it was submitted" if job.submitted and wait <= waiting.AT_ONCE else ""
        goes_on = f", and has run for {length(e.now - job.started)}" if job.is_at_work and not job.ended else ""
        command = "NodeList", "Submit", "Start"
        on = f" on {listed(job.nodes, 8)}" if job.nodes else ""
        yield Link(
            "started", job.started, f"{clock(job.started, e.now)}{on}{soon}{goes_on}", (e.record(job, *command),)
        )
        if job.number in e.lost and job.state in ("RUNNING", "SUSPENDED"):
            text = (
                f"nothing of it runs, although Slurm calls it {job.state}: {e.lost[job.number]}. To put it back into "
                f"the queue: {FAB} deploy; where it may not be requeued, that ends it"
            )
            yield Link("ended", job.started, text, (e.record(job, "State", "NodeList", "Start"),))
        chdir = ending.directory_lines(e, job)
        if chdir:
            text = "its working directory was not there, so it ran in another one"
            yield Link("started", chdir[0].first, text, e.quotes(chdir[:1]))
    if job.started and job.state == "SUSPENDED":
        yield suspended(e, job)
    if job.ended:
        one = ending.link(e, job)
        yield one
        run = next((run for node in job.nodes if (run := run_at(e, node, job.ended))), "")
        if run and job.state not in ("COMPLETED", "NODE_FAIL"):
            yield Link("ended", job.ended, f"at that time slurmfab changed its node: {run}")
    yield from ending.faults(e, job)
