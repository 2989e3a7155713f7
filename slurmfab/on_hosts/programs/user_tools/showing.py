"""The state of a cluster for one user, as lines of text."""

from __future__ import annotations

import os
import time
from typing import Dict, List, Mapping, Sequence, TextIO

from slurmfab.on_hosts.agent.client.amounts import UNTYPED, bounded
from slurmfab.on_hosts.agent.nodes import lost_jobs
from slurmfab.on_hosts.programs.user_tools import hostnames, reasons
from slurmfab.on_hosts.programs.user_tools.jobs import Job
from slurmfab.on_hosts.programs.user_tools.state import State

BOLD, GREEN, YELLOW = "\033[1m", "\033[32m", "\033[33m"
END = "\033[0m"
MOST_JOBS = 50  # how many jobs are listed; --json has all of them

LONGEST_NAME = 30
NARROWEST = 40
HEADER = ("JOBID", "PARTITION", "NAME", "STATE", "GPUS", "CPUS", "CPU TIME", "NODES")
STATES = {"RUNNING": GREEN, "PENDING": YELLOW}
MINUTE, HOUR, DAY = 60, 3600, 86400


class Paint:
    """Colours for a terminal; without one, or with NO_COLOR (no-color.org), text stays as it is."""

    def __init__(self, out: TextIO, environment: Mapping[str, str] = os.environ) -> None:
        is_dumb = environment.get("TERM", "dumb") == "dumb"
        self.is_on = out.isatty() and not environment.get("NO_COLOR") and not is_dumb

    def __call__(self, text: str, colour: str) -> str:
        """The text in a colour; as it is if there is none."""
        return colour + text + END if self.is_on and colour else text


def lines(state: State, paint: Paint, now: float, width: int) -> List[str]:
    """All lines."""
    found = [paint("%s status:" % state.cluster, BOLD), *cluster(state), ""]
    found.append(paint("Jobs of %s:" % state.person.name, BOLD))
    found += [paint(one.text, YELLOW if one.is_used_up else "") for one in state.limits]
    found += state.job_limits
    if state.jobs:
        found += table(state.jobs[:MOST_JOBS], paint)
    else:  # those of another user may be there, and not shown
        found.append("No jobs." if state.person.is_caller else "No jobs are shown to you.")
    if len(state.jobs) > MOST_JOBS:
        found.append("... and %d more; --json has them all." % (len(state.jobs) - MOST_JOBS))
    gone = [line for one in state.jobs if one.not_running
            for line in wrapped("%s: %s" % (one.id, one.not_running), max(NARROWEST, width))]  # fmt: skip
    gone += [
        "%s: lost by a crash at %s; submit it again." % (one.id, lost_jobs.clock(one.submitted)) for one in state.lost
    ]
    found += ["", paint("Jobs that were lost:", BOLD), *gone] if gone else []
    held = [line for one in state.jobs if one.still_holds
            for line in wrapped("%s: %s" % (one.id, one.still_holds), max(NARROWEST, width))]  # fmt: skip
    found += ["", paint("Jobs that have ended and still hold nodes:", BOLD), *held] if held else []
    idle = ["%s: %s" % (one.id, one.idle_gpus) for one in state.jobs if one.idle_gpus][:MOST_JOBS]
    found += ["", paint("GPUs that do nothing:", BOLD), *idle] if idle else []
    waiting = why(state.jobs, now, max(NARROWEST, width))
    found += ["", paint("Why jobs wait:", BOLD), *waiting] if waiting else []
    return [*found, *([""] if state.notes else []), *state.notes]


def cluster(state: State) -> List[str]:
    """The lines about the cluster."""
    if not state.nodes:
        return ["No nodes are shown to you."]
    used, total = (sum(pair[place] for pair in state.gpus.values()) for place in (0, 1))
    free = state.free
    return [
        *(["GPU usage %d/%d%s" % (used, total, by_type(state))] if total else []),
        "Free nodes %d/%d%s" % (len(free), len(state.nodes), ": " + hostnames.fold(free) if free else ""),
    ]


def by_type(state: State) -> str:
    """The same for each type, if there are several: ` (a100 2/8, v100 0/4)`."""
    if len(state.gpus) < 2:  # noqa: PLR2004 - that is one type
        return ""
    names = (("other" if kind == UNTYPED else kind, *pair) for kind, pair in state.gpus.items())
    return " (%s)" % ", ".join("%s %d/%d" % one for one in names)


def table(jobs: Sequence[Job], paint: Paint) -> List[str]:
    """The table of jobs. `jobs`: at least one."""
    rows = [HEADER, *(cells(one) for one in jobs)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADER))]
    found = []
    for row, colour in zip(rows, (BOLD, *(STATES.get(one.state, "") for one in jobs))):  # noqa: B905
        padded = [cell.ljust(width) for cell, width in zip(row, widths)]  # noqa: B905
        if row is HEADER:
            found.append(paint("  ".join(padded).rstrip(), colour))
        else:
            padded[3] = paint(padded[3], colour)
            found.append("  ".join(padded).rstrip())
    return found


def cells(job: Job) -> Sequence[str]:
    """The cells of a job."""
    name = job.name if len(job.name) <= LONGEST_NAME else job.name[: LONGEST_NAME - 3] + "..."
    gpus = str(job.gpus) if job.gpus else "-"
    return (
        job.id, ",".join(job.partitions), name, job.state, gpus, str(job.cpus), job.cpu_time, job.node_list or "-",
    )  # fmt: skip


def why(jobs: Sequence[Job], now: float, width: int) -> List[str]:
    """Why a user's jobs wait, grouped by reason, and when they are expected to start."""
    groups: Dict[str, List[Job]] = {}
    for job in jobs:
        if job.is_pending:
            groups.setdefault(job.reason, []).append(job)
    found: List[str] = []
    for reason, same in groups.items():
        sentence = reasons.explained(reason, same[0].id)
        ids = ", ".join(one.id for one in same[:MOST_JOBS]) + (" ..." if len(same) > MOST_JOBS else "")
        text = "%s: %s" % (ids, "%s [%s]" % (sentence, reason) if sentence else "Slurm says: %s" % reason)
        found += wrapped(text, width)
        found += ["  Expected start%s: %s" % (of(one, same), expected(one.start, now)) for one in same[:MOST_JOBS]
                  if one.start is not None and one.start > now]  # fmt: skip
    return found


def of(job: Job, same: Sequence[Job]) -> str:
    """The ID of a job, if there are several with the same reason."""
    return " of %s" % job.id if len(same) > 1 else ""


def expected(start: float, now: float) -> str:
    """A time in the future, as in `2026-11-23 16:10 (in 54 min)`. `start`: seconds since 1970."""
    left = max(0, int(start - now))
    units = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"))
    size, unit = next(((size, unit) for size, unit in units if left >= size), (1, "s"))
    return "%s (in %d %s)" % (time.strftime("%Y-%m-%d %H:%M", time.localtime(bounded(start))), left // size, unit)


def wrapped(text: str, width: int) -> List[str]:
    """A text in lines no longer than the screen, further ones indented; words stay whole, as in commands to copy."""
    found = [""]
    for word in text.split(" "):
        if found[-1].strip() and len(found[-1]) + 1 + len(word) > width:
            found.append("  " + word)
        else:
            found[-1] += " " + word if found[-1].strip() else word
    return found
