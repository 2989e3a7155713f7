"""A run as people see it on the terminal: a line per host and phase as it ends, and at the end what came of it all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from slurmfab.agent.resource import CHANGED, WOULD_CHANGE
from slurmfab.errors import HostError, Unreachable
from slurmfab.hostlist import fold
from slurmfab.report import Report, Step, failures, folded, headline, told

COLOURS = {"failed": "31", "changed": "33", "ok": "32"}


class Progress:
    """Tells what goes on; everything but the final word goes to standard error.

    Args:
        out: where to; a terminal gets a status line and colours (unless NO_COLOR is set), anything else plain lines.
        verbose: whether to tell every difference, with diffs, as it is seen to.
        quiet: whether to say nothing at all before the end.
    """

    def __init__(self, out: TextIO = sys.stderr, *, verbose: bool = False, quiet: bool = False) -> None:
        self.out = out
        self.verbose = verbose
        self.quiet = quiet
        self.is_terminal = out.isatty()
        self.has_colour = self.is_terminal and not os.environ.get("NO_COLOR")
        self.waiting: list[str] = []
        self.doing = ""
        self.spinner: Any = None

    def begin(self, doing: str, hosts: Iterable[str]) -> None:
        """Say what begins on which hosts."""
        self.doing, self.waiting = doing, list(hosts)
        self.show_status()

    def host_done(self, host: str, step: Step | None = None) -> None:
        """Say that a host is through, and what happened there if anything did."""
        if host in self.waiting:
            self.waiting.remove(host)
        if step and step.differs:
            status = "failed" if step.has_failed else "changed"
            self.line(
                f"{self.coloured(f'{step.phase:<12}', status)} {host:<10} {headline(step)} ({step.seconds:.1f} s)"
            )
            if self.verbose:
                for line in (line for outcome in step.outcomes if outcome.status != "ok" for line in told(outcome)):
                    self.line(f"    {line}")
        self.show_status()

    def host_lost(self, host: str, error: HostError) -> None:
        """Say that a host cannot be gone on with; why is said at the end, where it is not lost among the lines."""
        if host in self.waiting:
            self.waiting.remove(host)
        why = "unreachable" if isinstance(error, Unreachable) else "failed"
        self.line(self.coloured(f"{host}: {why}, and left out of the rest", "failed"))
        self.show_status()

    def end(self) -> None:
        """Take the status line away."""
        if self.spinner:
            self.spinner.stop()
            self.spinner = None

    def line(self, text: str) -> None:
        """A line of its own, above the status line."""
        if self.quiet:
            return
        if self.spinner:
            self.spinner.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self.out, flush=True)

    def show_status(self) -> None:
        """Bring the status line up to date, where there is a terminal to show one on."""
        if not self.is_terminal or self.quiet:
            return
        text = f"{self.doing}: {fold(self.waiting)}" if self.waiting else self.doing
        if self.spinner is None:
            from rich.console import Console  # noqa: PLC0415 - rich is slow to import

            self.spinner = Console(file=self.out, highlight=False).status("", refresh_per_second=4)
            self.spinner.start()
        from rich.markup import escape  # noqa: PLC0415 - imported above already

        self.spinner.update(escape(text))

    def coloured(self, text: str, status: str) -> str:
        """Text in the colour of a status, where there are colours."""
        return f"\x1b[{COLOURS[status]}m{text}\x1b[0m" if self.has_colour else text


def summary(report: Report) -> str:
    """The last word on a deployment: what is wrong, or how much was changed."""
    lines = list(failures(report.steps, report.lost))
    changed = report.count(CHANGED)
    hosts = f"{len(report.hosts)} host{'s' if len(report.hosts) != 1 else ''}"
    what = f"{changed} change{'s' if changed != 1 else ''}" if changed else "nothing changed"
    if report.exit_code == 0:
        lines.append(f"{report.cluster}: {what} on {hosts}, all is as wanted ({report.seconds:.1f} s).")
    else:
        unwell = sorted({*report.lost, *(step.host for step in report.steps if step.has_failed)})
        lines.append(
            f"{report.cluster}: {what} on {hosts}; not done: {fold(unwell)} ({report.seconds:.1f} s). "
            "Mend that and run the same command again; it goes on where it stopped."
        )
    return "\n".join(lines)


def plan_text(report: Report, steps: Sequence[Step]) -> str:
    """What a deployment would do, folded over hosts with equal differences."""
    lines = []
    for phase, hosts, changes in folded(steps):
        lines += [f"{fold(hosts)}: {phase}", *(f"    {line}" for line in changes), ""]
    lines += [str(error) for error in report.lost.values()]
    would = report.count(WOULD_CHANGE)
    lines.append(
        f"{report.cluster}: {would} change{'s' if would != 1 else ''} would be made ({report.seconds:.1f} s)."
        if would
        else f"{report.cluster}: nothing would be changed ({report.seconds:.1f} s)."
    )
    return "\n".join(lines)
