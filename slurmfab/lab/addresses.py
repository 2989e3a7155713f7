"""The choice of a lab's network and of its hosts' addresses: arithmetic only, no system calls."""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from slurmfab.base.errors import LabError

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
    """Map host names to addresses; the order of the names decides who gets which.

    `network`: the lab's IPv4 network. `ipv6`: hosts with an IPv6 address only. `dual`: hosts with an IPv4 address and,
    second, an IPv6 address.
    """
    found = {}
    for place, name in enumerate(names):
        address = network[FIRST_HOST + place]
        ipv4 = () if name in ipv6 else (str(address),)
        twin = (str(ipv6_twin(address, network)),) if name in ipv6 or name in dual else ()
        found[name] = (*ipv4, *twin)
    return found
