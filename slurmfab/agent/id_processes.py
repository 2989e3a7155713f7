"""Processes that run with some UID or GID, and the unit of systemd that each belongs to."""

from __future__ import annotations

import re
from typing import Collection, Dict, List

from slurmfab.agent.reading import names, read_text
from slurmfab.agent.record import Record
from slurmfab.agent.resource import Context

_UNIT = re.compile(r"/([^/]+)\.service(?:/|$)", re.MULTILINE)


class Process(Record):
    """A process.

    Args:
        pid: its number.
        command: its name, such as `slurmctld`.
        unit: the service that it is part of, empty for none.
    """

    pid: int
    command: str
    unit: str

    def __str__(self) -> str:
        """Such as `4711 (bash)`."""
        return "%d (%s)" % (self.pid, self.command)


def with_numbers(context: Context, uids: Collection[int], gids: Collection[int]) -> List[Process]:
    """The processes that have one of these UIDs, or GIDs, as real, effective, saved or file system one (proc(5))."""
    found = []
    for pid in sorted(int(name) for name in names(context.path("/proc")) if name.isdigit()):
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
    """The lines `Name:<tab>value` of /proc/PID/status."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in status.splitlines())}
