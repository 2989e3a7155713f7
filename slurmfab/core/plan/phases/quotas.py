"""Limits to what users may store, on the host that has the file system."""

from __future__ import annotations

from slurmfab.cluster.inventory.storage import limits, places
from slurmfab.cluster.slurm.software import QUOTA
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.mounts.quotas import OF, UserQuotas


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The limits of users on a host's file system; their removal where the file has none any more."""
    path = where(plan_input).get(host, "")
    if path:
        return (UserQuotas(path, wanted(plan_input)),)
    return (UserQuotas("", ()),) if plan_input.owns(host, OF) else ()


@once
def where(plan_input: PlanInput) -> dict[str, str]:
    """By host, the directory of the file system on which quotas are set."""
    return places(plan_input.cluster)


@once
def wanted(plan_input: PlanInput) -> tuple[tuple[str, int, int, int], ...]:
    """User, UID (0 where a directory service has it), soft and hard limit in KiB of all users who have limits."""
    uids = plan_input.lock.ids if plan_input.cluster.unix_users else {}
    return tuple((user, uids.get(f"{user}.uid", 0), soft, hard) for user, soft, hard in limits(plan_input.cluster))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The programs of quotas."""
    return (QUOTA,) if host in where(plan_input) else ()
