"""Packages of the distribution, by role; none of their daemons starts before it is configured."""

from __future__ import annotations

from slurmfab.agent.packages import Packages
from slurmfab.agent.resource import Resource
from slurmfab.situation import Situation
from slurmfab.slurm.versions import packages


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """What the host's roles need, in one transaction of the package manager."""
    names = {name for role in situation.cluster.roles(host) for name in packages(role)}
    return (Packages(tuple(sorted(names))),)
