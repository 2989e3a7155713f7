"""The history of acceptance jobs, kept on the controller, and its last runs as a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from slurmfab.base.answers import STRICT_BUT_OPEN
from slurmfab.base.errors import HostlistError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import expand
from slurmfab.base.json_output import Key, shows
from slurmfab.base.paths import ACCEPTANCE_HISTORY
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, table, write
from slurmfab.cluster.inventory import loading
from slurmfab.commands.accept.results import BAD, LONGEST_WORDS, Result, number, shortened, signed
from slurmfab.commands.checks.hosts import CheckedHost, last_words, opened, opener_of
from slurmfab.core.engine import session

FILE = f"{ACCEPTANCE_HISTORY}/history.jsonl"

MOST_BYTES = 8 * 1024 * 1024  # bytes at the end of the history that are read, and kept once the file has twice as many
MOST_EARLIER = 20  # how many earlier runs at a place a figure is compared with
READ = f"tail -c {MOST_BYTES} {FILE} 2>/dev/null || true"  # prints the history; the first line may be cut

ADD = (
    f"umask 022 && mkdir -p {ACCEPTANCE_HISTORY} && cd {ACCEPTANCE_HISTORY} && "
    "(umask 077 && : >>lock) && chmod 600 lock && exec 9>lock && flock 9 && "
    '{ test -z "$(tail -c 1 history.jsonl 2>/dev/null)" || echo; cat; } >>history.jsonl && '
    f'if [ "$(wc -c <history.jsonl)" -gt {2 * MOST_BYTES} ]; then '
    f"tail -c {MOST_BYTES} history.jsonl | sed 1d >history.new && mv history.new history.jsonl; fi"
)
"""Appends its input to the history; several administrators may do that at the same time. A full disk may have cut the
last line. Whoever can open the file `lock` can lock it."""

SECONDS = 60.0  # time limit of both commands

LAST = 5  # how many runs of a figure at a place are shown
HEADER = ("WHEN", "JOB", "NODES", "FIGURE", "TARGET", "CHANGE", "VERDICT")


@dataclass(frozen=True)
class Entry:
    """A figure of a run."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN

    run: str  # tells the runs of `fab accept` from each other
    time: str  # of the result, as `2026-11-23T08:15:00Z`
    job: str  # name of the job
    figure: str  # name of the figure; may be empty
    place: str  # where it was meant to run: a hostlist, or a number of nodes, as `2 nodes`
    nodes: str  # where it ran; may be empty
    unit: str  # of the figure
    verdict: str  # of the result
    words: str  # its reason
    user: str  # who ran it
    value: float | None  # the figure; null if there is none
    target: float | None  # what was expected; null for nothing
    seconds: float  # how long the job took

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from figures that it cannot be compared with."""
        return self.job, self.figure, self.place, self.unit


LINE = TypeAdapter(Entry)


def parse(line: bytes) -> Entry | None:
    """The entry in a line; `None` if the line is damaged."""
    try:
        return LINE.validate_json(line)
    except ValidationError:
        return None


def read_history(controller: CheckedHost) -> tuple[Entry, ...]:
    """The history, oldest entry first; damaged lines are skipped. `controller`: the host that has it."""
    lines = str(controller.run(READ, seconds=SECONDS).stdout).splitlines()
    return tuple(entry for entry in (parse(line.encode()) for line in lines) if entry is not None)


def add_history(controller: CheckedHost, entries: Iterable[Entry]) -> str:
    """Append entries to the history on its host; returns why they are not kept, empty if they are."""
    lines = [json.dumps(entry.__dict__, sort_keys=True) + "\n" for entry in entries]
    done = controller.run(ADD, stdin="".join(lines), seconds=SECONDS)
    return "" if done.rc == 0 else last_words(done)


def entry_of(result: Result, run: str, time: str) -> Entry:
    """The entry of a result. `run`: of `fab accept`."""
    figure = result.figure
    return Entry(
        run=run,
        time=time,
        job=result.run.job.name,
        figure=figure.name if figure else "",
        place=result.run.place,
        nodes=result.nodes,
        unit=figure.unit if figure else "",
        verdict=result.verdict,
        words=result.words[:LONGEST_WORDS],
        user=result.run.job.user,
        value=result.value,
        target=figure.target if figure else None,
        seconds=round(result.seconds, 3),
    )


def with_earlier(result: Result, entries: Sequence[Entry]) -> Result:
    """A result with the median of earlier runs at its place. `entries`: the history, without it."""
    middle, count = middle_of(entries, entry_of(result, "", "").key)
    return replace(result, earlier=middle, earlier_runs=count)


def middle_of(entries: Sequence[Entry], key: tuple[str, str, str, str]) -> tuple[float | None, int]:
    """The median of the newest figures with a key of `Entry`, and how many these are; `None` if there are none."""
    values = [entry.value for entry in entries if entry.key == key and entry.value is not None][-MOST_EARLIER:]
    return (median(values), len(values)) if values else (None, 0)


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
        entries = read_history(controller)
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
    found = grouped((entry.key, entry) for entry in entries)
    return tuple(
        Shown(entry, change(entry, those[:place]))
        for _, those in sorted(found.items())
        for place, entry in list(enumerate(those))[-LAST:]
    )


def change(entry: Entry, before: Sequence[Entry]) -> float | None:
    """Percent by which an entry is above or below the median of the runs before it; `None` without these."""
    middle, _ = middle_of(before, entry.key)
    return None if entry.value is None or not middle else (entry.value - middle) / middle * 100
