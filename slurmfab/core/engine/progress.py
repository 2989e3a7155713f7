"""A run as people see it on standard error while it goes on: a line for hosts with equal outcomes when a phase ends."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from slurmfab.base.errors import Asleep, HostError, Unreachable
from slurmfab.base.folding import fold_texts
from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import GREEN, RED, YELLOW, Paint, StatusLine, in_one_line, is_terminal, write
from slurmfab.core.engine.report import Step, describe, headline

MOST_NAMED = 200
"""How many hosts the status line names: it is written anew after each answer, and folding names takes time."""

MOST_WAITING = 1000  # the most characters of what a host says to wait for
MOST_WAITS = 20  # how often hosts may say in one phase that they wait
COLOURS = {"failed": RED, "changed": YELLOW, "ok": GREEN}  # the colours of outcomes


class Progress:
    """Tells what a run does, on standard error; the summary at its end is not told here.

    Outcomes are kept until all hosts have finished a phase. Then hosts with equal outcomes share a line. `out`: where
    to; a terminal also gets a status line, and colours unless NO_COLOR is set. `verbose`: whether to tell every
    difference, with diffs, below the line of its phase.
    """

    def __init__(self, out: TextIO = sys.stderr, *, verbose: bool = False, quiet: bool = False) -> None:
        self.out = out
        self.verbose = verbose
        self.quiet = quiet
        self.is_terminal = is_terminal(out)
        self.paint = Paint(out)
        self.doing = ""
        self.begun = time.monotonic()
        self.total = 0
        self.waiting: dict[str, None] = {}
        self.waits = 0
        self.steps: list[Step] = []
        self.lost: list[tuple[str, HostError]] = []
        self.timeline: list[tuple[float, str]] = []
        self.status: StatusLine | None = None
        self.asked: dict[str, float] = {}  # hosts with an open request, and since when
        self.asking_lock = threading.Lock()
        self.is_for_asked = False  # whether the status line is there for them alone

    def note(self, doing: str) -> None:
        """Note for the record that something begins now."""
        self.timeline.append((time.monotonic(), doing))

    def tell(self, steps: Iterable[Step]) -> None:
        """Tell outcomes at once, folded over hosts, also while others of their phase are not done."""
        for line in self.step_lines(step for step in steps if step.differs):
            self.show(line)

    def begin(self, doing: str, hosts: Iterable[str], *, is_noted: bool = False) -> None:
        """Tell that something begins on hosts, and note the time for the record unless that is done already."""
        self.flush()
        self.is_for_asked = False
        self.doing, self.waiting, self.begun, self.waits = doing, dict.fromkeys(hosts), time.monotonic(), 0
        self.total = len(self.waiting)
        if self.waiting and not is_noted:
            self.timeline.append((self.begun, doing))
        self.show_status()

    @contextmanager
    def during(self, doing: str, hosts: Iterable[str]) -> Iterator[None]:
        """Show that something is being done to hosts which are not reported one by one."""
        self.begin(doing, hosts)
        try:
            yield
        finally:
            self.end()

    @contextmanager
    def asking(self, host: str) -> Iterator[None]:
        """Show on a terminal that a host is waited for, while a request is open and nothing else is shown."""
        if not self.is_terminal or self.quiet:
            yield
            return
        with self.asking_lock:
            self.asked.setdefault(host, time.monotonic())
            self.show_asked()
        try:
            yield
        finally:
            with self.asking_lock:
                self.asked.pop(host, None)
                self.show_asked()

    def show_asked(self) -> None:
        """Bring up to date which hosts are waited for, unless the status line names those of a phase."""
        if self.waiting:
            return
        if self.asked:
            if self.status is None:
                self.status, self.is_for_asked = StatusLine(self.out), True
            names = fold(self.asked) if len(self.asked) <= MOST_NAMED else f"{len(self.asked)} hosts"
            self.status.show(f"waiting for {names}", min(self.asked.values()))
        elif self.status and self.is_for_asked:
            self.status.end()
            self.status = None
        else:
            self.show_status()

    def host_done(self, host: str, step: Step | None = None) -> None:
        """Note that a host has finished, with its outcomes if there are any."""
        self.waiting.pop(host, None)
        if step and step.differs:
            self.steps.append(step)
        if not self.waiting:
            # A host that failed is lost next, like others before it: all of them then share a line.
            self.flush(with_lost=not (step and step.has_failed))
        self.show_status()

    def host_waits(self, host: str, text: str) -> None:
        """Tell what a host waits for, in one line of its own."""
        self.waits += 1
        if self.waits <= MOST_WAITS:
            self.show(f"{self.doing:<12} {host:<10} {in_one_line(text)[:MOST_WAITING]}")

    def host_lost(self, host: str, error: HostError) -> None:
        """Note that the run goes on without a host, and why."""
        was_waited_for = host in self.waiting
        self.waiting.pop(host, None)
        self.lost.append((host, error))
        # One that was not waited for can be followed by others that are lost for the same reason, so its line waits.
        if was_waited_for and not self.waiting:
            self.flush()
        self.show_status()

    def flush(self, *, with_lost: bool = True) -> None:
        """Tell the outcomes that were kept, folded over hosts."""
        steps, self.steps = self.steps, []
        for line in self.step_lines(steps):
            self.show(line)
        lost = self.lost if with_lost else []
        self.lost = [] if with_lost else self.lost
        for line in self.lost_lines(lost):
            self.show(line)

    def end(self) -> None:
        """Tell the outcomes that were kept, and remove the status line."""
        self.flush()
        self.waiting.clear()
        if self.status:
            self.status.end()
            self.status = None

    def line(self, text: str) -> None:
        """Tell something else, behind the outcomes of phases that have ended."""
        if not self.waiting:
            self.flush()
        self.show(text)

    def show(self, text: str) -> None:
        """Print lines, above the status line if there is one."""
        if self.quiet:
            return
        if self.status:
            self.status.print(text)
        else:
            write(text, self.out)

    def show_status(self) -> None:
        """Bring the status line up to date, on a terminal."""
        if not self.is_terminal or self.quiet:
            return
        if self.status is None:
            self.status = StatusLine(self.out)
        self.status.show(self.status_text(), self.begun)

    def status_text(self) -> str:
        """What is being done, and which hosts have not finished it: `users: 95 of 96 hosts done, waiting for n7`."""
        if not self.waiting:
            return self.doing
        names = fold(self.waiting) if len(self.waiting) <= MOST_NAMED else f"{len(self.waiting)} hosts"
        done = self.total - len(self.waiting)
        return f"{self.doing}: {f'{done} of {self.total} hosts done, waiting for ' if done else ''}{names}"

    def step_lines(self, steps: Iterable[Step]) -> Iterator[str]:
        """Lines such as `users        n[1-96]    2 changed (0.1 to 0.4 s)`, with details if they are wanted."""
        groups: dict[tuple[str, str, bool, tuple[str, ...]], list[Step]] = {}
        for step in steps:
            details = tuple(
                line
                for outcome in step.outcomes
                if self.verbose and outcome.status != "ok"
                for line in describe(outcome)
            )
            groups.setdefault((step.phase, headline(step), step.has_failed, details), []).append(step)
        for (phase, text, has_failed, details), equal in groups.items():
            name = self.paint(f"{phase:<12}", COLOURS["failed" if has_failed else "changed"])
            yield f"{name} {fold(step.host for step in equal):<10} {text} ({time_range(equal)})"
            yield from (f"    {line}" for line in details)

    def lost_lines(self, lost: Iterable[tuple[str, HostError]]) -> Iterator[str]:
        """Lines such as `n[2-96]: unreachable: no answer; skipped for the rest of this run`."""
        # An error may be about another host, as about the jump host that is needed on the way.
        reasons = ((host, error, error.reason if error.host == host else str(error)) for host, error in lost)
        for group in fold_texts((host, (kind_of(error), reason)) for host, error, reason in reasons):
            kind, reason = group.texts
            text = f"{group.hostlist}: {kind}: {first_sentence(reason)}; skipped for the rest of this run"
            yield self.paint(text, COLOURS["failed"])


def kind_of(error: HostError) -> str:
    """What kind of error a host was skipped for, in a word."""
    if isinstance(error, Asleep):
        return "asleep"
    return "unreachable" if isinstance(error, Unreachable) else "failed"


def time_range(steps: Iterable[Step]) -> str:
    """How long steps took: `0.4 s`, or `0.1 to 0.4 s`."""
    times = [f"{seconds:.1f}" for seconds in sorted(step.seconds for step in steps)]
    return f"{times[0]} s" if times[0] == times[-1] else f"{times[0]} to {times[-1]} s"


def first_sentence(reason: str) -> str:
    """What happened, without what to try: that is told once, in the summary.

    >>> first_sentence("nothing listens at 10.0.0.2 port 22. Is the host up, and its sshd running?")
    'nothing listens at 10.0.0.2 port 22'
    """
    return reason.partition("\n")[0].partition(". ")[0].removesuffix(".")
