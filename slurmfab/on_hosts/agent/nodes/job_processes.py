"""Processes that jobs have left on a compute node: Slurm's step daemons and the processes below them."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping

from slurmfab.on_hosts.agent.core import processes
from slurmfab.on_hosts.agent.core.reading import names, read_bytes
from slurmfab.on_hosts.agent.core.resource import Context

_DAEMON = "slurmstepd"
_STEP = re.compile(rb"slurmstepd: \[(\d+)\.(\w+)\]")
UNINTERRUPTIBLE = "D"


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:  # noqa: ARG001 - as of all readings
    """`steps` (`JOB.STEP`) that still have a step daemon, and `hung` processes in state D (proc(5))."""
    proc = context.path("/proc")
    steps = step_daemons(context)
    parents: Dict[int, int] = {}
    waiting: Dict[int, str] = {}
    for pid in (int(name) for name in names(proc) if name.isdecimal()):
        # The name in parentheses may hold spaces and parentheses itself (proc(5)).
        head, _, tail = read_bytes("%s/%d/stat" % (proc, pid)).decode(errors="replace").rpartition(")")
        fields = tail.split()
        if fields:
            parents[pid] = int(fields[1])
            if fields[0] == UNINTERRUPTIBLE:
                waiting[pid] = head.partition("(")[2]
    hung = sorted({name for pid, name in waiting.items() if set(ancestors(pid, parents)) & set(steps)})
    return {"steps": sorted(set(steps.values())), "hung": hung}


def step_daemons(context: Context) -> Dict[int, str]:
    """The step of each step daemon as `JOB.STEP`, by PID."""
    proc = context.path("/proc")
    found = {}
    for pid in (int(name) for name in names(proc) if name.isdecimal()):
        match = _STEP.match(read_bytes("%s/%d/cmdline" % (proc, pid)))
        if match and is_step_daemon("%s/%d" % (proc, pid)):
            found[pid] = "%s.%s" % (match[1].decode(), match[2].decode())
    return found


def is_step_daemon(place: str) -> bool:
    """Whether a process is a step daemon of root's, and not one of a user's with its name."""
    return processes.real_uid(place) == 0 and processes.program(place).startswith(_DAEMON)


def ancestors(pid: int, parents: Dict[int, int]) -> List[int]:
    """A PID and those of its parent, grandparent and so on, without PID 1, by the parents of PIDs."""
    chain = [pid]
    while parents.get(chain[-1], 0) > 1 and len(chain) < len(parents):
        chain.append(parents[chain[-1]])
    return chain
