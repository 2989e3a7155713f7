"""Who changed what, and when: all recorded runs as a table."""

from __future__ import annotations

from collections.abc import Sequence

from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.markup import fill
from slurmfab.commands.history.listing import at, changes_text, result_text
from slurmfab.commands.report.charts import duration
from slurmfab.commands.report.section import Missing, Section, Sources
from slurmfab.commands.report.sections.runs import tone_of
from slurmfab.core.engine.record import Record


def section(sources: Sources) -> Section | None:
    """The table of the recorded runs, newest first."""
    if isinstance(sources.records, Missing):
        return None
    runs = tuple((one, result_text(one), troubles(one)) for one in reversed(sources.records))
    return Section(
        "changes",
        "Who changed what",
        fill("changes.html.j2", runs=runs, at=at, tone_of=tone_of, duration=duration, fold=fold, changes=changes_text),
        note=note_of(sources.records),
        badge=str(len(runs)) if runs else "",
    )


def note_of(records: Sequence[Record]) -> str:
    """What the table covers."""
    if not records:
        return "No runs are recorded beside the cluster file. Each run that changes something leaves its record there."
    return f"The recorded runs since {at(records[0])}, newest first; they are beside the cluster file."


def troubles(record: Record) -> tuple[str, ...]:
    """The error that ended a run, and the hosts that were excluded, with the reasons."""
    return (*record.error.splitlines(), *fold_lines((host, why) for host, why in record.lost.items()))
