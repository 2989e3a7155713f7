"""Who started a run: for the lock on hosts, and for the reasons of drained nodes."""

from __future__ import annotations

import getpass
import socket
import time


def who() -> str:
    """The user, this machine and the time: `ann@laptop since 2026-11-21 09:00:00 +0100`."""
    return f"{getpass.getuser()}@{host()} since {time.strftime('%Y-%m-%d %H:%M:%S %z')}"


def stamp() -> str:
    """The user, this machine and the time in the form of drain reasons: `ann@laptop 2026-11-21T09:00`."""
    return f"{getpass.getuser()}@{host()} {time.strftime('%Y-%m-%dT%H:%M')}"


def host() -> str:
    """This machine's name, without its domain."""
    return socket.gethostname().split(".")[0]
