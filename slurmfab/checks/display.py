"""The checks as people see them: a table on a terminal, plain lines elsewhere, and what is wrong below it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from slurmfab.checks.results import FAILED, NOT_RUN, PASSED, Outcome, Result, Verdict, by_check
from slurmfab.hostlist import fold

if TYPE_CHECKING:
    from rich.table import Table

WORDS: dict[Outcome, str] = {PASSED: "✓ ok", FAILED: "✗ FAILED", NOT_RUN: "- not run"}
STYLES: dict[Outcome, str] = {PASSED: "green", FAILED: "bold red", NOT_RUN: "yellow"}
TITLE_WIDTH = 66

Row = tuple[str, Outcome, str, float]
"""A check's sentence, an outcome, the hosts with it, and the longest time that one of them took."""


class Display:
    """Tells what the checks find.

    Args:
        out: where to; a terminal gets a table unless NO_COLOR is set, anything else gets plain lines as the checks end.
        verbose: whether to name all causes at full length, each host for itself.
    """

    def __init__(self, out: TextIO, *, verbose: bool = False) -> None:
        self.out = out
        self.verbose = verbose
        self.has_table = out.isatty() and not os.environ.get("NO_COLOR")
        self.status: Any = None

    def heard(self, results: tuple[Result, ...]) -> None:
        """Tell that a check has ended on all its hosts."""
        if self.has_table:
            self.show_status(f"{results[0].group}: {results[0].title}")
            return
        for title, outcome, hosts, seconds in rows(results):
            self.line(f"{WORDS[outcome]:<10} {results[0].group:<14} {title:<{TITLE_WIDTH}} {hosts}  {seconds:.1f} s")

    def show(self, verdict: Verdict) -> None:
        """Tell everything, with what is wrong and the final word last."""
        if self.has_table:
            self.console().print(table(verdict))
        for line in (*failures(verdict, self.verbose), *left_out(verdict), ""):
            self.line(line)
        self.line(f"{verdict.cluster}: {verdict.headline}.")

    def show_status(self, text: str) -> None:
        """Show what was looked at last."""
        if self.status is None:
            self.status = self.console().status("", refresh_per_second=4)
            self.status.start()
        from rich.markup import escape  # noqa: PLC0415 - rich is slow to import

        self.status.update(escape(text))

    def end(self) -> None:
        """Take the status line away."""
        if self.status:
            self.status.stop()
            self.status = None

    def console(self) -> Any:
        """A rich console on our output, which takes text as it is."""
        from rich.console import Console  # noqa: PLC0415 - rich is slow to import

        return Console(file=self.out, highlight=False, markup=False)

    def line(self, text: str) -> None:
        """A line of its own."""
        print(text, file=self.out, flush=True)


def rows(results: Iterable[Result]) -> tuple[Row, ...]:
    """One check's results, hosts with the same outcome put together; what failed comes last.

    Hosts on which it was not run are told of below, all checks in one; here only where it was run on none.
    """
    alike: dict[Outcome, list[Result]] = {}
    for result in results:
        alike.setdefault(result.outcome, []).append(result)
    shown = (PASSED, FAILED) if {PASSED, FAILED} & set(alike) else (NOT_RUN,)
    found = ((outcome, alike[outcome]) for outcome in shown if outcome in alike)
    return tuple(
        (some[0].title, outcome, fold(one.host for one in some), max(one.seconds for one in some))
        for outcome, some in found
    )


def table(verdict: Verdict) -> Table:
    """All checks by group."""
    from rich.table import Table  # noqa: PLC0415 - rich is slow to import
    from rich.text import Text  # noqa: PLC0415

    shown = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("Check", "Result", "Hosts"):
        shown.add_column(title)
    shown.add_column("Time", justify="right")
    group = ""
    for (name, _), results in by_check(verdict.results).items():
        if name != group:
            shown.add_row(Text(name, style="bold"))
            group = name
        for number, (title, outcome, hosts, seconds) in enumerate(rows(results)):
            said = Text(WORDS[outcome], style=STYLES[outcome])
            time = Text(f"{seconds:.1f} s", style="dim")
            shown.add_row(Text("" if number else f"  {title}"), said, Text(hosts), time)
    return shown


def failures(verdict: Verdict, verbose: bool = False) -> tuple[str, ...]:
    """What is wrong, check by check, with cause and repair; hosts with the same trouble are put together."""
    lines: list[str] = []
    for (group, _), results in by_check(verdict.having(FAILED)).items():
        lines += ["", f"FAILED  {group}: {results[0].title}"]
        for hosts, cause, repair in folded(results, apart=verbose):
            lines.append(f"  {hosts}: {cause}")
            lines += [f"    repair: {repair}"] if repair else []
    return tuple(lines)


def left_out(verdict: Verdict) -> tuple[str, ...]:
    """What was not looked at, reason by reason."""
    reasons: dict[str, list[Result]] = {}
    for result in verdict.having(NOT_RUN):
        reasons.setdefault(without(result.host, result.cause), []).append(result)
    lines = []
    for reason, results in reasons.items():
        titles = tuple(dict.fromkeys(f"{result.group}: {result.title}" for result in results))
        hosts = tuple(dict.fromkeys(result.host for result in results))
        what = titles[0] if len(titles) == 1 else f"{len(titles)} checks"
        lines.append(f"not run  {fold(hosts)}: {what}, because {with_hosts(hosts, reason)}")
    return ("", *lines) if lines else ()


def folded(results: Sequence[Result], *, apart: bool = False) -> tuple[tuple[str, str, str], ...]:
    """(hosts, cause, repair) of one check; hosts that differ in nothing but their names are put together."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    said = Counter((result.cause, result.repair) for result in results)
    for result in results:
        place, words = result.host if apart else "", (result.cause, result.repair)
        if said[words] == 1:
            words = (without(result.host, result.cause), without(result.host, result.repair))
        alike.setdefault((*words, place), []).append(result.host)
    return tuple(
        (fold(hosts), with_hosts(hosts, cause), with_hosts(hosts, repair))
        for (cause, repair, _), hosts in alike.items()
    )


def without(host: str, text: str) -> str:
    """A text with a gap where it names a host."""
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "\0", text)


def with_hosts(hosts: Sequence[str], text: str) -> str:
    """A text with its gaps filled with hosts."""
    return text.replace("\0", fold(hosts))
