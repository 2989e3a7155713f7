"""The history of acceptance jobs as a table: the last runs of each job at each place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import expand
from slurmfab.base.json_output import Key, shows
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, table, write
from slurmfab.cluster.inventory import loading
from slurmfab.commands.accept import history
from slurmfab.commands.accept.history import Entry, middle_of
from slurmfab.commands.accept.results import BAD, number, shortened, signed
from slurmfab.commands.checks.opener import opened, opener_of
from slurmfab.core.engine import session

LAST = 5  # how many runs of a figure at a place are shown

HEADER = ("WHEN", "JOB", "NODES", "FIGURE", "TARGET", "CHANGE", "VERDICT")


@shows(*(Key(one.name, f"entry.{one.name}") for one in fields(Entry)), "change")
@dataclass(frozen=True)
class Shown:
    """An entry of the history."""

    entry: Entry
    change: float | None  # percent by which it is above or below the median of the runs before it; null without these

    def cells(self) -> tuple[str, ...]:
        """The cells of its row."""
        one = self.entry
        value = f"{number(one.value)} {one.unit}".strip() if one.value is not None else "-"
        name = f"{one.job}:{one.figure}" if one.figure else one.job
        verdict = one.verdict.upper() if one.verdict in BAD else one.verdict
        when = one.time[:16].replace("T", " ")
        return when, name, shortened(one.nodes or one.place), value, number(one.target), signed(self.change), verdict


@dataclass(frozen=True)
class History:
    """The last runs of each acceptance job at each place: `fab accept --history`."""

    version: int  # of this format: 1
    cluster: str  # the cluster's name
    entries: tuple[Shown, ...]  # the figures, oldest first


def show(cluster: str, only: str, hosts: str, output: session.Output) -> int:
    """Print the last runs of each job at each place.

    Args:
        only: names of jobs, separated by commas; empty for all, also those that have left the cluster file.
        hosts: hostlist of nodes; empty for all.
    """
    known = loading.load_named(cluster)
    names = {word.strip() for word in only.split(",") if word.strip()}
    nodes = set(expand(hosts)) if hosts else set()
    with opened(opener_of(output), known, known.cluster.controller) as controller:
        entries = history.read(controller)
    chosen = [one for one in entries if (not names or one.job in names) and (not nodes or nodes & places(one))]
    shown = last_runs(chosen)
    stream = output.stream
    lines = table((HEADER, *(one.cells() for one in shown)), columns(stream)) if shown else ()
    write("\n".join(lines) if shown else f"No acceptance job has run yet: {FAB} accept.", stream)
    output.write_json(History(1, known.cluster.name, shown))
    return 0


def places(entry: Entry) -> set[str]:
    """The nodes of an entry; those on which it should have run, if it did not."""
    try:
        return set(expand(entry.nodes or entry.place))
    except HostlistError:
        return {entry.place}


def last_runs(entries: Sequence[Entry]) -> tuple[Shown, ...]:
    """The newest entries of each figure at each place, oldest first, with their changes."""
    found: dict[tuple[str, str, str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.key, []).append(entry)
    return tuple(
        Shown(entry, change(entry, those[:place]))
        for _, those in sorted(found.items())
        for place, entry in list(enumerate(those))[-LAST:]
    )


def change(entry: Entry, before: Sequence[Entry]) -> float | None:
    """Percent by which an entry is above or below the median of the runs before it; `None` without these."""
    middle, _ = middle_of(before, entry.key)
    return None if entry.value is None or not middle else (entry.value - middle) / middle * 100
