"""Containers in jobs: what each way of running them needs on hosts, and its removal where the file has it no more.

A way is a module beside this one, with `resources(plan_input, host)` and `packages(plan_input, host)`.
"""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.plan.phases import apptainer, docker, enroot, oci, podman
from slurmfab.plan.plan_input import PlanInput

WAYS = (podman, oci, apptainer, enroot, docker)
"""The modules of all ways, in the order of a deployment."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """What a host has for the ways of the cluster file, and what it loses of the others."""
    return tuple(resource for way in WAYS for resource in way.resources(plan_input, host))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages of the ways of the cluster file."""
    return tuple(name for way in WAYS for name in way.packages(plan_input, host))
