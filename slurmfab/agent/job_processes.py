"""What jobs have left running on a compute node: Slurm's step daemons and the processes that they wait for."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping

from slurmfab.agent.reading import names, read_bytes
from slurmfab.agent.resource import Context

_STEP = re.compile(rb"slurmstepd: \[(\d+)\.(\w+)\]")
UNINTERRUPTIBLE = "D"


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:  # noqa: ARG001 - as of all readings
    """Job steps that still have a step daemon here, and the processes below those that no signal reaches.

    Returns:
        `steps`: each as `JOB.STEP`.
        `hung`: the names of jobs' processes that wait in the kernel (state D of proc(5)).
    """
    proc = context.path("/proc")
    steps: Dict[int, str] = {}
    parents: Dict[int, int] = {}
    waiting: Dict[int, str] = {}
    for pid in (int(name) for name in names(proc) if name.isdigit()):
        match = _STEP.match(read_bytes("%s/%d/cmdline" % (proc, pid)))
        if match:
            steps[pid] = "%s.%s" % (match[1].decode(), match[2].decode())
        # The name in parentheses may hold spaces and parentheses itself (proc(5)).
        head, _, tail = read_bytes("%s/%d/stat" % (proc, pid)).decode(errors="replace").rpartition(")")
        fields = tail.split()
        if fields:
            parents[pid] = int(fields[1])
            if fields[0] == UNINTERRUPTIBLE:
                waiting[pid] = head.partition("(")[2]
    hung = sorted({name for pid, name in waiting.items() if set(ancestors(pid, parents)) & set(steps)})
    return {"steps": sorted(set(steps.values())), "hung": hung}


def ancestors(pid: int, parents: Dict[int, int]) -> List[int]:
    """A process and those that it descends from."""
    chain = [pid]
    while parents.get(chain[-1], 0) > 1 and len(chain) < len(parents):
        chain.append(parents[chain[-1]])
    return chain
