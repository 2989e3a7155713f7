"""`fab logs`: the lines that matter for a node or a job, as text or JSON."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar, NamedTuple, TextIO

from slurmfab.base import terminal
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.terminal import BOLD, RED, Cell, Paint, table
from slurmfab.cluster.inventory import loading
from slurmfab.commands.logs.asking import Answers, Job, Told, ask
from slurmfab.commands.logs.times import Asked, Period
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions
from slurmfab.on_hosts.agent.client.amounts import bounded
from slurmfab.on_hosts.agent.logs.what_matters import GRAVE

_RED = re.compile(r"\b(?:fatal|error|emergency)\b *:|Xid|out of memory|oom", re.IGNORECASE)


def utc(seconds: float) -> str:
    """A time as ISO 8601 in UTC, with milliseconds."""
    return (
        datetime.fromtimestamp(bounded(seconds), timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def utc_or_none(seconds: float) -> str | None:
    """The same; `None` for 0."""
    return utc(seconds) if seconds else None


shows(
    Key("id", text="Slurm's number"), "state", Key("exit_code", "code"), "nodes", "origin",
    *(Key(name, form=utc_or_none) for name in ("submitted", "start", "end")),
)(Job)  # fmt: skip
shows(
    *(Key(name, form=utc) for name in ("first", "last")),
    "hosts",
    Key("log", "source"),
    "text",
    Key("count", "number"),
    "normal",
)(Told)


class Note(NamedTuple):
    """What is to be said of a host's logs, such as that one cannot be read."""

    host: str  # the host
    text: str  # for people


def notes(pairs: Iterable[tuple[str, str]]) -> tuple[Note, ...]:
    """Pairs of host and text as notes."""
    return tuple(Note(*pair) for pair in pairs)


@shows(
    "version", "cluster", Key("target", "answers.target"),
    *(Key(name, f"answers.period.{name}", form=utc) for name in Period._fields),
    *(Key(name, f"answers.{name}") for name in ("asked", "job", "lines")),
    Key("notes", "answers.notes", form=notes, text="what is to be said of logs"), Key("unreachable", "answers.lost"),
    Key("exit_code", "answers.exit_code", text="of the task"),
)  # fmt: skip
@dataclass(frozen=True)
class Logs:
    """The lines that matter of a node or a job; times are in UTC."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    answers: Answers


def show(cluster: str, target: str, asked: Asked, output: session.Output, *, every_line: bool) -> int:
    """Print the lines that matter; arguments and errors as `ask`, the exit code as `Answers.exit_code`."""
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("logs"))
    with session.ending(run, tells=False):
        answers = ask(known, run.transport, target, asked, every_line=every_line)
    output.write_json(Logs(known.cluster.name, answers))
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
    times = [one for line in answers.lines for one in (line.first, line.last)]
    clock = (
        shown_clock if len({time.localtime(bounded(one))[:3] for one in (*answers.period, *times)}) == 1 else shown_day
    )
    rows = [[Cell(text, BOLD) for text in ("TIME", "HOSTS", "LOG", "LINE")]]
    for line in answers.lines:
        colour = RED if _RED.search(line.text) and not line.normal else ""
        rows.append(
            [Cell(text, colour) for text in (clock(line.first), line.hostlist, line.source, counted(line, clock))]
        )
    return table(rows, paint.width, paint)


def counted(line: Told, clock: Callable[[float], str]) -> str:
    """The text of a line, with its number if it came several times, and a mark if it is normal."""
    mark = f"normal at {line.normal}: " if line.normal and GRAVE.search(line.text) else ""
    if line.number == 1:
        return f"{mark}{line.text}"
    until = f", until {clock(line.last)}" if line.last - line.first >= 1 else ""
    return f"{mark}{line.text} ({line.number} times{until})"


def shown_day(seconds: float) -> str:
    """A time with its day, in this machine's local time."""
    return datetime.fromtimestamp(bounded(seconds)).strftime("%Y-%m-%d %H:%M:%S")


def shown_clock(seconds: float) -> str:
    """A time without its day."""
    return datetime.fromtimestamp(bounded(seconds)).strftime("%H:%M:%S")
