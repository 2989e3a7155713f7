"""Room on the file systems in which Slurm's daemons write."""

from __future__ import annotations

from slurmfab.base.paths import SLURM_LOGS, SLURMD_LOGS
from slurmfab.core.plan.directories import spool_directory
from slurmfab.core.plan.phases import files, packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.free_space import FreeSpace


def with_packages(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Room, apt's sources, and then the packages: a phase of its own would cost each host one more request."""
    return (free_space(plan_input, host), *files.of_apt(plan_input, host), *packages.resources(plan_input, host))


def free_space(plan_input: PlanInput, host: str) -> FreeSpace:
    """Room for the host's daemons; where there is none, nothing else is changed on the host.

    /etc/slurm is left out: a file that finds no room there is not replaced, and says so itself.
    """
    roles = plan_input.cluster.roles(host)
    paths = (
        *("/run", *((SLURM_LOGS,) if {"controller", "database"} & {*roles} else ())),
        *((SLURMD_LOGS, spool(plan_input, host)) if "compute" in roles else ()),
        *((plan_input.cluster.state_directory,) if "controller" in roles else ()),
    )
    return FreeSpace(paths)


def spool(plan_input: PlanInput, host: str) -> str:
    """SlurmdSpoolDir of a host; of a new one, whose hardware is not known yet, what the others have."""
    return spool_directory(plan_input, host) if plan_input.is_compute_node(host) else plan_input.lock.spool_directory
