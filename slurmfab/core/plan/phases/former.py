"""What capabilities of the cluster file leave behind when it no longer has them, after everything that used it."""

from __future__ import annotations

from slurmfab.core.plan.phases import mail, packages, slurm_source
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of former files, of packages that slurmfab installed, and of the source of Slurm's."""
    return (*mail.gone(plan_input, host), *packages.former(plan_input, host), *slurm_source.former(plan_input, host))
