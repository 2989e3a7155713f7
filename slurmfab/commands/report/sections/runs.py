"""The last runs as charts: which phase took how long on which hosts."""

from __future__ import annotations

from collections.abc import Sequence

from slurmfab.base.markup import fill
from slurmfab.base.program_name import FAB
from slurmfab.commands.history.listing import at, result_text
from slurmfab.commands.report.gantt import gantt, timeline
from slurmfab.commands.report.section import Missing, Section, Sources, Tone
from slurmfab.core.engine.record import Record

MOST_RUNS = 5  # so many runs have a chart, the newest ones that changed something on a host


def section(sources: Sources) -> Section | None:
    """The charts of the last runs."""
    if isinstance(sources.records, Missing):
        return None
    drawn = [(one, result_text(one), gantt(timeline(one))) for one in chosen(sources.records)]
    note = (
        f"The newest first; times are those of the slowest host of each row. All runs: {FAB} history."
        if drawn
        else "No recorded run has changed anything on a host yet."
    )
    return Section("runs", "Last runs", fill("runs.html.j2", runs=drawn, at=at, tone_of=tone_of), note=note)


def chosen(records: Sequence[Record]) -> tuple[Record, ...]:
    """The newest runs that did something on hosts, newest first."""
    return tuple(one for one in reversed(records) if one.steps or one.lost)[:MOST_RUNS]


def tone_of(result: str) -> Tone:
    """How a result is marked."""
    if result == "done":
        return "good"
    return "bad" if result.startswith("failed") else "watch"
