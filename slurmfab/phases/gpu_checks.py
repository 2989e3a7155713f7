"""GPU and network checks as ordinary jobs on a schedule: a program, a timer and its settings on the controller."""

from __future__ import annotations

import json

from slurmfab.agent.absent import Absent
from slurmfab.agent.directory import Directory
from slurmfab.agent.file import File
from slurmfab.agent.program import Program
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.agent.timer import Timer
from slurmfab.clusterfile.gpu_checks import GpuChecks
from slurmfab.phases import programs
from slurmfab.situation import Situation
from slurmfab.slurm.render import fill

UNIT = "slurmfab-gpu-check"
PROGRAM = "/usr/local/lib/slurmfab/gpu-check"
SETTINGS = "/etc/slurmfab-gpu-check.json"
DIRECTORY = "/var/lib/slurmfab/gpu-checks"
"""Where the history lies; it stays when the checks go."""

SERVICE_FILE, TIMER_FILE = (f"/etc/systemd/system/{UNIT}.{kind}" for kind in ("service", "timer"))

BESIDES_WAITING = 120
"""Minutes that a run may take beside the waiting of its jobs, for the measurements themselves and second ones."""

MODULES = (
    *(f"agent.{name}" for name in ("differences", "node_states", "reasons", "record", "resource")),
    *(
        f"programs.gpu_check{name}"
        for name in ("", "_history", "_jobs", "_nodes", "_pairs", "_queue", "_results", "_run")
    ),
    "programs.nccl_output",
)
"""The modules that a check takes."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """All that it takes, on the primary controller; elsewhere, and without the key, nothing but the history."""
    checks = situation.cluster.gpu_checks
    if checks is None or host != situation.cluster.controller:
        return gone(situation, host)
    context = {
        "program": PROGRAM, "settings": SETTINGS, "directory": DIRECTORY, "calendar": checks.calendar,
        "minutes": checks.wait + 4 * checks.minutes + BESIDES_WAITING,
    }  # fmt: skip
    return (
        Directory(DIRECTORY, owner="slurm", group="slurm"),
        Program(PROGRAM, programs.files("programs.gpu_check", MODULES)),
        File(SETTINGS, settings(checks)),
        File(SERVICE_FILE, fill(f"{UNIT}.service", context)),
        *timer(situation, host, checks, context),
    )


def timer(situation: Situation, host: str, checks: GpuChecks, context: dict[str, object]) -> tuple[Resource, ...]:
    """The timer, or its end where checks are made only when asked for."""
    if checks.calendar:
        return (File(TIMER_FILE, fill(f"{UNIT}.timer", context)), Timer(UNIT))
    return timer_gone(situation, host)


def timer_gone(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The timer's end, where there is one."""
    if f"{UNIT}.timer" not in situation.facts[host].services:
        return ()
    return (Service(f"{UNIT}.timer", running=False), Absent(TIMER_FILE))


def gone(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The end of checks, where there are any; the service's own file goes last, since that tells that there is more."""
    if f"{UNIT}.service" not in situation.facts[host].services:
        return ()
    return (
        *timer_gone(situation, host),
        Service(UNIT, running=False),
        Program(PROGRAM, ()),
        Absent(SETTINGS),
        Absent(SERVICE_FILE),
    )


def settings(checks: GpuChecks) -> str:
    """What the program is told."""
    wanted = {**checks.model_dump(exclude={"when"}), "directory": DIRECTORY}
    return json.dumps(wanted, indent=1, sort_keys=True) + "\n"
