"""IP addresses as text: one spelling for each, which of the two families it belongs to, and where it is valid."""

from __future__ import annotations

import ipaddress

IPV4, IPV6 = 4, 6
NO_ADDRESS = 0


def family(text: str) -> int:
    """`IPV4` or `IPV6` for an IP address, `NO_ADDRESS` for any other text.

    >>> family("10.0.0.1"), family("fd83::11"), family("fe80::1%eth0"), family("n1")
    (4, 6, 6, 0)
    """
    try:
        return ipaddress.ip_address(text).version
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
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    return str(address.ipv4_mapped or address)


def is_link_local(text: str) -> bool:
    """Whether a text is an IPv6 address that is valid on one link only, or names an interface.

    >>> is_link_local("fe80::1"), is_link_local("fd83::1%eth0"), is_link_local("fd83::1")
    (True, True, False)
    """
    if family(text) != IPV6:
        return False
    return "%" in text or ipaddress.IPv6Address(text).is_link_local


def in_url(text: str) -> str:
    """An address as it is written before a port: an IPv6 address in brackets, anything else as it is."""
    return f"[{text}]" if ":" in text else text
