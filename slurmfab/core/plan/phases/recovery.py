"""What makes the cluster whole after a loss of power, without a hand: a program and a timer on controllers."""

from __future__ import annotations

from slurmfab.base.paths import PROGRAMS, RECOVERY_PROGRAM, RECOVERY_UNIT, UNIT_FILES
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import owned, program_files, removed
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.units import Timer

RECOVERY = "recovery"  # the capability, by which a host remembers its files
TIMER = f"{RECOVERY_UNIT}.timer"


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Program and timer on a controller; their removal from other hosts, and everywhere without `restart_daemons`."""
    cluster = plan_input.cluster
    if not cluster.restart_daemons or host not in cluster.controllers:
        return removed(plan_input, host, RECOVERY, RECOVERY_PROGRAM, TIMER)
    context = {"program": RECOVERY_PROGRAM, "unit": RECOVERY_UNIT, "user": cluster.slurm_user}
    units = (f"{RECOVERY_UNIT}.{kind}" for kind in ("service", "timer"))
    return (
        Directory(PROGRAMS),
        Program(RECOVERY_PROGRAM, program_files("programs.recovery.main")),
        *owned(plan_input, host, RECOVERY, (OwnedFile(f"{UNIT_FILES}/{unit}", fill(unit, context)) for unit in units)),
        Timer(RECOVERY_UNIT),
    )
