"""Which addresses a lab uses: pure arithmetic on networks."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network

from slurmfab.errors import LabError

GATEWAY = 1
"""Last number of the bridge's own address."""

FIRST_HOST = 10
"""Last number of the controller's address; the compute nodes follow."""

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""Ranges for private use, RFC 1918, in the order in which they are tried."""


def choose_network(name: str, taken: Iterable[IPv4Network]) -> IPv4Network:
    """A /24 for the lab of that name, away from every network that is taken.

    The same name gets the same network as long as it is free, so that a lab that is made again has its old addresses.

    Raises:
        LabError: every private network is taken.
    """
    # A default route covers everything and says nothing about what is taken.
    occupied = tuple(network for network in taken if network.prefixlen)
    for candidate in _candidates(name):
        if not any(candidate.overlaps(network) for network in occupied):
            return candidate
    raise LabError("This machine's routes cover every private IPv4 network, so no addresses are left for a lab.")


def _candidates(name: str) -> Iterator[IPv4Network]:
    """All private /24 networks, starting at a place that depends on the name."""
    for text in PRIVATE:
        block = IPv4Network(text)
        count = block.num_addresses // 256
        start = zlib.crc32(name.encode()) % count
        for step in range(count):
            first = int(block.network_address) + ((start + step) % count) * 256
            yield IPv4Network((first, 24))


def gateway(network: IPv4Network) -> IPv4Address:
    """The bridge's own address."""
    return network[GATEWAY]


def host_addresses(network: IPv4Network, names: Iterable[str]) -> dict[str, str]:
    """Host name to address, in the order of the names."""
    return {name: str(network[FIRST_HOST + place]) for place, name in enumerate(names)}
