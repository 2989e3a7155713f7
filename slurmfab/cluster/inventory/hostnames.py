"""The names that hosts call themselves by: other hosts believe them, so a host may not take the name of another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.lock import Lock

RESERVED = ("localhost", "ip6-localhost", "ip6-loopback", "ip6-allnodes", "ip6-allrouters", "broadcasthost")
"""Names that /etc/hosts has on each host."""


def taken(hosts: Iterable[str], lock: Lock, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts whose own name belongs to another host, each with the reason for which it is left out.

    A hostname that is in the lock already stays with its host, whatever others say. `hosts`: names of all hosts in the
    cluster file. `facts`: facts by host, of the hosts that answered.
    """
    pinned = {host: one.hostname.lower() for host, one in lock.hosts.items() if one.hostname}
    owners = {host.lower(): host for host in hosts} | {hostname: host for host, hostname in pinned.items()}
    claims = Counter(fact.hostname.lower() for host, fact in facts.items() if host not in pinned)
    found = {}
    for host, fact in facts.items():
        hostname = fact.hostname.lower()
        owner = owners.get(hostname, host)
        if pinned.get(host) == hostname:
            continue
        if hostname in RESERVED:
            found[host] = f"it calls itself {fact.hostname}. Give it a name: hostnamectl set-hostname NAME."
        elif owner != host or (hostname not in owners and claims[hostname] > 1):
            other = owner if owner != host else "another host"
            found[host] = (
                f"it calls itself {fact.hostname}, as {other} does. Give it a name: hostnamectl set-hostname NAME."
            )
    return found
