"""A managed block in /etc/hosts, so that all hosts resolve each other's names without DNS."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.files.block import Block
from slurmfab.plan.phases.once import once
from slurmfab.plan.plan_input import PlanInput


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:  # noqa: ARG001 - the same everywhere
    """One line per host of the cluster with an IP address; no block with `hosts_file: no`."""
    return (block(plan_input),)


@once
def block(plan_input: PlanInput) -> Block:
    """The block, the same on all hosts; empty content removes it."""
    return Block(
        "/etc/hosts", "hosts", plan_input.names_and_addresses if plan_input.cluster.hosts_file else "", strict=True
    )
