"""The results of checks as people see them: a table on a terminal, plain lines elsewhere, and the failures below it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TextIO

from slurmfab.base.folding import HOST, fold_texts, without_name
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import (
    BOLD,
    DIM,
    GREEN,
    RED,
    YELLOW,
    Cell,
    Paint,
    StatusLine,
    hang,
    is_terminal,
    table,
    write,
)
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Outcome, Result, Verdict, by_check

OUTCOME_TEXTS: dict[Outcome, str] = {PASSED: "✓ ok", FAILED: "✗ FAILED", NOT_RUN: "- not run"}
COLOURS: dict[Outcome, str] = {PASSED: GREEN, FAILED: f"{BOLD};{RED}", NOT_RUN: YELLOW}

TITLE_WIDTH = 66  # columns for a check's title in plain lines; a longer one moves the rest of its line


MOST_FOLLOWERS = 4  # how many failures that follow from another one are named below it


class CheckRow(NamedTuple):
    """A check on hosts with the same outcome."""

    title: str
    outcome: Outcome  # `passed`, `failed` or `not run`
    hosts: str  # the hosts with it, as a hostlist
    seconds: float  # the longest time that one of them took


class Display:
    """Shows the results of checks.

    Args:
        out: where to; a terminal gets a table unless NO_COLOR is set, anything else a line for each check as it ends.
        verbose: whether to show failures host by host.
    """

    def __init__(self, out: TextIO, *, verbose: bool = False) -> None:
        self.out = out
        self.verbose = verbose
        self.has_table = is_terminal(out) and not os.environ.get("NO_COLOR")
        self.begun = time.monotonic()
        self.status: StatusLine | None = None

    def begin(self, hosts: Sequence[str]) -> None:
        """Show that hosts are connected to, which takes a while before the first check ends."""
        self.show_status(f"connecting to {fold(hosts)}")

    def show_status(self, text: str) -> None:
        """Show on a terminal what is waited for, and for how long the checks have run."""
        if self.has_table:
            self.status = self.status or StatusLine(self.out)
            self.status.show(text, self.begun)

    def check_done(self, results: tuple[Result, ...]) -> None:
        """Show that a check has ended on all its hosts."""
        if self.has_table:
            return
        for row in check_rows(results):
            text = f"{OUTCOME_TEXTS[row.outcome]:<10} {results[0].group:<14} {row.title:<{TITLE_WIDTH}}"
            write(f"{text} {row.hosts}  {row.seconds:.1f} s", self.out)

    def show(self, verdict: Verdict) -> None:
        """Show the table, the failures, what was not run, and the summary as the last line."""
        lines = check_table(verdict, Paint(self.out)) if self.has_table else []
        write("\n".join([*lines, *failures(verdict, self.verbose), *remarks(verdict), *not_run(verdict), ""]), self.out)
        write(f"{verdict.cluster}: {verdict.headline}.", self.out)

    def end(self) -> None:
        """Remove the status line."""
        if self.status:
            self.status.end()
            self.status = None


def check_rows(results: Iterable[Result]) -> tuple[CheckRow, ...]:
    """One check's results, hosts with the same outcome put together; failures last.

    Hosts on which it was not run are left out, since `not_run` names them; they are here only if it was run on none.
    """
    alike = grouped((result.outcome, result) for result in results)
    shown = (PASSED, FAILED) if {PASSED, FAILED} & set(alike) else (NOT_RUN,)
    return tuple(
        CheckRow(some[0].title, outcome, fold(one.host for one in some), max(one.seconds for one in some))
        for outcome in shown
        if (some := alike.get(outcome, []))
    )


def check_table(verdict: Verdict, paint: Paint) -> list[str]:
    """The lines of a table of all checks by group."""
    rows = [[Cell(title, DIM) for title in ("Check", "Result", "Hosts", "Time")]]
    group = ""
    for (name, _), results in by_check(verdict.results).items():
        if name != group:
            rows.append([Cell(name, BOLD), Cell(""), Cell(""), Cell("")])
            group = name
        for number, row in enumerate(check_rows(results)):
            title, time_taken = "" if number else f"  {row.title}", Cell(f"{row.seconds:.1f} s", DIM)
            result = Cell(OUTCOME_TEXTS[row.outcome], COLOURS[row.outcome])
            rows.append([Cell(title), result, Cell(row.hosts), time_taken])
    return table(rows, paint.width, paint)


def failures(verdict: Verdict, verbose: bool = False) -> tuple[str, ...]:
    """The failures by check, with cause and repair, hosts folded; those that follow from others below them."""
    lines: list[str] = []
    failed = verdict.having(FAILED)
    for (group, check), results in by_check(one for one in failed if verbose or not one.because).items():
        lines += ["", f"FAILED  {group}: {results[0].title}"]
        for one in fold_texts(((result.host, (result.cause, result.repair)) for result in results), apart=verbose):
            cause, repair = one.texts
            lines.append(f"  {one.hostlist}: {hang(cause)}")
            lines += [f"    repair: {hang(repair)}"] if repair else []
        lines += followers([one for one in failed if one.because.rpartition(" on ")[0] == f"{group}.{check}"])
    return tuple(lines)


def followers(results: Sequence[Result]) -> list[str]:
    """The line about failures that follow from one, such as `2 more, because of this: jobs: a job runs (n1); …`."""
    checks = by_check(results)
    if not checks:
        return []
    named = [f"{group}: {ones[0].title} ({fold(one.host for one in ones)})" for (group, _), ones in checks.items()]
    more = "; … (--verbose shows all)" if len(named) > MOST_FOLLOWERS else ""
    return [f"  {len(named)} more, because of this: {hang('; '.join(named[:MOST_FOLLOWERS]) + more)}"]


def remarks(verdict: Verdict) -> tuple[str, ...]:
    """What checks that passed have to tell all the same; hosts with the same remark are put together."""
    told = [(result.host, (result.cause,)) for result in verdict.having(PASSED) if result.cause]
    lines = [f"note    {one.hostlist}: {hang(one.texts[0])}" for one in fold_texts(told)]
    return ("", *lines) if lines else ()


def not_run(verdict: Verdict) -> tuple[str, ...]:
    """The checks that were not run, reason by reason."""
    reasons = grouped((without_name(result.host, result.cause), result) for result in verdict.having(NOT_RUN))
    lines = [reason_line(reason, results) for reason, results in reasons.items()]
    return ("", *lines) if lines else ()


def reason_line(reason: str, results: Sequence[Result]) -> str:
    """Why checks were not run, as in `not run n2: 3 checks, because n2 is unreachable.`; `HOST` is replaced."""
    titles = tuple(dict.fromkeys(f"{result.group}: {result.title}" for result in results))
    hosts = fold(result.host for result in results)
    checks = titles[0] if len(titles) == 1 else f"{len(titles)} checks"
    return f"not run  {hosts}: {checks}, because {hang(reason.replace(HOST, hosts))}"
