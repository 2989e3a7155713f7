"""A lab's network: a bridge, a network namespace and a veth pair per host, masquerading, and an `unreachable` route.

The `unreachable` route covers the lab's network with a high metric. While the bridge exists, the bridge's own route is
preferred. Without the bridge, packets for lab hosts would leave through the default route, to other machines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from slurmfab.lab import state
from slurmfab.lab.addresses import gateway, ipv6_network, ipv6_twin
from slurmfab.lab.command import call, succeeds
from slurmfab.lab.layout import HostLayout, LabLayout

METRIC = 4000000  # metric of the `unreachable` route, higher than that of any route in practical use

RESOLVERS = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
"""Files with this machine's name servers, in order of preference: systemd-resolved's stub answers only locally."""

DEVICES = Path("/sys/class/net")  # directory with one entry per network device of this machine


def networks_in_use() -> tuple[IPv4Network, ...]:
    """Networks of this machine's routes, addresses, name servers and labs; the default route is left out."""
    routes = json.loads(call(["ip", "-j", "-4", "route", "show", "table", "all"]) or "[]")
    found = [entry["dst"] for entry in routes if entry["dst"] != "default"]
    found += [f"{server}/24" for server in re.findall(r"^nameserver\s+([\d.]+)$", resolver_text(), re.MULTILINE)]
    found += [other.network for other in state.states()]
    return tuple(IPv4Network(text, strict=False) for text in found)


def resolver_text() -> str:
    """The hosts' /etc/resolv.conf: this machine's, without search domains, by which `n1` could be a real one."""
    text = next((path.read_text() for path in RESOLVERS if path.exists()), "")
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith(("nameserver", "options")))


def make_network(lab: LabLayout, network: IPv4Network, *, ipv6: bool = False) -> None:
    """Make a lab's `unreachable` routes, its bridge, and the nftables rule that masquerades outgoing packets.

    `ipv6`: whether hosts have IPv6 addresses; without them, this machine needs no IPv6 either.
    """
    for each in _networks(network) if ipv6 else (str(network),):
        call(["ip", "route", "add", "unreachable", each, "metric", str(METRIC)])
    local = (f"address add {ipv6_twin(gateway(network), network)}/64 dev {lab.bridge} nodad",) if ipv6 else ()
    commands = (
        f"link add {lab.bridge} type bridge",
        f"address add {gateway(network)}/{network.prefixlen} dev {lab.bridge}",
        *local,
        f"link set {lab.bridge} up",
    )
    call(["ip", "-batch", "-"], "\n".join(commands))
    rule = f"ip saddr {network} ip daddr != {network} masquerade"
    chain = f"chain out {{\ntype nat hook postrouting priority srcnat\n{rule}\n}}"
    call(["nft", "-f", "-"], f"table ip {lab.table} {{\n{chain}\n}}\n")


def _networks(network: IPv4Network) -> tuple[str, ...]:
    """The networks of a lab: IPv4 and IPv6."""
    return str(network), str(ipv6_network(network))


def has_bridge(lab: LabLayout) -> bool:
    """Whether the lab's bridge exists; without it the lab's hosts cannot be reached."""
    return (DEVICES / lab.bridge).exists()


def plug_in(host: HostLayout, addresses: Sequence[str], network: IPv4Network, offline: Container[str] = ()) -> None:
    """Make a host's network namespace and veth pair, or set it up again; `offline` hosts get no default route."""
    if (DEVICES / host.link).exists() and succeeds(["ip", "-n", host.namespace, "address", "show", "to", addresses[0]]):
        call(["ip", "link", "set", host.link, "up"])
        return
    _remove_host(host.link, host.namespace)
    call(["ip", "netns", "add", host.namespace])
    bridge = LabLayout(host.lab).bridge
    commands = (
        f"link add {host.link} type veth peer name eth0 netns {host.namespace}",
        f"link set {host.link} master {bridge} up",
    )
    call(["ip", "-batch", "-"], "\n".join(commands))
    has_ipv4 = any(":" not in address for address in addresses)
    inside = (
        "link set lo up",
        # Without nodad, a new IPv6 address cannot be used for a second, while the kernel looks for duplicates.
        *(f"address add {one}/{'64 dev eth0 nodad' if ':' in one else '24 dev eth0'}" for one in addresses),
        "link set eth0 up",
        *(() if host.name in offline or not has_ipv4 else (f"route add default via {gateway(network)}",)),
        *(route for one in addresses if ":" not in one for route in _prompt_routes(one, network)),
    )
    call(["ip", "-n", host.namespace, "-batch", "-"], "\n".join(inside))


def _prompt_routes(address: str, network: IPv4Network) -> tuple[str, ...]:
    """Commands for ip(8) that make a host acknowledge each TCP segment at once.

    Slurm sends the length of a message and its text in two segments, so that on connections that last, as to slurmdbd,
    each message waits for the peer's delayed acknowledgement (40 ms); a sacctmgr would take 0.5 s instead of 0.02 s.
    `address`: the host's IPv4 address.
    """
    own = [(address, "eth0", address), ("127.0.0.1", "lo", "127.0.0.1"), ("127.0.0.0/8", "lo", "127.0.0.1")]
    return (
        *(f"route replace local {to} dev {by} table local proto kernel scope host src {source} quickack 1"
          for to, by, source in own),
        f"route replace {network} dev eth0 proto kernel scope link src {address} quickack 1",
    )  # fmt: skip


def unplug(host: HostLayout) -> None:
    """Set a host's link down, if it exists: connections then time out instead of being refused."""
    succeeds(["ip", "link", "set", host.link, "down"])


def remove_network(lab: LabLayout, network: str) -> None:
    """Remove what this module made for a lab, as far as it is there; `network` is empty if none was chosen."""
    for link in _links(lab):
        _remove_host(link, "")
    for namespace in _namespaces(lab):
        _remove_host("", namespace)
    succeeds(["ip", "link", "delete", lab.bridge])
    succeeds(["nft", "delete", "table", "ip", lab.table])
    for each in _networks(IPv4Network(network)) if network else ():
        succeeds(["ip", "route", "delete", "unreachable", each, "metric", str(METRIC)])


def _remove_host(link: str, namespace: str) -> None:
    """Remove a link and a namespace, if given; the link by its name, as the namespace may outlive this call."""
    if link:
        succeeds(["ip", "link", "delete", link])
    if namespace:
        succeeds(["ip", "netns", "delete", namespace])
        # If iproute2 is killed between its two steps, a plain file stays that is not a namespace.
        Path("/run/netns", namespace).unlink(missing_ok=True)


def _links(lab: LabLayout) -> Iterator[str]:
    """Interfaces on this machine that belong to veth pairs of the lab."""
    prefix = lab.host("").link
    yield from sorted(path.name for path in DEVICES.iterdir() if path.name.startswith(prefix))


def _namespaces(lab: LabLayout) -> Iterator[str]:
    """Names of the lab's network namespaces."""
    place, prefix = Path("/run/netns"), lab.host("").namespace
    if place.is_dir():
        yield from sorted(path.name for path in place.iterdir() if path.name.startswith(prefix))
