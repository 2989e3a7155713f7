"""When and where a job ran: from slurmctld's memory, else from slurmdbd, else from slurmctld's own log."""

from __future__ import annotations

import re
import time
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import moment_of
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.logs.period import LogLine, gather
from slurmfab.on_hosts.agent.logs.what_matters import Matters, jobs_in

LOG_DAYS = 14  # how far back slurmctld's log is searched for a job that Slurm has forgotten

SECONDS = 30.0
EPOCH = {"SLURM_TIME_FORMAT": "%s"}
IN_MEMORY = ("JobArrayID", "JobID", "State", "SubmitTime", "StartTime", "EndTime", "NodeList", "exit_code")
RECORDED = ("JobID", "JobIDRaw", "State", "Submit", "Start", "End", "NodeList", "ExitCode")
STARTED = re.compile(r"\b(?:Allocate|allocate|Started)\b.*?(?:NodeList=| on )([\w.,\[\]-]+)")
"""The lines of slurmctld about the start of a job, by its two schedulers."""

Row = Tuple[str, str, str, int, int, int, str, str]
"""Id, number, state, submission, start, end, nodes and exit code of a job; times in seconds since 1970, 0 for none."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """`rows` of a job `12` or `12_3`, or its tasks, and their `origin`; ResourceFailed if it is no id."""
    job = commands.job_ids([request["job"]])[0]
    for origin, of in (("slurmctld", in_memory), ("slurmdbd", recorded), ("slurmctld's log", logged)):
        try:
            rows = of(job, context)
        except ResourceFailed:
            continue
        if rows:
            return {"rows": rows, "origin": origin}
    return {"rows": [], "origin": ""}


def in_memory(job: str, context: Context) -> List[Row]:
    """What slurmctld knows of a job, nothing after MinJobAge; ResourceFailed if slurmctld does not answer."""
    if not commands.any_answers(context.run(commands.PING, seconds=SECONDS).stdout.decode(errors="replace")):
        return []
    table = commands.jobs(IN_MEMORY, "--states=all", "--jobs=" + job)
    done = context.run(table.argv, seconds=SECONDS, env={**table.env, **EPOCH})  # it fails for an unknown job
    return [row_of(one) for one in table.rows(done.stdout.decode(errors="replace"))]


def recorded(job: str, context: Context) -> List[Row]:
    """What slurmdbd knows of a job. Raises ResourceFailed if there is none, or it does not answer."""
    shown = context.must(commands.recorded(job, *RECORDED), seconds=SECONDS, env=EPOCH)
    rows = [line.split("|") for line in shown.split("\n")]
    return [row_of(row) for row in rows if len(row) == len(RECORDED)]


def logged(job: str, context: Context) -> List[Row]:
    """What slurmctld's log says of a job: its nodes, and the first and last line that names it."""
    now = time.time()
    is_about = Matters(jobs=(job,))

    def keep(source: str, text: str) -> bool:
        return bool(jobs_in(text)) and is_about(source, text)

    lines = gather(context, now - LOG_DAYS * 86400, now, ("slurmctld",), keep).lines
    if not lines:
        return []
    starts = list(started(lines))
    start = int(starts[0][0]) if starts else 0
    nodes = ",".join(dict.fromkeys(nodes for _, nodes in starts))
    return [(job, job, "", int(lines[0].time), start, int(lines[-1].time) + 1, nodes, "")]


def started(lines: List[LogLine]) -> Iterator[Tuple[float, str]]:
    """Time and nodes of each start of a job that lines tell of."""
    for line in lines:
        found = STARTED.search(line.text)
        if found:
            yield line.time, found[1]


def row_of(shown: List[str]) -> Row:
    """A row of squeue or sacct."""
    job, number, state, *times, nodes, code = shown
    submitted, start, end = map(moment_of, times)
    nodes = "" if nodes in ("None assigned", "(null)", "n/a") else nodes
    return job, number, state, submitted, start, end, nodes, commands.exit_code(code)
