"""Queries of Slurm during a takeover: each has a short time limit, and the caller repeats it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurmfab.checks.hosts import CheckedHost

ANSWER_SECONDS = 4
"""Time limit in seconds of one query. Slurm's commands wait up to half of SlurmctldTimeout for a backup that is taking
over (`slurm_send_recv_controller_msg` in Slurm's source), so they are stopped and run again."""

RUNNING = frozenset({"RUNNING", "COMPLETING", "COMPLETED"})
"""States of a job that runs or has completed."""

ENDED = frozenset({"CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED", "GONE"})
"""States of a job that ended without completing, and `GONE`."""


@dataclass(frozen=True)
class Job:
    """Slurm's record of a job.

    Args:
        state: Slurm's job state, such as `RUNNING`; `GONE` if Slurm does not answer or does not know the job.
        start: Slurm's StartTime, as text; it changes if the job is requeued and starts again.
        code: exit code and signal, as in `0:0`.
    """

    state: str
    start: str = ""
    code: str = ""


def answering(host: CheckedHost) -> set[str]:
    """The roles of the controllers that answer `scontrol ping` on a host: any of `primary` and `backup`."""
    shown = host.run(f"timeout {ANSWER_SECONDS * 2} scontrol ping").stdout
    return set(re.findall(r"^Slurmctld\((primary|backup)\d*\) at \S+ is UP", shown, re.MULTILINE))


def ready_nodes(host: CheckedHost) -> frozenset[str]:
    """The responding nodes that run jobs or can take some."""
    states = "idle,mixed,allocated,completing"
    shown = host.run(f"timeout {ANSWER_SECONDS} sinfo --noheader --Node --responding --states={states} --format=%N")
    return frozenset(shown.stdout.split())


def is_served(host: CheckedHost) -> bool:
    """Whether a controller is in charge: one on standby answers pings, but not squeue."""
    return bool(host.run(f"timeout {ANSWER_SECONDS} squeue --noheader").rc == 0)


def job(host: CheckedHost, number: str) -> Job:
    """Slurm's record of a job, by its ID; asked on a host."""
    done = host.run(f"timeout {ANSWER_SECONDS} scontrol --oneliner show job %s", number)
    fields = dict(re.findall(r"(?:^|\s)(JobState|StartTime|ExitCode)=(\S+)", done.stdout))
    return Job(fields.get("JobState", "GONE"), fields.get("StartTime", ""), fields.get("ExitCode", ""))
