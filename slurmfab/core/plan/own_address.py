"""The address of a host on which its daemons listen for the others."""

from __future__ import annotations

from slurmfab.base.ip_addresses import IPV4, IPV6, NO_ADDRESS, family
from slurmfab.core.plan.plan_input import PlanInput


def own_address(plan_input: PlanInput, host: str, named: str = "") -> str:
    """The one address on which a daemon listens: the one named for it, the file's, or the host's first own."""
    wanted = named or plan_input.address(host)
    if family(wanted) != NO_ADDRESS:
        return wanted
    known = plan_input.facts.get(host)
    own = known.addresses if known else plan_input.host(host).addresses
    trusted = plan_input.trusted_addresses(host)
    return next((one for one in (*trusted, *own) if family(one) in (IPV4, IPV6)), wanted)


def trusted_address(plan_input: PlanInput, host: str, named: str = "") -> str:
    """The address by which others reach such a daemon: never one that only the host itself tells of."""
    wanted = named or plan_input.address(host)
    if family(wanted) != NO_ADDRESS:
        return wanted
    return next(iter(plan_input.trusted_addresses(host)), wanted)
