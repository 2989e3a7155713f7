"""Apptainer without setuid: its package where the release has it, and its cache on the host's own disk."""

from __future__ import annotations

from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import APPTAINER, SQUASHFUSE, WITHOUT_APPTAINER
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.people.user_directories import UserDirectories

CAPABILITY = "apptainer"
PROFILE = "/etc/profile.d/slurmfab-apptainer.sh"


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The users' directories and the profile that names them; without the way, the removal of the profile."""
    containers = plan_input.cluster.containers
    if containers is None or not uses(plan_input, host, "apptainer"):
        return owned(plan_input, host, CAPABILITY, ())
    storage = containers.apptainer.storage
    users = tuple(sorted(user.name for user in plan_input.cluster.users)) if plan_input.cluster.unix_users else ()
    profile = OwnedFile(PROFILE, fill("apptainer.sh", {"storage": storage}))
    return (UserDirectories(storage, users), *owned(plan_input, host, CAPABILITY, (profile,)))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """Apptainer, and what mounts its images; where the release has none, preflight wants it under `packages`."""
    if not uses(plan_input, host, "apptainer"):
        return ()
    return (SQUASHFUSE,) if lacks(plan_input, host) else (APPTAINER, SQUASHFUSE)


def lacks(plan_input: PlanInput, host: str) -> bool:
    """Whether the distribution of a host that answered has no Apptainer."""
    return host in plan_input.facts and plan_input.facts[host].codename in WITHOUT_APPTAINER
