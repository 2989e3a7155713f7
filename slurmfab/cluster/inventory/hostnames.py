"""The names that hosts call themselves by: other hosts believe them, so a host may not take that of another machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from slurmfab.base.ip_addresses import family
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.values import Model

RESERVED = ("localhost", "ip6-localhost", "ip6-loopback", "ip6-allnodes", "ip6-allrouters", "broadcasthost")
"""Names that /etc/hosts has on each host."""


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
        if hostname in RESERVED:
            found[host] = f"it calls itself {fact.hostname}. Give it a name: hostnamectl set-hostname NAME."
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
