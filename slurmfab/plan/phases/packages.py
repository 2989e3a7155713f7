"""Packages of the distribution by role; their daemons do not start before they are configured."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.facts.cgroups import NO_BUS
from slurmfab.agent.packages.packages import Packages
from slurmfab.plan.phases import people
from slurmfab.plan.plan_input import PlanInput
from slurmfab.slurm.versions import BUS, DATABASE_SERVER, packages


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """All packages that the host's roles, its MariaDB, sudo rules and control groups need, as one resource."""
    names = {name for role in plan_input.cluster.roles(host) for name in packages(role)}
    database = plan_input.cluster.database
    if database and host == database.host and not database.external:
        names |= set(DATABASE_SERVER)
    names |= set(people.packages(plan_input, host))
    names |= {BUS} if "compute" in plan_input.cluster.roles(host) and lacks_bus(plan_input, host) else set()
    return (Packages(tuple(sorted(names))),)


def lacks_bus(plan_input: PlanInput, host: str) -> bool:
    """Whether the host answered and lacks the D-Bus system bus that slurmd needs for its control groups."""
    return host in plan_input.facts and NO_BUS in plan_input.facts[host].cgroup.troubles
