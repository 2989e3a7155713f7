"""Steps of jobs that Slurm has forgotten, and whose step daemons are still on this host."""

from __future__ import annotations

from typing import Dict, List

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes import job_processes
from slurmfab.on_hosts.agent.services.process import age

SECONDS = 20.0  # time limit of the question to slurmctld


def forgotten(context: Context, jobs: List[str]) -> Dict[int, str]:
    """The step daemons of jobs that Slurm no longer knows, by PID; none if slurmctld does not answer.

    `jobs`: ids of jobs that have a step daemon here.
    """
    try:
        known = set(context.must(list(commands.known_job_ids()), seconds=SECONDS).split())
    except ResourceFailed:
        return {}
    daemons = job_processes.step_daemons(context)
    return {pid: step for pid, step in daemons.items() if step.partition(".")[0] in set(jobs) - known}


def stuck_text(daemons: Dict[int, str]) -> str:
    """Why they are in the way, and the way out."""
    steps = ", ".join("%s (slurmstepd with PID %d, %s old)" % (daemons[pid], pid, age(pid)) for pid in sorted(daemons))
    return (
        "steps of jobs that Slurm has forgotten are left here: %s. They will not end by themselves: end them with "
        "`kill -9 %s`, or, if that does not help, restart the host with `%s reboot`; then deploy again"
        % (steps, " ".join(map(str, sorted(daemons))), FAB)
    )
