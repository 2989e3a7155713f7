"""Packages of the distribution, by role; none of their daemons starts before it is configured."""

from __future__ import annotations

from slurmfab.agent.cgroups import NO_BUS
from slurmfab.agent.packages import Packages
from slurmfab.agent.resource import Resource
from slurmfab.phases import people
from slurmfab.situation import Situation
from slurmfab.slurm.versions import BUS, DATABASE_SERVER, packages


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """What the host's roles need, in one transaction of the package manager; and the server of a database of ours."""
    names = {name for role in situation.cluster.roles(host) for name in packages(role)}
    database = situation.cluster.database
    if database and host == database.host and not database.external:
        names |= set(DATABASE_SERVER)
    names |= set(people.packages(situation, host))
    names |= {BUS} if "compute" in situation.cluster.roles(host) and lacks_bus(situation, host) else set()
    return (Packages(tuple(sorted(names))),)


def lacks_bus(situation: Situation, host: str) -> bool:
    """Whether a host has no system bus, and needs one; then Slurm could not use its control groups."""
    return host in situation.facts and NO_BUS in situation.facts[host].cgroup.troubles
