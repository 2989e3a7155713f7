"""The names that hosts call themselves by: other hosts believe them, so a host may not take that of another machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.slurm_packages import AptRepository, DnfRepository

RESERVED = ("localhost", "ip6-localhost", "ip6-loopback", "ip6-allnodes", "ip6-allrouters", "broadcasthost")
"""Names that /etc/hosts has on each host."""


_SERVER = re.compile(r"(?:[a-z]+://|//)?(?:[^@/\s]*@)?([A-Za-z][A-Za-z0-9.-]*)(?=[:/]|$)")


def other_machines(cluster: Cluster) -> Iterator[str]:
    """Yield names of other machines in the cluster file, with domains or without: jump hosts, a relay, servers."""
    sources = (one.source for one in cluster.slurms)
    uris = [uri for one in sources if isinstance(one, AptRepository | DnfRepository) for uri in one.uris]
    places = [*(cluster.ssh.gateway or "").split(","), *(one for one in uris if "//" in one)]
    places += [cluster.mail.relay] if cluster.mail else []
    places += [cluster.database.server[0]] if cluster.database else []
    if cluster.power and cluster.power.how.ipmi:
        places += [cluster.power.how.ipmi.address_of(node) for node in cluster.compute_nodes]
    places += cluster.directory.sssd.servers if cluster.directory else ()
    for mount in cluster.mounts:
        places += mount.source.split(",") if mount.is_network else []
    yield from (found[1] for place in places if (found := _SERVER.match(place.strip())))


def taken(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts whose own name belongs to another machine, each with the reason for which it is left out.

    A hostname that is in the lock already stays with its host, whatever others say.
    """
    machines = {name.lower().partition(".")[0] for name in other_machines(cluster)}
    pinned = {host: one.hostname.lower() for host, one in lock.hosts.items() if one.hostname}
    owners = {host.lower(): host for host in cluster.hosts} | {hostname: host for host, hostname in pinned.items()}
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
