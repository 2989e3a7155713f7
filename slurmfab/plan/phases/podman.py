"""Podman without root: its packages, and the subordinate IDs of users, the same on all hosts."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.people import subordinate_ids as ids_on_hosts
from slurmfab.agent.people.subordinate_ids import SubordinateIds
from slurmfab.inventory import subordinate_ids
from slurmfab.plan.phases.container_hosts import uses
from slurmfab.plan.plan_input import PlanInput

PACKAGES = ("podman", "uidmap", "crun", "fuse-overlayfs", "catatonit", "slirp4netns", "passt")
"""Podman, and what it needs for containers of users: IDs, a small runtime, layers, an init, networks of their own."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The subordinate IDs of the users of the cluster file; without Podman, their removal where a host has some."""
    return subordinate(plan_input, host)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages of Podman."""
    return PACKAGES if uses(plan_input, host, "podman") else ()


def subordinate(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The subordinate IDs of users on a host; users of a directory service have theirs from there."""
    has_some = host in plan_input.facts and ids_on_hosts.OF in plan_input.facts[host].owned
    wanted = plan_input.cluster.unix_users and uses(plan_input, host, "podman")
    ranges = subordinate_ids.ranges(plan_input.cluster, plan_input.lock.ids) if wanted else ()
    return (SubordinateIds(ranges, subordinate_ids.COUNT),) if ranges or has_some else ()
