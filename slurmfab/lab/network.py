"""A lab's network: one bridge, a network namespace and a cable per host, a way out, and a fence.

The fence is an `unreachable` route for the lab's range with a poor metric. While the bridge exists its own route wins;
without it, packets for lab hosts would leave through the default route, to somebody else's machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from ipaddress import IPv4Network
from pathlib import Path

from slurmfab.lab import state
from slurmfab.lab.addresses import gateway
from slurmfab.lab.command import call, succeeds
from slurmfab.lab.layout import HostLayout, LabLayout

METRIC = 4000000
"""Poorer than any route that people write."""

RESOLVERS = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
"""Where this machine's name servers are told; systemd-resolved's own list first, as its stub answers only here."""

DEVICES = Path("/sys/class/net")
"""This machine's network devices, one entry each."""


def networks_in_use() -> tuple[IPv4Network, ...]:
    """Networks that this machine routes to, has addresses in, asks for names, or uses for other labs."""
    routes = json.loads(call(["ip", "-j", "-4", "route", "show", "table", "all"]) or "[]")
    found = [entry["dst"] for entry in routes if entry["dst"] != "default"]
    found += [f"{server}/24" for server in re.findall(r"^nameserver\s+([\d.]+)$", resolver_text(), re.MULTILINE)]
    found += [other.network for other in state.states()]
    return tuple(IPv4Network(text, strict=False) for text in found)


def resolver_text() -> str:
    """The hosts' /etc/resolv.conf: this machine's name servers, without search domains.

    Search domains could make `n1` mean somebody's real machine.
    """
    text = next((path.read_text() for path in RESOLVERS if path.exists()), "")
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith(("nameserver", "options")))


def make_network(lab: LabLayout, network: IPv4Network) -> None:
    """Make the fence, the bridge and the way out of a lab."""
    call(["ip", "route", "add", "unreachable", str(network), "metric", str(METRIC)])
    commands = (
        f"link add {lab.bridge} type bridge",
        f"address add {gateway(network)}/{network.prefixlen} dev {lab.bridge}",
        f"link set {lab.bridge} up",
    )
    call(["ip", "-batch", "-"], "\n".join(commands))
    rule = f"ip saddr {network} ip daddr != {network} masquerade"
    chain = f"chain out {{\ntype nat hook postrouting priority srcnat\n{rule}\n}}"
    call(["nft", "-f", "-"], f"table ip {lab.table} {{\n{chain}\n}}\n")


def has_bridge(lab: LabLayout) -> bool:
    """Whether the lab's bridge is there; without it, packets for its hosts would go elsewhere."""
    return (DEVICES / lab.bridge).exists()


def plug_in(host: HostLayout, address: str, network: IPv4Network, offline: Container[str] = ()) -> None:
    """Give a host its namespace and its cable; a cable that was only unplugged is plugged in again.

    Args:
        host: which.
        address: its address.
        network: the lab's range.
        offline: names of hosts for which there is no way out of that range.
    """
    if (DEVICES / host.link).exists() and succeeds(["ip", "-n", host.namespace, "address", "show", "to", address]):
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
    inside = (
        "link set lo up",
        f"address add {address}/{network.prefixlen} dev eth0",
        "link set eth0 up",
        *(() if host.name in offline else (f"route add default via {gateway(network)}",)),
    )
    call(["ip", "-n", host.namespace, "-batch", "-"], "\n".join(inside))


def unplug(host: HostLayout) -> None:
    """Cut a host's cable: it becomes silent instead of refusing connections. No cable is no error."""
    succeeds(["ip", "link", "set", host.link, "down"])


def remove_network(lab: LabLayout, network: str) -> None:
    """Remove all that this module has made for a lab; what is not there is no error.

    Args:
        lab: names of the lab.
        network: its range; empty when it never got one.
    """
    for link in _links(lab):
        _remove_host(link, "")
    for namespace in _namespaces(lab):
        _remove_host("", namespace)
    succeeds(["ip", "link", "delete", lab.bridge])
    succeeds(["nft", "delete", "table", "ip", lab.table])
    if network:
        succeeds(["ip", "route", "delete", "unreachable", network, "metric", str(METRIC)])


def _remove_host(link: str, namespace: str) -> None:
    """Remove a cable and a namespace; the cable by name, as the namespace may linger."""
    if link:
        succeeds(["ip", "link", "delete", link])
    if namespace:
        succeeds(["ip", "netns", "delete", namespace])
        # A kill between the two steps of iproute2 leaves a plain file that is no namespace.
        Path("/run/netns", namespace).unlink(missing_ok=True)


def _links(lab: LabLayout) -> Iterator[str]:
    """This machine's ends of the lab's cables."""
    prefix = lab.host("").link
    yield from sorted(path.name for path in DEVICES.iterdir() if path.name.startswith(prefix))


def _namespaces(lab: LabLayout) -> Iterator[str]:
    """The lab's network namespaces."""
    place, prefix = Path("/run/netns"), lab.host("").namespace
    if place.is_dir():
        yield from sorted(path.name for path in place.iterdir() if path.name.startswith(prefix))
