"""Queries of Slurm during a takeover: each has a short time limit, and the caller repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testinfra.backend.base import CommandResult

from slurmfab.commands.checks.hosts import CheckedHost, line_of
from slurmfab.on_hosts.agent.client import commands

ANSWER_SECONDS = 4
"""Time limit in seconds of one query. Slurm's commands wait up to half of SlurmctldTimeout for a backup that is taking
over (`slurm_send_recv_controller_msg` in Slurm's source), so they are stopped and run again."""

RUNNING = frozenset({"RUNNING", "COMPLETING", "COMPLETED"})
"""States of a job that runs or has completed."""

ENDED = frozenset({"CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED", "GONE"})
"""States of a job that ended without completing, and `GONE`."""


@dataclass(frozen=True)
class Job:
    """Slurm's record of a job."""

    state: str  # Slurm's job state, such as `RUNNING`; `GONE` if Slurm does not answer or does not know the job
    start: str = ""  # Slurm's StartTime, as text; it changes if the job is requeued and starts again
    code: str = ""  # exit code and signal, as in `0:0`


def answering(host: CheckedHost) -> set[str]:
    """The roles of the controllers that answer `scontrol ping` on a host: any of `primary` and `backup`."""
    shown = asked(host, commands.PING, ANSWER_SECONDS * 2).stdout
    return {role.rstrip("0123456789") for role, _, is_up in commands.controllers(shown) if is_up}


def ready_nodes(host: CheckedHost) -> frozenset[str]:
    """The responding nodes that run jobs or can take some."""
    names = commands.names_of_nodes("--responding", "--states=idle,mixed,allocated,completing")
    return frozenset(asked(host, names).stdout.split())


def is_served(host: CheckedHost) -> bool:
    """Whether a controller is in charge: one on standby answers pings, but not squeue."""
    return bool(asked(host, commands.ids_of_jobs()).rc == 0)


def job(host: CheckedHost, number: str) -> Job:
    """Slurm's record of a job, by its ID; asked on a host."""
    done = asked(host, commands.job_progress(number))
    return next((Job(*found) for found in commands.progress(done.stdout)), Job("GONE"))


def asked(host: CheckedHost, command: Sequence[str], seconds: int = ANSWER_SECONDS) -> CommandResult:
    """The result of one of Slurm's commands on a host.

    Args:
        host: where it runs.
        command: from `slurmfab.on_hosts.agent.client.commands`.
    """
    return host.run(f"timeout {seconds} {line_of(command)}")
