"""The TCP ports on which processes listen, as /proc shows them; starts no program."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import AbstractSet, Iterator, List, Tuple

from slurmfab.on_hosts.agent.core.reading import read_text

LISTEN = "0A"  # the state of a listening socket (/proc/net/tcp, proc(5))


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
