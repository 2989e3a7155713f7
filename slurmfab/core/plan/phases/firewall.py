"""Who reaches the cluster's ports: rules of slurmfab's own on all hosts, and whether hosts reach each other.

Only the first packet of a TCP connection is judged, so that no connection is ever cut, and none has to be tracked. Only
the cluster's own ports are closed, and for others than its hosts: everything else stays as it is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from slurmfab.base.ip_addresses import IPV4, IPV6
from slurmfab.base.paths import JUPYTER_UNIT, UNIT_FILES
from slurmfab.cluster.inventory import ports, trusted_addresses
from slurmfab.cluster.inventory.firewall import MANAGED, Firewall
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.cluster.inventory.ports import listeners
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import FIREWALLD, NFTABLES, NODE_EXPORTER, PROMETHEUS, REGISTRY_SERVER
from slurmfab.core.plan.own_address import trusted_address
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.database.storage import MARIADB_UNIT
from slurmfab.on_hosts.agent.files import firewalld_zone
from slurmfab.on_hosts.agent.files.firewall_rules import DROP_IN, OF, UNIT, FirewallRules
from slurmfab.on_hosts.agent.files.firewalld_zone import FirewalldZone
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.nodes.connections import Connections
from slurmfab.on_hosts.agent.services.freed_ports import FreedPorts
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard

NOBODY = HostLock()
REJECT = "counter reject with icmpx type admin-prohibited"
"""Programs of strangers fail at once; `nft list table inet slurmfab` shows how many did."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The rules of a host without firewalld; their removal where slurmfab is not to have any there."""
    firewall, unproved = plan_input.cluster.firewall, LoginGuard(proved=False)
    if firewall and firewall.mode == MANAGED and not has_firewalld(plan_input, host):
        files = (
            OwnedFile(FIREWALL_RULES, rules(plan_input, host, firewall)),
            OwnedFile(f"{UNIT_FILES}/{UNIT}", fill(UNIT, {"rules": FIREWALL_RULES})),
            OwnedFile(DROP_IN, fill("slurmfab-nftables.conf", {"rules": FIREWALL_RULES})),
        )
        return unproved, FirewallRules(OF, files)
    return (unproved, FirewallRules(OF, ())) if plan_input.owns(host, OF) else ()


