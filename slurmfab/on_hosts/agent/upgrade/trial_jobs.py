"""Jobs of the slurm user on nodes that have just been upgraded, beside the jobs of users; run on the controller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Mapping

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes.acceptance import PARALLEL_JOBS, run_job
from slurmfab.on_hosts.agent.nodes.states import node_states

NAME = "slurmfab_upgrade_%s"
ALLOCATION_SECONDS = 30
JOB_SECONDS = 90.0
MEMORY_MIB = 20
"""Little, so that the job fits beside those of users."""

FULL = "busy"
"""The answer about a node that has no room for a job now: slurmctld talks with its new slurmd, and that is all."""

BUSY = ("ALLOCATED", "MIXED", "COMPLETING")
IN_USE = ("Unable to allocate resources", "queued and waiting", "Requested nodes are busy")
"""What srun says when a job does not begin in time (srun(1), --immediate)."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, str]:
    """Run a job on each of these nodes.

    Args:
        request: `nodes`: their names. `partitions`: the partition of each one's job, or empty for slurmfab's own.

    Returns:
        By node: empty if the job ran, `busy` if there is no room for it, otherwise why it failed.
    """
    nodes: List[str] = list(request["nodes"])
    partitions = dict(zip(nodes, request.get("partitions") or ()))  # noqa: B905 - as Python 3.9 has it
    states = node_states(context, nodes)
    flags = {node: states[node].flags if node in states else frozenset() for node in nodes}
    with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
        found = pool.map(
            lambda node: try_one(
                context, node, partitions.get(node) or commands.PARTITION, bool(flags[node] & {*BUSY})
            ),
            nodes,
        )
        return dict(zip(nodes, found))  # noqa: B905


def try_one(context: Context, node: str, partition: str, is_busy: bool) -> str:
    """Run a job on a node.

    Args:
        is_busy: whether jobs run there, so that there may be no room.

    Returns:
        As for `read`.
    """
    name = NAME % node
    argv = [
        "srun", "--partition=" + partition, "--nodelist=" + node, "--nodes=1", "--ntasks=1", "--time=2",
        "--mem=%d" % MEMORY_MIB, "--immediate=%d" % ALLOCATION_SECONDS, "--job-name=" + name, "--chdir=/", "hostname",
    ]  # fmt: skip
    complaint, lines = run_job(context, argv, name, JOB_SECONDS)
    return FULL if is_busy and any(text in line for line in lines for text in IN_USE) else complaint
