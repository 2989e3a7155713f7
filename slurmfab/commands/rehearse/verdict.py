"""What a rehearsal found: as data, as JSON, and as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, NamedTuple, TextIO

from slurmfab.base import terminal
from slurmfab.base.exit_codes import DONE, FAILURE, SOMETHING_TO_DO
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.terminal import BOLD, DIM, GREEN, RED, YELLOW, Paint
from slurmfab.core.engine.report import Step, fold_steps

AT_ONCE = 64  # hosts on which slurmfab works at once

VERDICTS = {DONE: "went well", FAILURE: "FAILS", SOMETHING_TO_DO: "went well, but look at this first"}
COLOURS = {DONE: GREEN, FAILURE: RED, SOMETHING_TO_DO: YELLOW}


@shows(Key("seconds", digits=1), "exit_code", "fault")
class Attempt(NamedTuple):
    """One time that the command was carried out."""

    seconds: float  # how long it took
    exit_code: int  # negative: it was killed by this signal
    fault: str = ""  # what was done to it, for people; empty for nothing


@shows("phase", "hosts", Key("seconds", digits=1), Key("reckoned", digits=1))
@dataclass(frozen=True)
class Duration:
    """How long a phase took on the twin, and is reckoned to take on the cluster."""

    phase: str  # such as `slurm.conf`
    hosts: tuple[str, ...]  # the hosts of the twin where something differed
    seconds: float  # for how long at least one host was at it
    reckoned: float  # the same on the cluster


def shown(begun: datetime) -> str:
    """A time as ISO 8601."""
    return begun.isoformat(timespec="seconds")


@shows(
    "version", "cluster", "command", Key("begun", form=shown), Key("exit_code", text="of the task"),
    "found", "look_at", "attempts", "steps", "durations", "jobs", "checks_before", "checks_after", "twin", "state_of",
    "told", "unknown",
)  # fmt: skip
@dataclass(frozen=True)
class Rehearsal:
    """A rehearsal of a command on a twin of the cluster."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    command: str  # the command line that was rehearsed
    begun: datetime  # when the rehearsal began
    # by which the change fails or does harm, for people, the cause first
    found: tuple[str, ...]
    look_at: tuple[str, ...]  # what should be looked at before the change, for people
    attempts: tuple[Attempt, ...]  # each time that the command was carried out
    steps: tuple[Step, ...]  # what it changed, phases by host, as in the report of a run
    durations: tuple[Duration, ...]  # of its phases
    jobs: tuple[str, ...]  # what became of jobs like last week's, for people
    checks_before: str  # the result of check-cluster before the command, for people
    checks_after: str  # the same afterwards
    # the hosts of the twin, each with the nodes of its kind that the twin lacks
    twin: Mapping[str, tuple[str, ...]]
    state_of: str  # when the backup was made whose state and database the twin has; empty for none
    unknown: tuple[str, ...]  # what the rehearsal cannot tell, for people
    told: tuple[str, ...] = ()  # what an import tells, such as what it cannot take over, for people

    @property
    def exit_code(self) -> int:
        """0 if all went well, 1 if the change fails or does harm, 4 if something is to be looked at first."""
        if self.found:
            return FAILURE
        return SOMETHING_TO_DO if self.look_at else DONE

    @property
    def verdict(self) -> str:
        """How it went, in a few words."""
        return VERDICTS[self.exit_code]


def durations(
    runs: Iterable[Iterable[Step]], twin: Mapping[str, Sequence[str]], at_once: float = 0
) -> tuple[Duration, ...]:
    """How long each phase took in all runs, and is reckoned to take on the cluster.

    All hosts of a phase are worked on at once, `AT_ONCE` at a time, so that a phase takes as much longer as the cluster
    has more such groups of hosts. `at_once`: the part of the compute nodes that an upgrade does at a time; 0 for other
    commands.
    """
    phases = grouped((step.phase, (number, step)) for number, steps in enumerate(runs) for step in steps)
    found = []
    for phase, some in phases.items():
        hosts = tuple(dict.fromkeys(step.host for _, step in some))
        real = sum(1 + len(twin.get(host, ())) for host in hosts)
        seconds = busy_seconds(some)
        found.append(Duration(phase, hosts, seconds, seconds * groups(real, at_once) / groups(len(hosts), at_once)))
    return tuple(found)


def busy_seconds(steps: Iterable[tuple[int, Step]]) -> float:
    """For how long at least one of these steps was under way, each with the number of its run."""
    seconds, last, end = 0.0, -1, 0.0
    for number, step in sorted(steps, key=lambda one: (one[0], one[1].at or 0.0)):
        begun = step.at or 0.0
        end = end if number == last else begun
        seconds += max(0.0, begun + step.seconds - max(begun, end))
        last, end = number, max(end, begun + step.seconds)
    return seconds


def groups(hosts: int, at_once: float) -> int:
    """In how many groups hosts are worked on."""
    size = min(AT_ONCE, max(1, int(hosts * at_once))) if at_once else AT_ONCE
    return math.ceil(hosts / size)


def write(found: Rehearsal, out: TextIO, *, verbose: bool = False) -> None:
    """Write a rehearsal: how it went and why, then what it did, and what it cannot tell."""
    paint = Paint(out)
    lines = [paint(f"Rehearsal of `{found.command}` on a twin of {found.cluster}: {found.verdict}", BOLD)]
    lines += [paint(f"  {one}", COLOURS[found.exit_code]) for one in (*found.found, *found.look_at)]
    lines += ["", *twin_lines(found), *change_lines(found, verbose=verbose)]
    lines += [one for one in found.jobs if one not in found.found]
    lines += [f"Checks before: {found.checks_before}; after: {found.checks_after}"]
    lines += ["To know:", *(f"  - {one}" for one in found.told)] if found.told else []
    lines += [paint("What the twin cannot tell:", DIM), *(paint(f"  {one}", DIM) for one in found.unknown)]
    terminal.write("\n".join(lines), out)


def twin_lines(found: Rehearsal) -> list[str]:
    """Which hosts the twin had, and whose state."""
    missing = [host for left in found.twin.values() for host in left]
    lacks = f"; of their kinds {fold(missing)} are in slurm.conf alone" if missing else ""
    state = f"state and database of the backup of {found.state_of}" if found.state_of else "no jobs and no history"
    return [f"Twin: {fold(found.twin)}{lacks}; {state}"]


def change_lines(found: Rehearsal, *, verbose: bool) -> list[str]:
    """How often the command was carried out, what it changed, and how long that took and will take."""
    lines = []
    for number, one in enumerate(found.attempts, 1):
        how = f"killed (signal {-one.exit_code})" if one.exit_code < 0 else f"exit code {one.exit_code}"
        lines.append(f"Run {number}: {one.seconds:.1f} s, {how}{f'; {one.fault}' if one.fault else ''}")
    times = {one.phase: one for one in found.durations}
    for step in fold_steps(found.steps):
        took = times[step.phase]
        reckoned = f", on the cluster {took.reckoned:.1f} s" if took.reckoned > took.seconds else ""
        lines.append(f"  {fold(step.hosts)}: {step.phase}, {took.seconds:.1f} s{reckoned}")
        lines += [f"    {line}" for line in (step.lines if verbose else step.lines[:1])]
    return lines if found.steps else [*lines, "  Nothing was changed."]
