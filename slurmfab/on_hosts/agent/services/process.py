"""A process as /proc shows it: when it started, and whether it is frozen; starts no program."""

from __future__ import annotations

import os
import time
from typing import List

from slurmfab.on_hosts.agent.core.reading import read_text

AGES = ((86400, "days"), (3600, "h"), (60, "min"))

STOPPED = "T"
"""The state of a process that a signal has stopped: it answers nothing, while the kernel accepts connections for it."""


def fields(pid: int) -> List[str]:
    """The fields of /proc/PID/stat from the third one, the state; empty when there is no such process."""
    # The command in parentheses can hold spaces and parentheses itself (proc(5)).
    return read_text("/proc/%d/stat" % pid).rpartition(")")[2].split() if pid else []


def process_start(pid: int) -> float:
    """When a process started, in seconds since 1970 by the present clock; 0 when there is no such process."""
    found = fields(pid)
    if not found:
        return 0.0
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + int(found[19]) / os.sysconf("SC_CLK_TCK")


def age(pid: int) -> str:
    """How old a process is, in its largest whole unit, such as `3 h`; `0 s` when there is no such process."""
    start = process_start(pid)
    seconds = int(time.time() - start) if start else 0
    return next(("%d %s" % (seconds // size, unit) for size, unit in AGES if seconds >= size), "%d s" % max(seconds, 0))


def is_frozen(pid: int) -> bool:
    """Whether a signal has stopped a process."""
    return fields(pid)[:1] == [STOPPED]
