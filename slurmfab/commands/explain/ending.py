"""How a job ended, on what that rests, and whether its node was at fault; only what a line says is told as a cause."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import replace

from slurmfab.commands.explain.chain import (
    Link,
    clock,
    listed,
    named,
    out_of_service,
    run_at,
    stopped,
)
from slurmfab.commands.explain.evidence import Attempt, Event, Evidence, Quote
from slurmfab.commands.logs.asking import Told
from slurmfab.on_hosts.agent.client.amounts import mebibytes_of
from slurmfab.on_hosts.agent.client.commands import moment as seconds_since_1970
from slurmfab.on_hosts.agent.logs.what_matters import jobs_in
from slurmfab.on_hosts.programs.user_tools import endings
from slurmfab.on_hosts.programs.user_tools.job_story import length

MARGIN = 30.0  # seconds after the end of a job that belong to it
_KILL = re.compile(r"REQUEST_KILL_JOB JobId=\S+ uid (\d+)")
_PREEMPTED = re.compile(r"preempted JobId=\S+ has been \S+ to reclaim resources for JobId=(\S+)")
_PROLOG = re.compile(r"[Pp]rolog(?: or job env setup)? (?:launch )?fail|prolog failed|Prolog error")
_OOM = re.compile(r"oom[-_ ]kill|OOM Killed|OOM failure|out.of.memory", re.IGNORECASE)
_KILLED = re.compile(r"Killed process (\d+) \(([^)]*)\)(?:.*?anon-rss:(\d+)kB)?")
_OUTPUT = re.compile(r"[Cc]ould not open std\w+ file (.*)|IO setup failed: (.*)")
_CHDIR = re.compile(r"couldn't chdir to `?([^':]+)'?: ([^:]*)")
_TIME = re.compile(r"Time limit exhausted|DUE TO TIME LIMIT")
_MISSING = re.compile(r"missing from batch node")
_NOT_MET = re.compile(r"dependency can't be satisfied")
_EXECVE = re.compile(r"execve\(\): (?:bad interpreter\((?P<file>[^)]*)\)|(?P<other>[^:]*)): (?P<why>.*)")
_NODE = re.compile(
    r"failed node|missing from batch node|not responding|unexpectedly rebooted|DUE TO NODE FAILURE|state set to DOWN"
)
_HARDWARE = re.compile(
    r"NVRM: Xid|I/O error|EXT4-fs error|XFS.*(?:corrupt|shut)|Hardware Error|machine check|\bmce\b|EDAC.*UE"
    r"|kernel panic|soft lockup|remount.*read-only|nfs: server .* not responding|Kill task failed",
    re.IGNORECASE,
)
_REQUEUED = re.compile(r"Requeuing JobId|DUE TO JOB REQUEUE|requeue")

Words = tuple[str, tuple[Quote, ...]]  # what a link says, and on which lines that rests


def lines_about(e: Evidence, job: Attempt, pattern: re.Pattern[str]) -> list[Told]:
    """The lines that name a job and match, from its start to shortly after its end."""
    since, till = (job.started or job.submitted) - 2, (job.ended or e.now) + MARGIN
    own = {job.id, job.number}
    there = (line for line in e.lines if since <= line.last and line.first <= till)
    return [line for line in there if pattern.search(line.text) and own & jobs_in(line.text)]


def lines_of_nodes(e: Evidence, job: Attempt, pattern: re.Pattern[str]) -> list[Told]:
    """The lines of the nodes of a job, and of slurmctld about them, that match while it ran and name no other job."""
    since, till = job.started - 2, (job.ended or e.now) + MARGIN
    own, names = {job.id, job.number}, "|".join(map(re.escape, job.nodes))
    is_named = re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])")
    there = (line for line in e.lines if job.nodes and since <= line.last and line.first <= till)
    return [
        line for line in there
        if pattern.search(line.text) and (not (others := jobs_in(line.text)) or own & others)
        and (set(line.hosts) & set(job.nodes) or is_named.search(line.text))
    ]  # fmt: skip


def link(e: Evidence, job: Attempt) -> Link:
    """The link about how a job ended."""
    makers = {
        "OUT_OF_MEMORY": memory, "TIMEOUT": time_limit, "CANCELLED": cancelled, "NODE_FAIL": node_lost,
        "PREEMPTED": preempted, "FAILED": failed, "REQUEUED": put_back,
    }  # fmt: skip
    text, quotes = makers[job.state](e, job) if job.state in makers else (meaning(job), ())
    short = [one.name for one in job.steps if one.state == "OUT_OF_MEMORY"] if job.state == "COMPLETED" else []
    if short:
        steps = listed(f"{job.id}.{name}" for name in short)
        text += f", although its step {steps} ran out of memory, which its script did not take for a failure"
        quotes = e.quotes(lines_about(e, job, _OOM))
    took = f" after {length(job.ended - job.started)}" if job.started else ""
    record = e.record(job, "State", "ExitCode", "End", "NodeList")
    return Link("ended", job.ended, f"{clock(job.ended, e.now)}{took}: {text}", (*quotes, record))


def meaning(job: Attempt) -> str:
    """What the state of a job means; that it is not known where slurmctld's log alone tells of the job."""
    return endings.meaning(job.state, job.code) if job.state else "how it ended is not on record"