def zone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The zone of firewalld that lets in whom slurmfab's rules would, where firewalld is at work; or its removal.

    It shuts nobody out, so no login has to prove it.
    """
    firewall = plan_input.cluster.firewall
    if firewall and firewall.mode == MANAGED and has_firewalld(plan_input, host):
        sources = tuple(sorted(one for some in friends(plan_input).values() for one in some))
        file = OwnedFile(firewalld_zone.PATH, fill("slurmfab-zone.xml", {"sources": sources}))
        return (FirewalldZone(firewalld_zone.OF, (file,), sources),)
    return (FirewalldZone(firewalld_zone.OF, ()),) if plan_input.owns(host, firewalld_zone.OF) else ()


def has_firewalld(plan_input: PlanInput, host: str) -> bool:
    """Whether firewalld is at work on a host."""
    return host in plan_input.facts and plan_input.facts[host].services.get(FIREWALLD) == "active"


def rules(plan_input: PlanInput, host: str, firewall: Firewall) -> str:
    """The rules of a host, for `nft -f`."""
    ssh = ports.ssh_ports(plan_input.cluster, host) if restricts_ssh(plan_input, host) else ()
    admins = by_family(for_ssh(firewall, is_for_users=takes_users(plan_input, host)))
    closed = merged((one.first, one.last) for one in ports.of_host(plan_input.cluster, host))
    spans = [str(first) if first == last else f"{first}-{last}" for first, last in closed]
    lines = [
        *lets_in("", friends(plan_input)),
        *(lets_in(to_ports(ssh), admins) if ssh else ()),
        *(f"{to_ports(some)}{REJECT}" for some in (ssh, spans) if some),
    ]
    return fill("slurmfab-firewall.nft", {"rules": lines})


def to_ports(some: Iterable[object]) -> str:
    """The beginning of a rule for some ports."""
    return f"tcp dport {{ {', '.join(map(str, some))} }} "


def lets_in(which: str, sources: Mapping[int, list[str]]) -> Iterator[str]:
    """Yield a rule for each family of addresses of which some are let in."""
    for family, key in ((IPV4, "ip"), (IPV6, "ip6")):
        if sources[family]:
            yield f"{which}{key} saddr {{ {', '.join(sources[family])} }} accept"


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of ports of which none overlap: nft takes no others.

    >>> merged([(6818, 6818), (6817, 6820), (22, 22)])
    [(22, 22), (6817, 6820)]
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def takes_users(plan_input: PlanInput, host: str) -> bool:
    """Whether users log in to a host from elsewhere: to a login host, or to a controller where there is none."""
    return host in (plan_input.cluster.login or plan_input.cluster.controllers)


def restricts_ssh(plan_input: PlanInput, host: str) -> bool:
    """Whether the cluster file says from where SSH reaches a host."""
    firewall = plan_input.cluster.firewall
    return bool(firewall and firewall.admins and (firewall.users or not takes_users(plan_input, host)))


UNITS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "MariaDB": MARIADB_UNIT,
    "registry": REGISTRY_SERVER,
    "node exporter": NODE_EXPORTER,
    "Prometheus": PROMETHEUS,
    "JupyterHub": JUPYTER_UNIT,
    "browsers": JUPYTER_UNIT,
}
"""By daemon of `Ports`, the unit in which it listens."""


def freed(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """No daemon keeps a port that the cluster file now gives to another one of its host."""
    found = tuple(
        (UNITS[ports.daemon], ports.first, ports.last)
        for ports, _ in listeners(plan_input.cluster, host)
        if ports.daemon in UNITS
    )
    return (FreedPorts(found),) if len({unit for unit, _, _ in found}) > 1 else ()


def for_ssh(firewall: Firewall, *, is_for_users: bool) -> tuple[str, ...]:
    """The networks from which SSH reaches a host."""
    return (*firewall.admins, *(firewall.users if is_for_users else ()))


def let_in(plan_input: PlanInput, host: str) -> Iterator[str]:
    """Yield all networks and addresses from which SSH reaches a host that restricts it."""
    firewall = plan_input.cluster.firewall
    if firewall:
        yield from for_ssh(firewall, is_for_users=takes_users(plan_input, host))
    for some in friends(plan_input).values():
        yield from some


@once
def friends(plan_input: PlanInput) -> dict[int, list[str]]:
    """The hosts of the cluster, those that did not answer yet too, and further networks that the cluster file names."""
    cluster = plan_input.cluster
    known = (plan_input.lock.hosts.get(host, NOBODY) for host in cluster.hosts)
    members = [
        one
        for host, lock in zip(cluster.hosts, known, strict=True)
        for one in trusted_addresses.of_host(cluster, lock, host)
    ]
    further = cluster.firewall.trusted if cluster.firewall else ()
    return by_family((*members, *further, *cluster.slurm_ssh.also_from))


def by_family(networks: Iterable[str]) -> dict[int, list[str]]:
    """Addresses and networks by family, in as few entries as say the same, sorted."""
    found = [ipaddress.ip_network(one) for one in networks]
    four = ipaddress.collapse_addresses(one for one in found if isinstance(one, ipaddress.IPv4Network))
    six = ipaddress.collapse_addresses(one for one in found if isinstance(one, ipaddress.IPv6Network))
    return {IPV4: [*map(entry, four)], IPV6: [*map(entry, six)]}


def entry(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """A network, or an address, as nft shows it."""
    is_host = network.prefixlen == network.max_prefixlen
    return str(network.network_address if is_host else network)


def connections(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The ports of other hosts that a host has to reach, of those that take part in the run."""
    cluster = plan_input.cluster
    if cluster.firewall is None or host not in plan_input.facts:
        return ()
    targets = [one for one in ports.needed(cluster, host, ring(plan_input)) if one.host in plan_input.facts]
    named = tuple(
        (one.host, trusted_address(plan_input, one.host, one.address), one.port, one.daemon) for one in targets
    )
    servers = {*cluster.controllers, *cluster.database_hosts, *cluster.servers}
    is_server = host == cluster.controller
    others = tuple(dict.fromkeys(one.host for one in targets if is_server or one.host not in servers))
    return (Connections(host, named, others),) if named else ()


@once
def ring(plan_input: PlanInput) -> dict[str, str]:
    """The host that connects to each compute node, beside slurmctld."""
    there = [node for node in plan_input.compute_nodes if node in plan_input.facts]
    return ports.ring(there, plan_input.cluster.controller)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The package of nft, where slurmfab has rules of its own."""
    firewall = plan_input.cluster.firewall
    return (NFTABLES,) if firewall and firewall.mode == MANAGED and not has_firewalld(plan_input, host) else ()
