"""The names that hosts call themselves by: other hosts believe them, so a host may not take that of another machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from slurmfab.base.ip_addresses import OWN_NAMES, family
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.values import Model

RESERVED = (
    *(*OWN_NAMES, "localhost.localdomain", "localdomain", "broadcasthost"),
    *("ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "ip6-allhosts"),
)
"""Names that /etc/hosts has on each host, or by which a host means itself."""

_MEANT_OTHERWISE = {
    "default": "a reserved name in slurm.conf, which sets the values of all lines after it",
    "all": "a reserved name in slurm.conf, sudoers(5) and access.conf(5), where it means every host",
    "none": "a reserved name of Slurm's, where it means no host",
    "local": "a reserved name in access.conf(5), where it means every name without a dot",
    "except": "a reserved name in access.conf(5), which takes back what is before it",
    "wpad": "a name by which programs look for their proxy, and would find this host",
    "isatap": "a name by which systems look for a router, and would find this host",
}
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]*|[0-9]+)){0,3}\.?")
"""What gethostbyname(3) takes for an IPv4 address (inet_aton(3)), and asks nobody."""


def unfit(name: str) -> str:
    """Why a name cannot be one of a host, as the end of a sentence that begins with it; empty if it can.

    >>> unfit("n1"), unfit("2130706433")
    ('', 'is a number, which programs take for an IPv4 address')
    """
    for one in (name.lower(), name.lower().partition(".")[0]):
        if _NUMBER.fullmatch(one):
            return "is a number, which programs take for an IPv4 address"
        if one in RESERVED:
            return "is a name by which each host means itself or a network"
        if one in _MEANT_OTHERWISE:
            return f"is {_MEANT_OTHERWISE[one]}"
    return ""


_SERVER = re.compile(r"(?:[a-z]+://|//)?(?:[^@/\s]*@)?([A-Za-z][A-Za-z0-9.-]*)(?=[:/]|$)")
_AS_A_PLACE = re.compile(r"[a-z+]+://|//|[^/\s]*:/")
_OF_MACHINES = re.compile(r"(?i)(host|addr|address|server|relay|gateway|external|ur[il])s?$")
"""Keys, slurm.conf's among them, whose values name machines."""


def other_machines(cluster: Cluster) -> Iterator[str]:
    """Yield names of other machines in the cluster file, with domains or without: jump hosts, a relay, servers.

    They are all texts that look like a place on a machine, and those of keys that say so.
    """
    places = [place for key, text in texts(cluster) for place in places_in(key, text)]
    if cluster.power and cluster.power.how.ipmi:
        places += [cluster.power.how.ipmi.address_of(node) for node in cluster.compute_nodes]
    yield from (found[1] for place in places if (found := _SERVER.match(place)))


def places_in(key: str, text: str) -> Iterator[str]:
    """Yield what in a text of the cluster file leads to a machine; one of several lines, such as a script, does not."""
    if "\n" not in text:
        yield from (one for one in re.split(r"[,\s]+", text) if _OF_MACHINES.search(key) or _AS_A_PLACE.match(one))


def texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a value of the cluster file, each with its nearest key; not the addresses of its own hosts."""
    if isinstance(value, Model):
        value = {name: getattr(value, name) for name in type(value).model_fields if name != "addresses"}
    if isinstance(value, Mapping):
        yield from (pair for name, one in value.items() for pair in texts(one, str(name)))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (pair for one in value for pair in texts(one, key))
    elif isinstance(value, str):
        yield key, value


def taken(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts whose own name belongs to another machine, each with the reason for which it is left out.

    A hostname that is in the lock already stays with its host, whatever others say.
    """
    machines = {name.lower().partition(".")[0] for name in other_machines(cluster)}
    pinned = {host: one.hostname.lower() for host, one in lock.hosts.items() if one.hostname}
    named = {text.lower().partition(".")[0]: host for host, text in cluster.addresses.items() if not family(text)}
    owners = named | {host.lower(): host for host in cluster.hosts} | {name: host for host, name in pinned.items()}
    claims = Counter(fact.hostname.lower() for host, fact in facts.items() if host not in pinned)
    found = {}
    for host, fact in facts.items():
        hostname = fact.hostname.lower()
        owner = owners.get(hostname, host)
        if pinned.get(host) == hostname:
            continue
        if reason := unfit(hostname):
            found[host] = (
                f"it calls itself {fact.hostname}, which {reason}. Give it a name: hostnamectl set-hostname NAME."
            )
        elif hostname in machines and hostname not in owners:
            found[host] = (
                f"it calls itself {fact.hostname}, which the cluster file names as another machine. Give it a name: "
                "hostnamectl set-hostname NAME. If it is that machine, use one name for it in the cluster file."
            )
        elif owner != host or (hostname not in owners and claims[hostname] > 1):
            other = owner if owner != host else "another host"
            found[host] = (
                f"it calls itself {fact.hostname}, as {other} does. Give it a name: hostnamectl set-hostname NAME."
            )
    return found
