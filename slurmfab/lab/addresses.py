"""The choice of a lab's network and of its hosts' addresses: arithmetic only, no system calls."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network

from slurmfab.errors import LabError

GATEWAY = 1
"""Position of the bridge's address in the lab's network: 10.20.30.1 in 10.20.30.0/24."""

FIRST_HOST = 10
"""Position of the controller's address in the lab's network; the compute nodes' addresses follow it."""

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""Address ranges for private use (RFC 1918), in the order in which they are tried."""


def choose_network(name: str, taken: Iterable[IPv4Network]) -> IPv4Network:
    """Choose a private /24 network for a lab that overlaps no network in use.

    The same name gets the same network while that is free, so a lab that is made again has its old addresses.

    Args:
        name: the lab's name.
        taken: networks in use; a default route (/0) is ignored.

    Raises:
        LabError: all private networks are in use.
    """
    # A default route covers all addresses, so it does not show which networks are in use.
    occupied = tuple(network for network in taken if network.prefixlen)
    for candidate in _candidates(name):
        if not any(candidate.overlaps(network) for network in occupied):
            return candidate
    raise LabError("This machine's routes cover every private IPv4 network, so no addresses are left for a lab.")


def require_free(wanted: str, taken: Iterable[IPv4Network]) -> IPv4Network:
    """Check that the network of kept disks is free, and return it; their hosts cannot change addresses.

    Args:
        wanted: the network, such as `10.20.30.0/24`.
        taken: networks in use; a default route (/0) is ignored.

    Raises:
        LabError: the network overlaps one in use.
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


def host_addresses(network: IPv4Network, names: Iterable[str]) -> dict[str, str]:
    """Map host names to addresses; the order of the names decides who gets which."""
    return {name: str(network[FIRST_HOST + place]) for place, name in enumerate(names)}
