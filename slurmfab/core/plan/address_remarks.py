"""What people are told of the addresses at which hosts trust each other: which are new, and which are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from slurmfab.base.ip_addresses import canonical
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.cluster.inventory.trusted_addresses import in_networks, is_source
from slurmfab.core.plan.plan_input import PlanInput

NAME_IT = "write the address under addresses, or its network under ssh as networks"
NOT_ITS_OWN = (
    "it lies in a network of ssh.networks, but another host tells of it, too, or it is a jump host's or this machine's"
)
NOBODY = HostLock()


def newly_trusted(plan_input: PlanInput, before: Mapping[str, HostLock]) -> Iterator[tuple[str, str]]:
    """A host and a text for each address that others, by the new lock, trust because the host tells of it."""
    for host in plan_input.members:
        known = before.get(host, NOBODY).trusted
        for address in plan_input.host(host).trusted:
            if address not in known:
                yield (
                    host,
                    f"others trust its address {address}, which it tells of: it lies in a network of ssh.networks",
                )


def missing(plan_input: PlanInput, hosts: Collection[str]) -> Iterator[tuple[str, str]]:
    """A host and a text where its logins may be refused, or where it tells of an address of others."""
    cluster = plan_input.cluster
    if cluster.slurm_ssh.logins == "none" and cluster.user_ssh == "own":
        return
    owners = {address: host for host, address in cluster.addresses.items()}
    for host in plan_input.members:
        if host in hosts and host in plan_input.facts:
            own = [canonical(one) for one in plan_input.facts[host].addresses if is_source(one)]
            texts = (*_claims(plan_input, host, own, owners), _unknown(plan_input, host, own))
            yield from ((host, text) for text in texts if text)


def _claims(plan_input: PlanInput, host: str, own: Sequence[str], owners: Mapping[str, str]) -> Iterator[str]:
    """What is told of addresses that a host tells of and that are, or may be, those of others."""
    near, trusted = in_networks(plan_input.cluster, own), plan_input.trusted_addresses(host)
    for address in own:
        if owners.get(address, host) != host:
            yield f"it has the address {address} of {owners[address]}, where nobody trusts it"
        elif address in near and address not in trusted:
            yield f"others do not trust its address {address}: {NOT_ITS_OWN}"


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
