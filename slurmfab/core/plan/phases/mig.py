"""NVIDIA GPUs divided as the cluster file says: the nodes drained, the GPUs divided, and again at each boot."""

from __future__ import annotations

import json

from slurmfab.base.paths import MIG_PROGRAM, MIG_SETTINGS, MIG_UNIT, UNIT_FILES
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan import mig
from slurmfab.core.plan.phases.capability import owned, program_files
from slurmfab.core.plan.phases.daemons import runs_slurmctld
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain
from slurmfab.on_hosts.agent.nodes.states import FOR_CHANGE
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.mig_instances import MigInstances

SERVICE = f"{MIG_UNIT}.service"


def drained(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The nodes of these GPUs, drained by the controller, so that no job starts on one meanwhile."""
    if host != plan_input.cluster.controller or not runs_slurmctld(plan_input, host):
        return ()
    there = plan_input.conf_before.nodes
    nodes = tuple(node for node in mig.to_divide(plan_input) if node in there)
    return (NodeDrain(nodes, FOR_CHANGE + mig.SUBJECT, plan_input.stamp, for_change=True),) if nodes else ()


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The GPUs of a host as they shall be, and the unit that divides them at boot; or all of that taken back.

    The files come first: as long as they are there, a later run knows that slurmfab divides the GPUs.
    """
    if host not in plan_input.facts or host not in plan_input.lock.hosts:
        return ()
    facts, layouts = plan_input.facts[host], mig.wanted(plan_input.cluster, host, plan_input.host(host))
    instances = MigInstances(tuple(layouts.items()))
    if plan_input.cluster.mig_of(host) is None:
        if mig.CAPABILITY not in facts.owned:
            return ()
        return (
            *((Service(SERVICE, running=False),) if SERVICE in facts.services else ()),
            *((instances,) if layouts else ()),
            Program(MIG_PROGRAM, ()),
            *owned(plan_input, host, mig.CAPABILITY, ()),
        )
    if not layouts:
        return ()
    context = {"program": MIG_PROGRAM, "settings": MIG_SETTINGS}
    files = (
        OwnedFile(MIG_SETTINGS, json.dumps(layouts, sort_keys=True) + "\n"),
        OwnedFile(f"{UNIT_FILES}/{SERVICE}", fill(SERVICE, context)),
    )
    return (
        Program(MIG_PROGRAM, program_files("programs.mig.main")),
        *owned(plan_input, host, mig.CAPABILITY, files),
        instances,
        Service(SERVICE),
    )
