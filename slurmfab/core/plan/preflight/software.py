"""Software that somebody else has installed on a host, and that is in the way of what the cluster file asks for."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.slurm.software import MODULE_SYSTEMS
from slurmfab.core.plan.phases import modules
from slurmfab.core.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse, by InputError, a package for `module` where somebody else has installed the other one."""
    wanted = plan_input.cluster.modules
    if wanted is None:
        return
    (other,) = (name for name in MODULE_SYSTEMS if name != wanted.system)
    hosts = [
        host
        for host, fact in plan_input.facts.items()
        if modules.is_for(plan_input, host) and other in fact.packages and other not in fact.added_packages
    ]
    if hosts:
        raise InputError(
            f"modules: {fold(hosts)} has {other}, which cannot be there together with {wanted.system}, and slurmfab "
            f"did not install it. Write modules: {other}, or remove it there: apt-get remove {other}. Nothing changed."
        )
