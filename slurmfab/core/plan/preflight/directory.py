"""What is in the way of SSSD on hosts: another service that asks a directory."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.slurm.software import OTHER_DIRECTORIES
from slurmfab.core.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse SSSD beside another such service, as whose user somebody may have logged in.

    Raises InputError: with the hosts; nothing was changed.
    """
    if plan_input.cluster.directory is None:
        return
    for package in OTHER_DIRECTORIES:
        hosts = [host for host, fact in plan_input.facts.items() if package in fact.packages]
        if hosts:
            remove = plan_input.platform_of(hosts[0]).manager.remove
            raise InputError(
                f"directory: {fold(hosts)} has {package}, which asks a directory beside SSSD: each of the two would "
                f"refuse the other's users. Remove it there first: {remove} {package}. Nothing was changed."
            )
