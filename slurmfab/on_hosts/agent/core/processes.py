"""Whose processes are, and which programs they run, as the kernel tells.

Users choose the names and the arguments of their processes. They also choose who seems to own /proc/PID: it is root for
a process that does not want to be dumped (proc(5)). So neither tells that a process is one of Slurm's.
"""

from __future__ import annotations

import os
import re

from slurmfab.on_hosts.agent.core.reading import read_bytes

_UID = re.compile(rb"^Uid:\s+(\d+)\s", re.MULTILINE)


def real_uid(place: str) -> int:
    """The UID of the user who started a process, also of a program with the set-user-ID bit; -1 if it is unknown."""
    # The kernel writes out line breaks in the name, which comes before.
    found = _UID.search(read_bytes(place + "/status"))
    return int(found[1]) if found else -1


def program(place: str) -> str:
    """The name of the file of the program that a process runs; empty if it is unknown."""
    try:
        return os.path.basename(os.readlink(place + "/exe").removesuffix(" (deleted)"))
    except OSError:
        return ""
