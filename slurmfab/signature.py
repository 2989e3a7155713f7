"""Who is at work: for others who meet this run on a host, and for those who find a node drained."""

from __future__ import annotations

import getpass
import socket
import time


def who() -> str:
    """Who is at work, and since when: `ann@laptop since 2026-11-21 09:00:00 +0100`."""
    return f"{getpass.getuser()}@{host()} since {time.strftime('%Y-%m-%d %H:%M:%S %z')}"


def stamp() -> str:
    """Who is at work, and when, for the reasons of drained nodes: `ann@laptop 2026-11-21T09:00`."""
    return f"{getpass.getuser()}@{host()} {time.strftime('%Y-%m-%dT%H:%M')}"


def host() -> str:
    """This machine's name, without its domain."""
    return socket.gethostname().split(".")[0]