def memory(e: Evidence, job: Attempt) -> Words:
    """A job that was killed for its memory: how much it might have, and which process was killed."""
    found = lines_about(e, job, _OOM)
    killed = killed_by_kernel(e, job)
    step = next((one for one in job.steps if one.state == "OUT_OF_MEMORY" and one.name != "extern"), None)
    most = max((one.peak for one in job.steps), default=0)
    asked = job.memory.rstrip("nc")
    parts = [f"out of memory: it asked for {asked}" if mebibytes_of(asked) else "out of memory"]
    parts += [f"in step {step.name}"] if step and step.name != "batch" else []
    process = next((match for line in killed if (match := _KILLED.search(line.text))), None)
    if process:
        had = f" with {int(process[3]) >> 10} MiB" if process[3] else ""
        parts.append(f"process {process[2]}{had} was killed")
    parts += [f"the most that was measured of one task before is {most} MiB"] if most else []
    return ", ".join(parts), e.quotes([*killed, *(line for line in found if line not in killed)], 3)


def killed_by_kernel(e: Evidence, job: Attempt) -> list[Told]:
    """The kernel's lines about a process that it killed in the control group of a job, by the process's number.

    The line with the process's memory does not name the job; so of another job's process nothing is told.
    """
    of_kernel = [line for line in e.lines if line.source == "kernel"]
    of_group = re.compile(rf"oom-kill:.*/job_{re.escape(job.number)}/.*,pid=(\d+)")
    numbers = {(line.hosts, match[1]) for line in of_kernel if (match := of_group.search(line.text))}
    found = ((line, _KILLED.search(line.text)) for line in of_kernel)
    return [line for line, match in found if match and (line.hosts, match[1]) in numbers][:1]


def time_limit(e: Evidence, job: Attempt) -> Words:
    """A job that reached its time limit."""
    limit = f" of {length(job.limit)}" if job.limit else ""
    return f"it reached its time limit{limit}", e.quotes(lines_about(e, job, _TIME))


def cancelled(e: Evidence, job: Attempt) -> Words:
    """By whom a job was cancelled."""
    found = lines_about(e, job, _KILL)
    uid = job.by if job.by.isdecimal() else _KILL.search(found[0].text)[1] if found else ""  # type: ignore[index]
    who = e.user(uid) if uid else job.by
    waited = "" if job.started else " before it had started"
    never = lines_about(e, job, _NOT_MET)
    if never and not who:
        return f"cancelled{waited} by Slurm: what it depended on can no longer be met", e.quotes(never)
    if who and who == job.user:
        who += ", whose job it is"
    return f"cancelled{waited}" + (f" by {who}" if who else "; by whom is not on record"), e.quotes(found)


def preempted(e: Evidence, job: Attempt) -> Words:
    """For which job a job had to give way."""
    found = lines_about(e, job, _PREEMPTED)
    other = next((match[1] for line in found if (match := _PREEMPTED.search(line.text))), "")
    known = next((one for one in e.others if other and other in (one.id, one.number)), None)
    for_whom = f" for {named(known) if known else f'job {other}'}" if other else ""
    return f"it had to give way{for_whom}, which may preempt it" if other else "it had to give way", e.quotes(found)


