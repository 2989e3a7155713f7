"""A run as people see it on the terminal: a line per host and phase as it ends, and at the end what came of it all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

from slurmfab.agent.resource import CHANGED
from slurmfab.errors import HostError, Unreachable
from slurmfab.hostlist import fold
from slurmfab.report import NOT_DEPLOYING, Report, Step, failures, headline, told

RETRY = "Mend that, then go on with just those: fab deploy --retry-failed."
AGAIN = "Mend that and run the same command again; it goes on where it stopped."

MOST_NAMED = 200
"""How many hosts the status line names: it is written anew for each that is through, and folding takes its time."""

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
        self.waiting: dict[str, None] = {}
        self.doing = ""
        self.timeline: list[tuple[float, str]] = []
        self.spinner: Any = None

    def begin(self, doing: str, hosts: Iterable[str]) -> None:
        """Say what begins on which hosts, and note when, for the record."""
        self.doing, self.waiting = doing, dict.fromkeys(hosts)
        if self.waiting:
            self.timeline.append((time.monotonic(), doing))
        self.show_status()

    def host_done(self, host: str, step: Step | None = None) -> None:
        """Say that a host is through, and what happened there if anything did."""
        self.waiting.pop(host, None)
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
        self.waiting.pop(host, None)
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
        names = fold(self.waiting) if len(self.waiting) <= MOST_NAMED else f"{len(self.waiting)} hosts"
        text = f"{self.doing}: {names}" if self.waiting else self.doing
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
    """The last word on a deployment: what is wrong, or how much was changed, and what became of the jobs."""
    lines = [*failures(report.steps, report.lost), *(report.jobs.lines if report.jobs else ())]
    changed = report.count(CHANGED)
    hosts = f"{len(report.hosts)} host{'s' if len(report.hosts) != 1 else ''}"
    what = f"{changed} change{'s' if changed != 1 else ''}" if changed else "nothing changed"
    if report.exit_code == 0:
        but = f" but the hardware of {fold(report.other_hardware)}" if report.other_hardware else ""
        lines.append(f"{report.cluster}: {what} on {hosts}, all is as wanted{but} ({report.seconds:.1f} s).")
        return "\n".join(lines)
    unwell = sorted({*report.lost, *(step.host for step in report.steps if step.has_failed)})
    if not unwell:
        lines.append(f"{report.cluster}: {what} on {hosts}, but see what became of the jobs ({report.seconds:.1f} s).")
    else:
        lines.append(
            f"{report.cluster}: {what} on {hosts}; not done: {fold(unwell)} ({report.seconds:.1f} s). "
            + (RETRY if report.lost and report.command not in (*NOT_DEPLOYING, "rollback") else AGAIN)
        )
    return "\n".join(lines)
