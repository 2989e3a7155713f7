"""What a controller says while another takes over: asked with little patience, and asked again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurmfab.checks.hosts import CheckedHost

ANSWER_SECONDS = 4
"""How long one question to Slurm may take. Who asks a backup that is just taking over is made to wait for half of
SlurmctldTimeout (Slurm's own patience in `slurm_send_recv_controller_msg`), so it is asked anew instead."""

RUNNING = frozenset({"RUNNING", "COMPLETING", "COMPLETED"})
ENDED = frozenset({"CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED", "GONE"})


@dataclass(frozen=True)
class Job:
    """A job as Slurm tells of it.

    Args:
        state: such as `RUNNING`; `GONE` where Slurm does not know the job.
        start: when it started, as text; another time means that it was started again.
        code: its exit code and signal, as in `0:0`.
    """

    state: str
    start: str = ""
    code: str = ""


def answering(host: CheckedHost) -> set[str]:
    """The controllers that answer a host's ping: any of `primary` and `backup`."""
    shown = host.run(f"timeout {ANSWER_SECONDS * 2} scontrol ping").stdout
    return set(re.findall(r"^Slurmctld\((primary|backup)\d*\) at \S+ is UP", shown, re.MULTILINE))


def ready_nodes(host: CheckedHost) -> frozenset[str]:
    """The nodes that answer and take jobs or have some."""
    states = "idle,mixed,allocated,completing"
    shown = host.run(f"timeout {ANSWER_SECONDS} sinfo --noheader --Node --responding --states={states} --format=%N")
    return frozenset(shown.stdout.split())


def is_served(host: CheckedHost) -> bool:
    """Whether a controller is in charge; one that only stands by answers pings too, and no questions."""
    return bool(host.run(f"timeout {ANSWER_SECONDS} squeue --noheader").rc == 0)


def job(host: CheckedHost, number: str) -> Job:
    """What Slurm knows of a job."""
    done = host.run(f"timeout {ANSWER_SECONDS} scontrol --oneliner show job %s", number)
    fields = dict(re.findall(r"(?:^|\s)(JobState|StartTime|ExitCode)=(\S+)", done.stdout))
    return Job(fields.get("JobState", "GONE"), fields.get("StartTime", ""), fields.get("ExitCode", ""))
