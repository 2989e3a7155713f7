"""Jobs of the slurm user on upgraded or rebooted nodes, beside the jobs of users; run on the controller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Mapping, Sequence

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes.acceptance import HOSTNAME, PARALLEL_JOBS, run_job
from slurmfab.on_hosts.agent.nodes.states import node_states

NAME = "slurmfab_upgrade_%s"
ALLOCATION_SECONDS = 30
JOB_SECONDS, WORK_SECONDS = 90.0, 330.0

FULL, PLAIN = "busy", "plain"
"""The answers about a node that has no room for a job now: slurmctld talks with its new slurmd, and that is all; and
about one that has room for a plain job, and not for the GPU or the memory that its job wanted."""

BUSY = ("ALLOCATED", "MIXED", "COMPLETING")
IN_USE = ("Unable to allocate resources", "queued and waiting", "Requested nodes are busy")
"""What srun says when a job does not begin in time (srun(1), --immediate)."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, str]:
    """Run a job on each of these nodes.

    Args:
        request: `nodes`: their names. `partitions`: the partition of each one's job, or empty for slurmfab's own.
        `works`: srun's further options and the command of each one's job.

    Returns:
        By node: empty if the job ran, `busy` or `plain` if there is no room for it, otherwise why it failed.
    """
    nodes: List[str] = list(request["nodes"])
    states = node_states(context, nodes)
    busy = {node: bool(states[node].flags & {*BUSY}) if node in states else False for node in nodes}
    rows = zip(nodes, request["partitions"], request["works"])  # noqa: B905 - as Python 3.9 has it
    with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
        found = pool.map(lambda row: try_one(context, row[0], row[1] or commands.PARTITION, row[2], busy[row[0]]), rows)
        return dict(zip(nodes, found))  # noqa: B905


def try_one(context: Context, node: str, partition: str, work: Sequence[str], is_busy: bool) -> str:
    """Run a job with srun's further options, perhaps without room on a busy node; returns as `read`."""
    name, is_plain = NAME % node, work[-1] == HOSTNAME
    argv = [
        "srun", "--partition=" + partition, "--nodelist=" + node, "--nodes=1", "--ntasks=1", "--time=2",
        "--immediate=%d" % ALLOCATION_SECONDS, "--job-name=" + name, "--chdir=/", *work,
    ]  # fmt: skip
    complaint, lines = run_job(context, argv, name, JOB_SECONDS if is_plain else WORK_SECONDS)
    if not is_busy or not any(text in line for line in lines for text in IN_USE):
        return complaint
    if is_plain:
        return FULL
    plain = [next(word for word in work if word.startswith("--mem=")), HOSTNAME]
    return try_one(context, node, partition, plain, is_busy) or PLAIN