def node_lost(e: Evidence, job: Attempt) -> Words:
    """Why a node was lost, as far as that is on record."""
    events = node_events(e, job)
    found = lines_about(e, job, _NODE) or lines_of_nodes(e, job, _NODE)
    runs = [run for one in events if (run := run_at(e, one.node, one.begun))]
    text = f"its node failed: {listed(out_of_service(e, one) for one in events)}" if events else "its node failed"
    ends = [end for one in events for end in stopped(e, one.node, one.begun)]
    if ends:
        text += f"; {listed(end for end, _ in ends)}"
        found = [*found, *(line for _, line in ends)]
    if runs:
        text += f", during {runs[0]}"
    elif not events:
        known = {
            "not responding": ": it did not respond any more",
            "missing from": ": its slurmd had started anew, as after a boot, and did not have the job any more",
        }
        why = (told for word, told in known.items() if any(word in line.text for line in found))
        text += next(why, "; why is not on record")
    return text, (*e.quotes(found), *(e.event(one) for one in events[:2]))


def node_events(e: Evidence, job: Attempt) -> list[Event]:
    """The times at which nodes of a job went down around its end; slurmdbd hears of the newest some seconds late."""
    since, till = max(job.started, job.ended - MARGIN), job.ended + MARGIN
    near = [one for one in e.events if one.node in job.nodes and "DOWN" in one.state and since <= one.begun <= till]
    found = list({one.node: one for one in near}.values())
    for name in job.nodes:
        state = e.nodes[name].state if name in e.nodes else None
        begun = seconds_since_1970(state.since) if state and "DOWN" in state.flags else None
        if state and begun and since <= begun <= till and not any(one.node == name for one in found):
            found.append(Event(name, int(begun), 0, "DOWN", state.by, state.reason))
    return found


def put_back(e: Evidence, job: Attempt) -> Words:
    """Why a job was put back into the queue."""
    if lines_about(e, job, _PREEMPTED):
        text, quotes = preempted(e, job)
        return f"put back into the queue: {text}", quotes
    prolog = lines_about(e, job, _PROLOG)
    if prolog:
        return f"put back into the queue: the prolog failed on {listed(job.nodes)}", e.quotes(prolog)
    events = node_events(e, job)
    if events:
        text, quotes = node_lost(e, job)
        return f"put back into the queue: {text}", quotes
    found = lines_about(e, job, _REQUEUED)
    return "put back into the queue; by whom is not on record", e.quotes(found)


def failed(e: Evidence, job: Attempt) -> Words:
    """Why a job failed: its exit code or signal, and what the node says of its start."""
    status, number = endings.codes(job.code)
    if number == endings.OUTPUT_ERROR:
        found = lines_about(e, job, _OUTPUT)
        file = next((match[1] or match[2] for line in found if (match := _OUTPUT.search(line.text))), "")
        return endings.meaning(job.state, job.code) + (f" ({file})" if file else ""), e.quotes(found)
    prolog = lines_about(e, job, _PROLOG)
    if prolog:
        return f"the prolog failed on {listed(job.nodes)}", e.quotes(prolog)
    oom = lines_about(e, job, _OOM)
    if oom or any(one.state == "OUT_OF_MEMORY" for one in job.steps):
        text, quotes = memory(e, job)
        return f"{text}, and then its script {endings.meaning(job.state, job.code)}", quotes
    not_run = [line for line in lines_about(e, job, _EXECVE) if ".batch]" in line.text or is_interactive(job)]
    if not_run and (match := _EXECVE.search(not_run[0].text)):
        what = f"its interpreter {match['file']}" if match["file"] else f"its program {match['other']}"
        return f"{what} could not be started: {match['why']}", e.quotes(not_run)
    text = endings.meaning(job.state, job.code)
    said = lines_about(e, job, re.compile(r"WTERMSIG|WEXITSTATUS|died by signal"))
    requests = lines_about(e, job, _KILL)
    if number and requests:
        who = e.user(_KILL.search(requests[0].text)[1])  # type: ignore[index]
        text += f", after {who} asked Slurm to send one"
    elif number and is_interactive(job) and (number == signal.SIGHUP or any(one.by for one in job.steps)):
        who = next((f"; its step was cancelled by {e.user(one.by)}" for one in job.steps if one.by), "")
        text += f"{who}, as happens when srun or its terminal ends"
    elif number:
        text += "; who sent it is not on record, and Slurm's log has no request to"
    said = [*requests, *said]
    whose = "its command" if is_interactive(job) else "its script"
    return (f"{whose} {text}" if status and not number else text), e.quotes(said)


