"""`fab logs`: the lines that matter for a node or a job, as text or JSON."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TextIO, TypedDict

from slurmfab.base import terminal
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import BOLD, RED, Cell, Paint, table
from slurmfab.cluster.inventory import loading
from slurmfab.commands.logs.asking import Answers, Job, ask
from slurmfab.commands.logs.merging import Told
from slurmfab.commands.logs.times import Asked
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions

VERSION = 1
"""Version of the JSON format."""

_RED = re.compile(r"\b(?:fatal|error|emergency)\b *:|Xid|out of memory|oom", re.IGNORECASE)


class LoggedJobJson(TypedDict):
    """A job; times are in UTC.

    Args:
        id: Slurm's number.
        state: Slurm's word.
        exit_code: as Slurm writes it, such as `0:125`.
        nodes: where it ran.
        origin: who told it: `slurmctld` or `slurmdbd`.
        submitted: when; null if that is not known.
        start: when it began; null if it has not.
        end: when it ended; null if it has not.
    """

    id: str
    state: str
    exit_code: str
    nodes: list[str]
    origin: str
    submitted: str | None
    start: str | None
    end: str | None


class LineJson(TypedDict):
    """A line of a log; equal ones are one.

    Args:
        first: time of the first one.
        last: time of the last one.
        hosts: on which they are.
        log: `slurmctld`, `slurmdbd`, `slurmd`, `munge` or `kernel`.
        text: without time.
        count: how many these are.
    """

    first: str
    last: str
    hosts: list[str]
    log: str
    text: str
    count: int


class NoteJson(TypedDict):
    """What is to be said of a host's logs, such as that one cannot be read.

    Args:
        host: the host.
        text: for people.
    """

    host: str
    text: str


class LogsJson(TypedDict):
    """The lines that matter of a node or a job; times are in UTC.

    Args:
        version: of this format: 1.
        cluster: the cluster's name.
        target: what was asked for.
        since: begin of the period.
        until: its end.
        asked: the hosts that were asked.
        job: the job; null if nodes were asked for.
        lines: in the order of time.
        notes: what is to be said of logs.
        unreachable: hosts that did not answer, each with the reason.
        exit_code: of the task.
    """

    version: int
    cluster: str
    target: str
    since: str
    until: str
    asked: list[str]
    job: LoggedJobJson | None
    lines: list[LineJson]
    notes: list[NoteJson]
    unreachable: dict[str, str]
    exit_code: int


def show(cluster: str, target: str, asked: Asked, output: session.Output, *, every_line: bool) -> int:
    """Print the lines that matter.

    Args:
        target: a hostlist, or the id of a job.

    Returns:
        The exit code, see `Answers.exit_code`.

    Raises:
        InputError: the target or a time is wrong.
        SlurmfabError: Slurm does not know the job.
    """
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("logs"))
    try:
        answers = ask(known, run.transport, target, asked, every_line=every_line)
    finally:
        run.transport.close()
    output.write_json(as_json(known.cluster.name, answers))
    if output.json != "-":
        write(answers, sys.stdout)
    return answers.exit_code


def write(answers: Answers, out: TextIO) -> None:
    """Write the whole text: what was asked, the lines, what is missing."""
    paint = Paint(out)
    lines = [paint(heading(answers), BOLD)]
    if answers.lines:
        lines += ["", *line_table(answers, paint)]
    elif len(answers.lost) < len(answers.asked):
        lines += ["No line of this period matters. Another period: --since, --around; all lines: --all."]
    missing = [*fold_lines(answers.notes), *(paint(line, RED) for line in fold_lines(sorted(answers.lost.items())))]
    terminal.write("\n".join([*lines, *([""] if missing else []), *missing]), out)


def heading(answers: Answers) -> str:
    """What was asked about, in one or two lines."""
    zone = time.strftime("%Z", time.localtime(answers.period.until))
    since, until = (shown_day(one) for one in answers.period)
    when = f"{since} to {until} {zone}, from {fold(answers.asked)}"
    return f"{job_line(answers.job)}\n{when}" if answers.job else f"{answers.target}: {when}"


def job_line(job: Job) -> str:
    """A job in one line."""
    parts = [job.state or "state unknown"]
    parts += [f"exit code {job.code}"] if job.code and job.code != "0:0" else []
    parts += [f"on {fold(job.nodes)}" if job.nodes else "on no node"]
    parts += [f"started {shown_day(job.start)}" if job.start else f"submitted {shown_day(job.submitted)}"]
    parts += [f"ended {shown_day(job.end)}"] if job.end else []
    return f"job {job.ids[0]}: {', '.join(parts)} ({job.origin})"


def line_table(answers: Answers, paint: Paint) -> list[str]:
    """The lines as a table, errors in red."""
    clock = shown_clock if is_one_day(answers) else shown_day
    rows = [[Cell(text, BOLD) for text in ("TIME", "HOSTS", "LOG", "LINE")]]
    for line in answers.lines:
        colour = RED if _RED.search(line.text) else ""
        rows.append(
            [Cell(text, colour) for text in (clock(line.first), line.hostlist, line.source, counted(line, clock))]
        )
    return table(rows, paint.width, paint)


def counted(line: Told, clock: Callable[[float], str]) -> str:
    """The text of a line, with its number if it came several times."""
    if line.number == 1:
        return line.text
    until = f", until {clock(line.last)}" if line.last - line.first >= 1 else ""
    return f"{line.text} ({line.number} times{until})"


def is_one_day(answers: Answers) -> bool:
    """Whether all times are of one day."""
    times = [one for line in answers.lines for one in (line.first, line.last)]
    return len({time.localtime(one)[:3] for one in (*answers.period, *times)}) == 1


def shown_day(seconds: float) -> str:
    """A time with its day, in this machine's local time."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def shown_clock(seconds: float) -> str:
    """A time without its day."""
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")


def as_json(cluster: str, answers: Answers) -> LogsJson:
    """The answers for machines; times are in UTC."""
    return {
        "version": VERSION,
        "cluster": cluster,
        "target": answers.target,
        "since": utc(answers.period.since),
        "until": utc(answers.period.until),
        "asked": list(answers.asked),
        "job": job_as_json(answers.job) if answers.job else None,
        "lines": list(map(json_line, answers.lines)),
        "notes": [{"host": host, "text": text} for host, text in answers.notes],
        "unreachable": dict(answers.lost),
        "exit_code": answers.exit_code,
    }


def job_as_json(job: Job) -> LoggedJobJson:
    """A job for machines."""
    submitted, start, end = (utc(time) if time else None for time in (job.submitted, job.start, job.end))
    return {
        "id": job.ids[0], "state": job.state, "exit_code": job.code, "nodes": list(job.nodes), "origin": job.origin,
        "submitted": submitted, "start": start, "end": end,
    }  # fmt: skip


def json_line(line: Told) -> LineJson:
    """A line for machines."""
    return {
        "first": utc(line.first), "last": utc(line.last), "hosts": list(line.hosts), "log": line.source,
        "text": line.text, "count": line.number,
    }  # fmt: skip


def utc(seconds: float) -> str:
    """A time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
