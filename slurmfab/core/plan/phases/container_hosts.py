"""The hosts on which users run containers: those on which people or jobs work."""

from __future__ import annotations

from slurmfab.cluster.inventory.containers import Way
from slurmfab.core.plan.phases.modules import is_for
from slurmfab.core.plan.plan_input import PlanInput


def uses(plan_input: PlanInput, host: str, way: Way) -> bool:
    """Whether the cluster file has this way of running containers, and people or jobs work on the host."""
    return way in plan_input.cluster.container_ways and is_for(plan_input, host)
