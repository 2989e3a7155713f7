"""The IP addresses of a host, with the one that other hosts most likely use first."""

from __future__ import annotations

import socket
from typing import List

from slurmfab.on_hosts.agent.core.reading import read_text

DOCUMENTATION_ADDRESSES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses reserved for documentation (RFC 5737, RFC 3849), which are reached over the default route."""


def addresses() -> List[str]:
    """This host's addresses without loopback: first those of the default routes, then IPv4, then IPv6."""
    local = [*ipv4_addresses(read_text("/proc/net/fib_trie")), *ipv6_addresses(read_text("/proc/net/if_inet6"))]
    return [address for address in dict.fromkeys([*default_addresses(), *local]) if address in local]


def default_addresses() -> List[str]:
    """The source addresses of the default routes; connecting a UDP socket sends nothing."""
    found = []
    for family, address in DOCUMENTATION_ADDRESSES:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                found.append(probe.getsockname()[0])
        except OSError:
            continue
    return found


def ipv4_addresses(trie: str) -> List[str]:
    """The local addresses in the text of /proc/net/fib_trie, where `/32 host LOCAL` follows each."""
    found, last = [], ""
    for line in trie.splitlines():
        fields = line.split()
        if fields and fields[0] == "|--":
            last = fields[1]
        elif fields[:3] == ["/32", "host", "LOCAL"] and not last.startswith("127."):
            found.append(last)
    return list(dict.fromkeys(found))


def ipv6_addresses(table: str) -> List[str]:
    """The global addresses in the text of /proc/net/if_inet6.

    Its lines have an address of 32 hexadecimal digits, index, prefix length, scope, flags and interface. Without
    temporary addresses (flag 0x01) and unusable ones.
    """
    rows = (line.split() for line in table.splitlines())
    lasting = (row for row in rows if row[3:4] == ["00"] and not int(row[4], 16) & 0x49)
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in lasting]
