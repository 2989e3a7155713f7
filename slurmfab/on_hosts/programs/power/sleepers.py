"""Which nodes are switched off: those that have been idle for long enough, and that nobody needs or has taken."""

from __future__ import annotations

import time
from typing import Any, Iterable, List, Mapping, Optional

from slurmfab.on_hosts.agent.nodes.states import state_of

HARMLESS = frozenset({"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"})
"""Flags that an idle node may have: they say how it came into the cluster."""

IDLE = frozenset({"IDLE"})
IN_SERVICE = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED"})
"""States and flags of a node that is on and takes jobs, now or next."""

LAST_BUSY = "%Y-%m-%dT%H:%M:%S"


def choose(nodes: Iterable[Mapping[str, str]], wanted: Mapping[str, Any], now: float) -> List[str]:
    """The nodes that are to be switched off, the longest idle first.

    Args:
        nodes: the fields of `scontrol show node` of each node.
        wanted: the settings: `nodes` (those that may sleep), `always_on`, `after` (seconds), `keep` (number of nodes in
            service that stay on) and `rate` (most nodes at once).

    Returns:
        NodeNames; none that is drained, reserved, planned for a job, down or on its way up or down.
    """
    may_sleep = set(wanted["nodes"])
    found = {record["NodeName"]: dict(record) for record in nodes if record["NodeName"] in may_sleep}
    flags = {name: state_of(record).flags - HARMLESS for name, record in found.items()}
    in_service = [name for name, has in flags.items() if has <= IN_SERVICE]
    idle = []
    for name in in_service:
        since = idle_since(found[name].get("LastBusyTime", ""))
        is_free = flags[name] == IDLE and name not in wanted["always_on"]
        if is_free and since is not None and now - since >= wanted["after"]:
            idle.append((since, name))
    room = min(len(in_service) - wanted["keep"], wanted["rate"])
    return [name for _, name in sorted(idle)[: max(0, room)]]


def idle_since(text: str) -> Optional[float]:
    """LastBusyTime in seconds since 1970; `None` where Slurm knows none."""
    try:
        return time.mktime(time.strptime(text, LAST_BUSY))
    except (ValueError, OverflowError):
        return None
