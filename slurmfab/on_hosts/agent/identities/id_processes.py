"""Processes that run with given UIDs or GIDs, and the systemd unit of each."""

from __future__ import annotations

import re
from typing import Collection, Dict, List

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.record import Record
from slurmfab.on_hosts.agent.core.resource import Context

NAMED_IN_MESSAGE = 5  # how many processes a message names at most

_UNIT = re.compile(r"/([^/]+)\.service(?:/|$)", re.MULTILINE)


class Process(Record):
    """A process."""

    pid: int
    command: str  # name of the program, such as `slurmctld`
    unit: str  # name of its systemd service without `.service`, empty for none

    def __str__(self) -> str:
        """Process ID and name, such as `4711 (bash)`."""
        return "%d (%s)" % (self.pid, self.command)


def with_numbers(context: Context, uids: Collection[int], gids: Collection[int]) -> List[Process]:
    """The processes with one of these UIDs or GIDs as real, effective, saved or file system ID (proc(5))."""
    found = []
    for pid in sorted(int(name) for name in names(context.path("/proc")) if name.isdecimal()):
        status = fields(read_text(context.path("/proc/%d/status" % pid)))
        if not status or status.get("State", "").startswith("Z"):
            continue
        has_uid = any(int(uid) in uids for uid in status.get("Uid", "").split())
        has_gid = any(int(gid) in gids for gid in status.get("Gid", "").split())
        if has_uid or has_gid:
            units = _UNIT.findall(read_text(context.path("/proc/%d/cgroup" % pid)))
            found.append(Process(pid, status.get("Name", "?"), units[-1] if units else ""))
    return found


def fields(status: str) -> Dict[str, str]:
    """The values in a /proc/PID/status by name, from its lines `Name:<tab>value`."""
    # Not splitlines, which splits at more characters than newlines: a process can put those into its name.
    return {name: value.strip() for name, _, value in (line.partition(":") for line in status.split("\n"))}


def listed(processes: List[Process]) -> str:
    """Up to five processes for a message, such as `21 (sleep), 4711 (bash)`, with `…` for the others."""
    return ", ".join([*map(str, processes[:NAMED_IN_MESSAGE]), *(["…"] if len(processes) > NAMED_IN_MESSAGE else [])])
