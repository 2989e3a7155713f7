"""A lab's network: a bridge, a network namespace and a veth pair per host, nftables rules, and an `unreachable` route.

The `unreachable` route covers the lab's network with a high metric. While the bridge exists, the bridge's own route is
preferred. Without the bridge, packets for lab hosts would leave through the default route, to other machines.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import state
from slurmfab.lab.command import call, succeeds
from slurmfab.lab.layout import HostLayout, LabLayout

GATEWAY = 1  # position of the bridge's address in the lab's network: 10.20.30.1 in 10.20.30.0/24
FIRST_HOST = 10  # position of the controller's address in the lab's network; the compute nodes' addresses follow it

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""Address ranges for private use (RFC 1918), in the order in which they are tried."""

LOCAL_IPV6 = 0xFD53_6C66
"""First 32 bits of the labs' IPv6 networks: unique local addresses (RFC 4193), which the internet does not route."""


def choose_network(name: str, taken: Iterable[IPv4Network]) -> IPv4Network:
    """Choose a private /24 network for a lab that overlaps no network in use.

    The same name gets the same network while that is free, so a lab that is made again has its old addresses. `taken`:
    networks in use; a default route (/0) is ignored. Raises LabError if all private networks are in use.
    """
    # A default route covers all addresses, so it does not show which networks are in use.
    occupied = tuple(network for network in taken if network.prefixlen)
    for candidate in _candidates(name):
        if not any(candidate.overlaps(network) for network in occupied):
            return candidate
    raise LabError("This machine's routes cover every private IPv4 network, so no addresses are left for a lab.")


def require_free(wanted: str, taken: Iterable[IPv4Network]) -> IPv4Network:
    """Check that the network of kept disks is free, and return it; their hosts cannot change addresses.

    `wanted`: the network, such as `10.20.30.0/24`. `taken`: networks in use; a default route (/0) is ignored. Raises
    LabError if the network overlaps one in use.
    """
    network = IPv4Network(wanted)
    if any(network.overlaps(other) for other in taken if other.prefixlen):
        raise LabError(
            f"{wanted} is in use on this machine, and these hosts cannot have other addresses. "
            "Is another copy of their disks up? Try lab-down for that one."
        )
    return network


def _candidates(name: str) -> Iterator[IPv4Network]:
    """All private /24 networks; the position of the first in each range is a hash of the name."""
    for text in PRIVATE:
        block = IPv4Network(text)
        count = block.num_addresses // 256
        start = zlib.crc32(name.encode()) % count
        for step in range(count):
            first = int(block.network_address) + ((start + step) % count) * 256
            yield IPv4Network((first, 24))


def gateway(network: IPv4Network) -> IPv4Address:
    """The bridge's address, which is the hosts' default gateway."""
    return network[GATEWAY]


def ipv6_network(network: IPv4Network) -> IPv6Network:
    """The /64 network of a lab, which follows from its IPv4 network, so that no two labs have the same.

    >>> ipv6_network(IPv4Network("10.20.30.0/24"))
    IPv6Network('fd53:6c66:a14:1e00::/64')
    """
    return IPv6Network((LOCAL_IPV6 << 96 | int(network.network_address) << 64, 64))


def ipv6_twin(address: IPv4Address, network: IPv4Network) -> IPv6Address:
    """The IPv6 address of the host with this IPv4 address; it ends with the same digits."""
    return ipv6_network(network)[int(str(int(address) - int(network.network_address)), 16)]


def host_addresses(
    network: IPv4Network, names: Iterable[str], ipv6: Container[str] = (), dual: Container[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Addresses by host, in the order of names: IPv4, IPv6 alone for `ipv6`, or both for `dual`."""
    found = {}
    for place, name in enumerate(names):
        address = network[FIRST_HOST + place]
        ipv4 = () if name in ipv6 else (str(address),)
        twin = (str(ipv6_twin(address, network)),) if name in ipv6 or name in dual else ()
        found[name] = (*ipv4, *twin)
    return found


METRIC = 4000000  # metric of the `unreachable` route, higher than that of any route in practical use

RESOLVERS = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
"""Files with this machine's name servers, in order of preference: systemd-resolved's stub answers only locally."""

DEVICES = Path("/sys/class/net")  # directory with one entry per network device of this machine

RULES = """\
table ip {table} {{
chain out {{
type nat hook postrouting priority srcnat
ip saddr {network} ip daddr != {network} masquerade
}}
}}
table inet {table} {{
chain through {{
type filter hook forward priority filter
ip saddr {network} iifname != "{bridge}" drop
iifname "{bridge}" oifname "{bridge}" accept
iifname "{bridge}" ip saddr {network} accept
oifname "{bridge}" ct state established,related accept
iifname "{bridge}" drop
oifname "{bridge}" drop
}}
}}
"""
"""Rules for nft(8): hosts of the lab reach what this machine reaches, by its addresses, and only answers reach them.

The first one keeps packets that only claim to be of the lab from the masquerading, which could not tell: before Linux
5.7, a rule at `postrouting` does not see where a packet came in. IPv6 stays on the bridge. This machine's own packets
are not forwarded, and so not concerned. What concerns other networks is in `slurmfab.lab.machine`.
"""


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
    """Make a lab's `unreachable` routes, nftables rules and bridge, in this order; IPv6 only where hosts have it."""
    for each in _networks(network) if ipv6 else (str(network),):
        call(["ip", "route", "add", "unreachable", each, "metric", str(METRIC)])
    call(["nft", "-f", "-"], RULES.format(table=lab.table, network=network, bridge=lab.bridge))
    local = (f"address add {ipv6_twin(gateway(network), network)}/64 dev {lab.bridge} nodad",) if ipv6 else ()
    commands = (
        f"link add {lab.bridge} type bridge",
        f"address add {gateway(network)}/{network.prefixlen} dev {lab.bridge}",
        *local,
        f"link set {lab.bridge} up",
    )
    call(["ip", "-batch", "-"], "\n".join(commands))


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


def set_up(host: HostLayout, settings: Mapping[str, str]) -> None:
    """Write settings of IPv4 in a host's network namespace."""
    lines = "".join(f"echo {value} >/proc/sys/net/ipv4/{name}\n" for name, value in settings.items())
    call(["nsenter", f"--net=/run/netns/{host.namespace}", "sh", "-es"], lines)


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
    for family in ("ip", "inet"):
        succeeds(["nft", "delete", "table", family, lab.table])
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
