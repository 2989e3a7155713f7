"""What people are told of the addresses at which hosts trust each other: which are new, and which are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from slurmfab.inventory.lock import HostLock
from slurmfab.inventory.trusted_addresses import is_source
from slurmfab.ip_addresses import canonical
from slurmfab.plan.plan_input import PlanInput

NAME_IT = "write the address under addresses, or its network under ssh as networks"
NOBODY = HostLock()


def newly_trusted(plan_input: PlanInput, before: Mapping[str, HostLock]) -> Iterator[tuple[str, str]]:
    """A host and a text for each address that others trust from now on because the host tells of it.

    Args:
        plan_input: what is planned from, with the lock that is to be.
        before: the lock's entries until now.
    """
    for host in plan_input.members:
        known = before.get(host, NOBODY).trusted
        for address in plan_input.host(host).trusted:
            if address not in known:
                yield (
                    host,
                    f"others trust its address {address}, which it tells of: it lies in a network of ssh.networks",
                )


def missing(plan_input: PlanInput, hosts: Collection[str]) -> Iterator[tuple[str, str]]:
    """A host and a text where logins from the host may be refused, or where it tells of an address of another member.

    Args:
        plan_input: what is planned from.
        hosts: those of the run.
    """
    cluster = plan_input.cluster
    if cluster.slurm_ssh.logins == "none" and cluster.user_ssh == "own":
        return
    owners = {address: host for host, address in cluster.addresses.items()}
    for host in plan_input.members:
        if host not in hosts or host not in plan_input.facts:
            continue
        own = [canonical(one) for one in plan_input.facts[host].addresses if is_source(one)]
        for address in own:
            if owners.get(address, host) != host:
                yield host, f"it has the address {address} of {owners[address]}, where nobody trusts it"
        if text := _unknown(plan_input, host, own):
            yield host, text


def _unknown(plan_input: PlanInput, host: str, own: Collection[str]) -> str:
    """Why logins from a host may be refused; empty if one of its own addresses is trusted, or NAT is allowed for."""
    trusted = plan_input.trusted_addresses(host)
    if plan_input.cluster.slurm_ssh.also_from or not own or {*own} & {*trusted}:
        return ""
    tells = f"it tells of {', '.join(list(own)[:3])}"
    if trusted:
        only = f"logins from it are accepted from {trusted[0]} alone, which it does not have"
        return f"{only} ({tells}); {NAME_IT}, or slurm_ssh.also_from where a router changes addresses"
    return f"no login from it is accepted on other hosts: only itself knows its address ({tells}); {NAME_IT}"
