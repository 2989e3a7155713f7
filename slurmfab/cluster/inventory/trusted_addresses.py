"""The addresses by which the hosts of a cluster trust each other.

They are those of the cluster file and, for a host without an IP address there, the one at which this machine reached
the host itself. What a host tells of its further addresses counts only in networks that the cluster file names, and
never if the address is another member's, a jump host's or this machine's: root of a host can tell anything.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import partial
from typing import NamedTuple

from slurmfab.base.hostlist import expand_endpoints
from slurmfab.base.ip_addresses import NO_ADDRESS, canonical, family, parsed
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster, Ssh
from slurmfab.cluster.inventory.lock import HostLock

_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"(?!0\.|127\.|22[4-9]\.|23\d\.){_BYTE}(?:\.{_BYTE}){{3}}", re.ASCII)
"""An address of one host; ipaddress takes ten times as long, which matters for 10,000 nodes."""

MOST_ADDRESSES = 32  # the most further addresses of a host that are trusted; sshd reads no line of more than 8 kB


class Trusted(NamedTuple):
    """What hosts trust of one host besides its address in the cluster file."""

    reached: str = ""  # the address at which this machine reached it, where the cluster file has none; empty for none
    further: tuple[str, ...] = ()  # those of the addresses that it tells of which lie in networks of the cluster file


NONE = Trusted()


def is_source(text: str) -> bool:
    """Whether a text is an IP address of one host that others may see as the origin of its connections.

    >>> is_source("10.0.0.1"), is_source("0.0.0.0"), is_source('fe80::1%",command="id'), is_source("*")
    (True, False, False, False)
    """
    if _IPV4.fullmatch(text):
        return True
    try:
        address = parsed(text)
    except ValueError:
        return False
    return "%" not in text and not (address.is_unspecified or address.is_loopback or address.is_multicast)


def of_host(cluster: Cluster, known: HostLock, host: str) -> tuple[str, ...]:
    """The addresses of a host that others trust; empty if none is known."""
    given = cluster.addresses.get(host, "")
    first = given if is_source(given) else known.reached
    return (*((first,) if first else ()), *known.trusted)


def decide(cluster: Cluster, before: Mapping[str, HostLock], facts: Mapping[str, HostFacts]) -> dict[str, Trusted]:
    """What hosts trust of each other from now on, by host, beyond the cluster file's addresses.

    `before`: the lock's entries until now. `facts`: of the hosts that answered; what the others told before stays.
    """
    given = {host: address for host, address in cluster.addresses.items() if is_source(address)}
    if not cluster.ssh.networks and len(given) == len(cluster.hosts):
        return {}
    owners = _owners(cluster, given, before, facts)
    first = {host: address for address, hosts in owners.items() for host in hosts if len(hosts) == 1}
    reached = {host: address for host, address in first.items() if host not in given}
    further = _further(cluster, before, facts, owners) if cluster.ssh.networks else {}
    return {host: Trusted(reached.get(host, ""), further.get(host, ())) for host in {**reached, **further}}


def _owners(
    cluster: Cluster, given: Mapping[str, str], before: Mapping[str, HostLock], facts: Mapping[str, HostFacts]
) -> dict[str, frozenset[str]]:
    """The hosts by the address that the cluster file gives them, or else at which they were reached.

    An address at which several hosts are reached is a relay's, and counts only if the cluster file gives it to a host.
    """
    found: dict[str, frozenset[str]] = {}
    for host in cluster.hosts:
        if host not in given and host not in cluster.ssh.endpoints:
            shown = facts[host].reached if host in facts else ""
            address = shown or (before[host].reached if host in before else "")
            if is_source(address):
                found[address] = found.get(address, frozenset()) | {host}
    return {**found, **{address: frozenset({host}) for host, address in given.items()}}


def _further(
    cluster: Cluster, before: Mapping[str, HostLock], facts: Mapping[str, HostFacts], owners: Mapping[str, Set[str]]
) -> dict[str, tuple[str, ...]]:
    """The further addresses of hosts that lie in networks of the cluster file and are nobody else's."""
    told = {host: facts[host].addresses if host in facts else before[host].trusted for host in {**before, **facts}}
    members = [host for host in cluster.hosts if host in told]
    near = {host: in_networks(cluster, told[host]) for host in members}
    held = {address: host for host in members if host in before for address in before[host].trusted}
    claims = Counter(address for addresses in near.values() for address in dict.fromkeys(addresses))
    strangers = {*_relays(cluster.ssh), *(address for fact in facts.values() for address in fact.way)}

    def is_own(host: str, address: str, other: Set[str]) -> bool:
        holder = held.get(address, host if claims[address] == 1 else "")
        return holder == host and owners.get(address, {host}) <= {host} and address not in other

    found = {}
    for host in members:
        is_on_the_way = any(host in owners.get(address, ()) for address in strangers)
        other = set() if is_on_the_way else strangers
        own = [one for one in near[host] if is_own(host, one, other) and host not in owners.get(one, ())]
        if own:
            found[host] = tuple(sorted(dict.fromkeys(own))[:MOST_ADDRESSES])
    return found


def in_networks(cluster: Cluster, addresses: Iterable[str]) -> tuple[str, ...]:
    """Those of some addresses that lie in a network which the cluster file names, each in its one spelling."""
    networks = tuple(ipaddress.ip_network(one) for one in cluster.ssh.networks)
    return tuple(filter(partial(_lies_in, networks), map(canonical, addresses))) if networks else ()


def _lies_in(networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network], address: str) -> bool:
    """Whether an address is one host's, and in one of these networks."""
    return is_source(address) and any(parsed(address) in network for network in networks)


def _relays(ssh: Ssh) -> Iterator[str]:
    """The IP addresses in the cluster file that are those of jump hosts, or of relays to hosts."""
    places = (*(ssh.gateway or "").split(","), *ssh.endpoints.values())
    for place in filter(None, map(str.strip, places)):
        address = canonical(expand_endpoints(place)[0].address)
        if family(address) != NO_ADDRESS:
            yield address
