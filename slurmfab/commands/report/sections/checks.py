"""The last run of `check-cluster`: what failed, why, with the repair, and a matrix of checks by hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slurmfab.base.folding import fold_texts
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.markup import Markup, fill
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Result, by_check
from slurmfab.commands.report.section import Missing, Section, Sources

MOST_SINGLE = 40  # up to this number of hosts, each has a column; of more, those with the same results share one
MOST_COLUMNS = 48  # the most columns; hosts beyond them are named below the matrix
SIGNS = {PASSED: ("pass", "✓"), FAILED: ("fail", "✗"), NOT_RUN: ("left", "–")}  # class and sign of each outcome


class Column(NamedTuple):
    """Hosts with the same results."""

    title: str
    host: str


class Line(NamedTuple):
    """One check: its title, and the class and sign of each column; empty ones where it does not concern the hosts."""

    title: str
    cells: tuple[tuple[str, str], ...]
    failed: int


class Finding(NamedTuple):
    """A check that failed for the same reason on some hosts."""

    title: str
    group: str
    hosts: str
    cause: str
    repair: str


class Left(NamedTuple):
    """Checks that were not run on some hosts for the same reason."""

    hosts: str
    cause: str
    titles: tuple[str, ...]


def section(sources: Sources) -> Section | None:
    """The last checks; a section with the reason where there are none."""
    run = sources.checks
    if isinstance(run, Missing):
        return Section("checks", "Checks", Markup(), note=run.reason) if run.reason else None
    results = run.verdict.results
    shown, rest = columns(results, sources.inventory.cluster.hosts)
    failed, left = run.verdict.having(FAILED), run.verdict.having(NOT_RUN)
    return Section(
        "checks",
        "Checks",
        fill(
            "checks.html.j2",
            columns=shown,
            rest=rest,
            groups=matrix(results, shown),
            failed=findings(failed),
            left=not_run(left),
        ),
        note=f"{run.verdict.headline}; by {run.by}, {run.begun.astimezone():%Y-%m-%d %H:%M}.",
        badge=f"{len(failed)} failed" if failed else f"{len(left)} not run" if left else "passed",
        tone="bad" if failed else "watch" if left else "good",
    )


def columns(results: Iterable[Result], hosts: Sequence[str]) -> tuple[list[Column], str]:
    """The columns of the matrix, and the hosts without room, as a hostlist, in the file's order."""
    outcomes = grouped((result.host, (result.group, result.check, result.outcome)) for result in results)
    order = [*(host for host in hosts if host in outcomes), *sorted(outcomes.keys() - {*hosts})]
    if len(order) <= MOST_SINGLE:
        return [Column(host, host) for host in order], ""
    alike = grouped((tuple(sorted(outcomes[host])), host) for host in order)
    # Hosts on which something failed come first, so that they have room.
    groups = sorted(alike.items(), key=lambda item: -sum(outcome == FAILED for _, _, outcome in item[0]))
    shown = [
        Column(fold(same) if len(same) == 1 else f"{len(same)} hosts: {fold(same)}", same[0])
        for _, same in groups[:MOST_COLUMNS]
    ]
    return shown, fold(host for _, same in groups[MOST_COLUMNS:] for host in same)


def matrix(results: Iterable[Result], shown: Sequence[Column]) -> dict[str, list[Line]]:
    """The lines of the matrix, by group of checks, in the order in which they ran."""
    groups: dict[str, list[Line]] = {}
    for (group, _), ones in by_check(results).items():
        outcome = {one.host: SIGNS[one.outcome] for one in ones}
        cells = tuple(outcome.get(column.host, ("", "")) for column in shown)
        groups.setdefault(group, []).append(Line(ones[0].title, cells, sum(one.outcome == FAILED for one in ones)))
    return groups


def findings(results: Iterable[Result]) -> list[Finding]:
    """Causes and repairs, folded over the hosts where they differ in nothing but names and addresses."""
    return [
        Finding(ones[0].title, group, folded.hostlist, *folded.texts)
        for (group, _), ones in by_check(results).items()
        for folded in fold_texts((one.host, (one.cause, one.repair)) for one in ones)
    ]


def not_run(results: Iterable[Result]) -> list[Left]:
    """What was not run, by host and reason: usually one thing keeps many checks from running."""
    found = grouped(((one.host, one.cause), one.title) for one in results)
    alike = grouped((tuple(titles), (host, (cause,))) for (host, cause), titles in found.items())
    return [
        Left(folded.hostlist, folded.texts[0], titles) for titles, ones in alike.items() for folded in fold_texts(ones)
    ]
