"""The history of GPU checks as small plots, the worst nodes first."""

from __future__ import annotations

from collections.abc import Sequence

from slurmfab.base.grouping import grouped
from slurmfab.base.markup import Markup, fill
from slurmfab.base.program_name import FAB
from slurmfab.commands.report.charts import amount
from slurmfab.commands.report.gpu_history import PAIR, History, histories, range_of, sparkline, type_plot
from slurmfab.commands.report.section import Missing, Section, Sources, Tone
from slurmfab.on_hosts.programs.gpu_check.check import NOT_MEASURED

MOST_PLOTS = 48  # so many nodes have a plot of their own; all are in the table

ID, TITLE = "gpu-checks", "GPU checks"


def section(sources: Sources) -> Section | None:
    """The plots of the GPU checks; none where the cluster file has no `gpu_checks`."""
    entries = sources.gpu_checks
    if isinstance(entries, Missing):
        return Section(ID, TITLE, Markup(""), note=entries.reason) if entries.reason else None
    times, found = histories(entries)
    if not found:
        note = f"Nothing has been measured yet: {FAB} check-gpus."
        return Section(ID, TITLE, Markup(""), note=note)
    kinds = by_kind(found)
    ranges = {name: range_of(of_kind) for name, of_kind in kinds.items()}
    content = fill(
        "gpu-checks.html.j2",
        plots=[type_plot(name, of_kind, times) for name, of_kind in kinds.items()],
        nodes=[(one, sparkline(one, len(times), ranges[kind_of(one)])) for one in found[:MOST_PLOTS]],
        histories=found,
        amount=amount,
    )
    badge, tone = badge_of(found)
    return Section(ID, TITLE, content, note=note_of(times, found), badge=badge, tone=tone)


def kind_of(history: History) -> str:
    """What a history is compared with: nodes with the same GPUs, or other pairs of nodes."""
    return f"Between nodes with {history.gpus}" if PAIR in history.name else history.gpus or "GPUs"


def by_kind(found: Sequence[History]) -> dict[str, list[History]]:
    """The histories by kind, those of single nodes first."""
    kinds = grouped((kind_of(one), one) for one in found)
    return dict(sorted(kinds.items(), key=lambda item: (PAIR in item[1][0].name, item[0])))


def badge_of(found: Sequence[History]) -> tuple[str, Tone]:
    """How many fall short or were not measured at their last check."""
    short = sum(one.is_short for one in found)
    unmeasured = sum(one.last.outcome == NOT_MEASURED for one in found)
    if short:
        return f"{short} short", "bad"
    return (f"{unmeasured} not measured", "watch") if unmeasured else ("all passed", "good")


def note_of(times: Sequence[str], found: Sequence[History]) -> str:
    """What the plots show."""
    checks = (
        f"{len(times)} checks from {times[0]} to {times[-1]} (UTC)"
        if len(times) > 1
        else f"The check of {times[0]} (UTC)"
    )
    shown = f" {MOST_PLOTS} of {len(found)} have a plot of their own, the worst first; the table has all."
    text = f"{checks}: bus bandwidth in GB/s, and the threshold as a dashed line. Nodes of a kind share one scale."
    return text + (shown if len(found) > MOST_PLOTS else "")