def is_interactive(job: Attempt) -> bool:
    """Whether srun or salloc started it, so that it has no script."""
    is_typed = job.submit_line.split(" ")[0].rpartition("/")[2] in ("srun", "salloc")
    return is_typed or (
        any(one.name.isdecimal() for one in job.steps) and not any(one.name == "batch" for one in job.steps)
    )


def directory_lines(e: Evidence, job: Attempt) -> list[Told]:
    """The lines that say that a job's directory was not there."""
    return lines_about(e, job, _CHDIR)


def faults(e: Evidence, job: Attempt) -> Iterator[Link]:
    """The link that says whether the node was at fault, and why; none while a job waits."""
    if not job.started or not (job.ended or job.is_at_work):
        return
    down, prolog = node_events(e, job) if job.ended else [], lines_about(e, job, _PROLOG)
    missing = lines_about(e, job, _MISSING)
    hardware = lines_of_nodes(e, job, _HARDWARE)
    nodes = listed(job.nodes)
    by_hand = [one for one in down if one.by not in ("", "slurm")]
    if prolog and job.state != "COMPLETED":
        yield Link("fault", 0, f"{nodes}: the node was at fault, its prolog failed", e.quotes(prolog))
    elif down and job.state in ("NODE_FAIL", "REQUEUED"):
        word = "was taken down" if by_hand else "was at fault"
        yield Link(
            "fault", 0, f"{listed({one.node: 0 for one in down})}: the node {word}", tuple(map(e.event, down[:2]))
        )
    elif missing:
        yield Link("fault", 0, f"{nodes}: the node was at fault, it lost the job", e.quotes(missing))
    elif hardware:
        yield Link("fault", 0, f"{nodes}: the node may be at fault, see what it says", e.quotes(hardware))
    elif job.ended and job.state not in ("COMPLETED", "CANCELLED"):
        yield clear(e, job, nodes)


def clear(e: Evidence, job: Attempt, nodes: str) -> Link:
    """The link where nothing speaks against the node: that it was not at fault, or that this is not known."""
    silent = [node for node in job.nodes if not any(node == host for host in e.files)]
    if job.state in ("TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "PREEMPTED"):
        return Link("fault", 0, "the node was not at fault")
    if silent:
        return Link("fault", 0, f"whether the node was at fault is not known: {listed(silent)} could not be asked")
    return Link("fault", 0, f"nothing in the logs of {nodes} speaks of a fault of the node")


BY_LOG = (
    (re.compile(r"_job_complete: JobId=\S+ OOM failure"), "OUT_OF_MEMORY", "0:125"),
    (_TIME, "TIMEOUT", "0:0"),
    (_KILL, "CANCELLED", "0:0"),
    (re.compile(r"Killing JobId=\S+ on failed node"), "NODE_FAIL", "0:0"),
    (re.compile(r"_job_complete: JobId=\S+ WEXITSTATUS 0$"), "COMPLETED", "0:0"),
    (re.compile(r"_job_complete: JobId=\S+ WEXITSTATUS (\d+)"), "FAILED", "{}:0"),
    (re.compile(r"_job_complete: JobId=\S+ WTERMSIG (\d+)"), "FAILED", "0:{}"),
)
"""How a job ended by lines of slurmctld's log: pattern, state and exit code, those that say most first."""


def by_log(e: Evidence, job: Attempt) -> Attempt:
    """A job of which only slurmctld's log tells, with how it ended by its lines; as it is where none says it."""
    texts = [line.text for line in e.lines if {job.id, job.number} & jobs_in(line.text)]
    for pattern, state, code in BY_LOG:
        found = next((match for text in texts if (match := pattern.search(text))), None)
        if found:
            number = found[1] if found.groups() else ""
            return replace(job, state=state, code=code.format(number), by=number if state == "CANCELLED" else "")
    return job
