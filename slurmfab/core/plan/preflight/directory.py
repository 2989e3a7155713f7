"""What is in the way of SSSD on hosts: another service that asks a directory."""

from __future__ import annotations

from slurmfab.base.objections import Objection, objected
from slurmfab.cluster.slurm.software import OTHER_DIRECTORIES
from slurmfab.core.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse, by InputError, SSSD beside another such service, as whose user somebody may have logged in."""
    if plan_input.cluster.directory is None:
        return
    found = []
    for package in OTHER_DIRECTORIES:
        hosts = [host for host, fact in plan_input.facts.items() if package in fact.packages]
        if hosts:
            remove = plan_input.platform_of(hosts[0]).manager.remove
            told = f"directory: it has {package}, which asks a directory beside SSSD: each of the two would refuse "
            found.append(Objection((*hosts,), f"{told}the other's users. Remove it there first: {remove} {package}."))
    objected(found)
