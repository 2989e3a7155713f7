"""The addresses of hosts that slurm.conf names, as this host resolves their names; changes nothing."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Mapping

from slurmfab.on_hosts.agent.core.resource import Context

AT_ONCE = 32  # how many names are looked up at the same time: a name that no server knows takes seconds


def read(request: Mapping[str, Any], context: Context) -> Dict[str, List[str]]:  # noqa: ARG001 - as the others
    """IP addresses of `names`, without this host's own such as 127.0.1.1; empty for unknown names."""
    names = list(request["names"])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(addresses, names)))  # noqa: B905 - Python 3.9


def addresses(name: str) -> List[str]:
    """The IP addresses of a name, in the order in which they are to be tried."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    plain = dict.fromkeys(str(one[4][0]) for one in found)
    return [one for one in plain if not one.startswith("127.") and one != "::1" and not one.startswith("fe80:")]
