"""What may stand where an address is wanted."""

from __future__ import annotations

import ipaddress
import re

_DNS_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")


def is_address(text: str) -> bool:
    """Whether a text is an IP address or a DNS name.

    >>> is_address("10.0.0.1"), is_address("db.example.org"), is_address("10.0.0.300")
    (True, True, False)
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # 10.0.0.300 and 10.0.1 are no names either, whatever their characters.
        return bool(_DNS_NAME.fullmatch(text)) and not text.replace(".", "").isdigit()
    return True
