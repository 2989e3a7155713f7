"""IP addresses as text: one spelling for each, which of the two families it belongs to, and where it is valid."""

from __future__ import annotations

import ipaddress
import re
import socket
from contextlib import suppress

IPV4, IPV6 = 4, 6
NO_ADDRESS = 0

OWN_NAMES = ("localhost", "localhost4", "localhost6", "loopback", "ip6-localhost", "ip6-loopback")
"""Names by which each host means itself."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Python takes anything behind the `%` of an IPv6 address, line breaks and commands for a shell as well.
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+(%[\w.-]{1,15})?", re.ASCII)


def parsed(text: str) -> Address:
    """An IP address; ValueError for other texts, also where more than an interface's name is behind a `%`.

    >>> parsed("10.0.0.1"), parsed("fe80::1%eth0")
    (IPv4Address('10.0.0.1'), IPv6Address('fe80::1%eth0'))
    """
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"{text!r} is not an IP address")
    return ipaddress.ip_address(text)


def family(text: str) -> int:
    """`IPV4` or `IPV6` for an IP address, `NO_ADDRESS` for any other text.

    >>> family("10.0.0.1"), family("fd83::11"), family("fe80::1%eth0"), family("n1")
    (4, 6, 6, 0)
    """
    try:
        return parsed(text).version
    except ValueError:
        return NO_ADDRESS


def canonical(text: str) -> str:
    """An IPv6 address in the spelling of RFC 5952; an IPv4 address that is written as one; other texts unchanged.

    So two texts are equal if and only if they are the same address.

    >>> canonical("FD83:0::0011"), canonical("::ffff:10.0.0.1"), canonical("n1")
    ('fd83::11', '10.0.0.1', 'n1')
    """
    if ":" not in text:
        return text
    try:
        address = parsed(text)
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_link_local(text: str) -> bool:
    """Whether a text is an IPv6 address that is valid on one link only, or names an interface.

    >>> is_link_local("fe80::1"), is_link_local("fd83::1%eth0"), is_link_local("fd83::1")
    (True, True, False)
    """
    if family(text) != IPV6:
        return False
    return "%" in text or parsed(text).is_link_local


def is_loopback(text: str) -> bool:
    """Whether a name or an address means the host itself on which it stands, as 0.0.0.0 does to who connects there.

    >>> is_loopback("LocalHost.localdomain"), is_loopback("127.0.1.1"), is_loopback("::1"), is_loopback("n1")
    (True, True, True, False)
    """
    if family(text) != NO_ADDRESS:
        address = parsed(canonical(text))
        return address.is_loopback or address.is_unspecified
    return text.lower().partition(".")[0] in OWN_NAMES


def is_here(address: str) -> bool:
    """Whether an IP address is one of this machine's: its kernel says so without a packet."""
    if is_loopback(address):
        return True
    kind = socket.AF_INET6 if family(address) == IPV6 else socket.AF_INET
    with suppress(OSError), socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return canonical(probe.getsockname()[0]) == canonical(address)
    return False


def in_url(text: str) -> str:
    """An address as it is written before a port: an IPv6 address in brackets, anything else as it is."""
    return f"[{text}]" if ":" in text else text
