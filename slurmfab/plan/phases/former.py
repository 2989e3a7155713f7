"""What capabilities of the cluster file leave behind when it no longer has them, after everything that used it."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.plan.phases import mail, packages
from slurmfab.plan.plan_input import PlanInput


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of files that slurm.conf no longer names, and of packages that slurmfab installed."""
    return (*mail.gone(plan_input, host), *packages.former(plan_input, host))
