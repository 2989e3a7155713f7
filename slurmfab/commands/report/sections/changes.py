"""Who changed what, and when: all recorded runs as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.markup import fill
from slurmfab.commands.history.listing import at, changes_text, result_text
from slurmfab.commands.report.charts import duration
from slurmfab.commands.report.section import Missing, Section, Sources, Tone
from slurmfab.commands.report.sections.runs import tone_of
from slurmfab.core.engine.record import Record


@dataclass(frozen=True)
class Change:
    """A recorded run as a row."""

    run: str
    at: str  # when it began, in local time
    by: str
    command: str  # such as `deploy`
    hosts: str  # the hosts that it was about
    count: int  # how many hosts these are
    result: str  # as `fab history` says it
    tone: Tone  # how the result is marked
    exit_code: str  # of the run; empty while it is unfinished
    took: str  # how long it took; empty where the record does not say
    changed: str  # what it changed, in brief
    troubles: tuple[str, ...]  # the error that ended it, and the hosts that were excluded, with the reasons


def section(sources: Sources) -> Section | None:
    """The table of the recorded runs, newest first."""
    if isinstance(sources.records, Missing):
        return None
    rows = tuple(map(change_of, reversed(sources.records)))
    return Section(
        "changes",
        "Who changed what",
        fill("changes.html.j2", rows=rows),
        note=note_of(rows),
        badge=str(len(rows)) if rows else "",
    )


def note_of(rows: Sequence[Change]) -> str:
    """What the table covers."""
    if not rows:
        return "No runs are recorded beside the cluster file. Each run that changes something leaves its record there."
    return f"The recorded runs since {rows[-1].at}, newest first; they are beside the cluster file."


def change_of(record: Record) -> Change:
    """The row of a recorded run."""
    result = result_text(record)
    troubles = [*record.error.splitlines(), *fold_lines((host, why) for host, why in record.lost.items())]
    return Change(
        run=record.run,
        at=at(record),
        by=record.by,
        command=f"{record.command} (undoes {record.undoes})" if record.undoes else record.command,
        hosts=fold(record.hosts),
        count=len(record.hosts),
        result=result,
        tone=tone_of(result),
        exit_code=str(record.exit_code) if record.ended else "",
        took=duration(record.seconds) if record.seconds else "",
        changed=changes_text(record),
        troubles=tuple(troubles),
    )
