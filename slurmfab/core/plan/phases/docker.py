"""Docker for the users whom the cluster file names: its daemon, and its group, whose members are as good as root."""

from __future__ import annotations

from slurmfab.cluster.slurm.software import docker_packages
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.people.group_members import PREFIX, GroupMembers
from slurmfab.on_hosts.agent.services.service import Service

GROUP = UNIT = "docker"


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The members of the group and the running daemon; without Docker, nobody is a member because of the file."""
    containers = plan_input.cluster.containers
    if containers is not None and uses(plan_input, host, "docker"):
        return (GroupMembers(GROUP, tuple(sorted(containers.docker.users))), Service(UNIT))
    return (GroupMembers(GROUP, ()),) if plan_input.owns(host, f"{PREFIX}{GROUP}") else ()


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """Docker's daemon, and its client where that is another package."""
    if not uses(plan_input, host, "docker"):
        return ()
    return docker_packages(plan_input.facts[host].codename if host in plan_input.facts else "")
