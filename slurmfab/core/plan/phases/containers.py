"""Containers in jobs: what each way, a module beside this one, needs on hosts, and its removal."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.core.plan.phases import apptainer, docker, enroot, oci, podman
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
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


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages of the ways of the cluster file."""
    return tuple(name for way in WAYS for name in way.packages(plan_input, host))
