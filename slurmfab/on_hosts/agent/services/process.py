"""A process as /proc shows it: when it started, whether it is frozen, and whether it listens; starts no program."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import AbstractSet, Iterator, List, Tuple

from slurmfab.on_hosts.agent.core.reading import read_text

LISTEN = "0A"  # the state of a listening socket (/proc/net/tcp, proc(5))

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


def has_listening_socket(pid: int) -> bool:
    """Whether a process itself listens on a TCP port."""
    return has_socket(pid, set(listening_inodes()))


def has_socket(pid: int, inodes: AbstractSet[str]) -> bool:
    """Whether a process has one of some sockets open."""
    with suppress(OSError):
        for name in os.listdir("/proc/%d/fd" % pid):
            with suppress(OSError):
                target = os.readlink("/proc/%d/fd/%s" % (pid, name))
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    return True
    return False


def listening() -> Iterator[Tuple[int, str]]:
    """The port and the inode of each listening TCP socket of this host."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_text(table).splitlines()[1:]:
            columns = line.split()
            if len(columns) > 9 and columns[3] == LISTEN:  # noqa: PLR2004
                yield int(columns[1].rpartition(":")[2], 16), columns[9]


def listening_inodes(port: int = 0) -> Iterator[str]:
    """The inodes of the listening TCP sockets of this host; with a `port`, of those on it."""
    return (inode for number, inode in listening() if port in (0, number))


def holders(port: int) -> List[str]:
    """The processes that listen on a TCP port, such as `python3 (PID 77)`."""
    inodes = set(listening_inodes(port))
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()) if inodes else []
    named = ((pid, read_text("/proc/%d/comm" % pid).strip()) for pid in pids if has_socket(pid, inodes))
    return ["%s (PID %d)" % (name, pid) for pid, name in named]
