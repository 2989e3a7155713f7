"""Software of hosts that is in the way of what the cluster file asks for, or that they cannot have."""

from __future__ import annotations

from slurmfab.base.objections import Objection, objected
from slurmfab.cluster.slurm.software import MODULE_SYSTEMS, WITHOUT_JUPYTERHUB
from slurmfab.core.plan.phases import jupyter, modules
from slurmfab.core.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse what the packages of hosts cannot be. Raises InputError: with the hosts; nothing was changed."""
    refuse_other_modules(plan_input)
    refuse_without_jupyterhub(plan_input)


def refuse_without_jupyterhub(plan_input: PlanInput) -> None:
    """Refuse `jupyter` on hosts whose distribution has no such package. Raises InputError with the hosts."""
    hosts = [
        host
        for host, fact in plan_input.facts.items()
        if jupyter.packages(plan_input, host) and fact.codename in WITHOUT_JUPYTERHUB
    ]
    if hosts:
        told = "jupyter: its distribution has no package jupyterhub; Debian 12 and Ubuntu 24.04 are the first that "
        objected([Objection((*hosts,), f"{told}have it. Remove the key, or upgrade the host.")])


def refuse_other_modules(plan_input: PlanInput) -> None:
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
        remove = plan_input.platform_of(hosts[0]).manager.remove
        told = f"modules: it has {other}, which cannot be there together with {wanted.system}, and slurmfab did not "
        told += f"install it. Write modules: {other}, or remove it there: {remove} {other}."
        objected([Objection((*hosts,), told)])
