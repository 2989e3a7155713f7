"""Containers in jobs: what each way, a module beside this one, needs on hosts, and its removal."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from slurmfab.cluster.inventory.containers import Way
from slurmfab.cluster.slurm.software import NAMESPACE_PROGRAMS
from slurmfab.core.plan import user_namespaces
from slurmfab.core.plan.phases import apptainer, docker, enroot, oci, podman
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.user_namespaces import Denied
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.apparmor_profiles import OF, AppArmorProfiles
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.people.subordinate_ids import SubordinateIds
from slurmfab.on_hosts.agent.people.user_directories import UserDirectories

WAYS = (podman, oci, apptainer, enroot, docker)  # the modules of all ways, in the order of a deployment


OF_USERS = frozenset({SubordinateIds.kind, UserDirectories.kind})
"""Kinds of resources that follow from the users of the cluster file: add-user and remove-user have them, too."""


def of_users(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """What each user of the cluster file has on a host: subordinate IDs, and directories for images."""
    return tuple(one for one in all_of(plan_input, host) if one.kind in OF_USERS)


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """What a host has for the ways of the cluster file, and what it loses of the others."""
    return tuple(one for one in all_of(plan_input, host) if one.kind not in OF_USERS)


def all_of(plan_input: PlanInput, host: str) -> Iterator[Resource]:
    """Yield the resources of all ways."""
    for way in WAYS:
        yield from way.resources(plan_input, host)
    files = tuple(profile(one.path) for one in denied(plan_input, host) if not one.profile)
    if files or plan_input.owns(host, OF):
        yield AppArmorProfiles(OF, files)


def denied(plan_input: PlanInput, host: str) -> tuple[Denied, ...]:
    """The programs of a host's ways to which AppArmor denies user namespaces there, or would without slurmfab."""
    if host not in plan_input.facts or not plan_input.facts[host].namespace_programs:
        return ()
    ways: tuple[Way, ...] = tuple(way for way in plan_input.cluster.container_ways if uses(plan_input, host, way))
    patterns = [one for way in ways for one in NAMESPACE_PROGRAMS.get(way, ())]
    found = user_namespaces.denied(plan_input.facts[host])
    return tuple(one for one in found if any(fnmatchcase(one.path, pattern) for pattern in patterns))


def profile(program: str) -> OwnedFile:
    """The profile by which AppArmor lets a program, by its path, do what it could do without AppArmor."""
    name = f"slurmfab{program.replace('/', '.')}"
    return OwnedFile(f"/etc/apparmor.d/{name}", PROFILE.format(name=name, program=program))


PROFILE = """\
# Made by slurmfab from the cluster file, for containers; edits here are overwritten.
#
# Lets users run containers: kernel.apparmor_restrict_unprivileged_userns is 1 here, and denies user namespaces to
# programs without a profile.
abi <abi/4.0>,

profile {name} {program} flags=(unconfined) {{
  userns,
}}
"""


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages of the ways of the cluster file."""
    return tuple(name for way in WAYS for name in way.packages(plan_input, host))
