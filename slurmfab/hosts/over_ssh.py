"""The transport by SSH that a run over so many hosts has."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slurmfab.hosts.relays import tell_on_standard_error
from slurmfab.hosts.sudo_password import SudoPassword
from slurmfab.hosts.transport import SshTransport, Transport

if TYPE_CHECKING:
    from slurmfab.hosts.host_keys import PinnedKey
    from slurmfab.hosts.route import Route

HOSTS_EACH = 128
"""The fewest hosts that are worth a process of their own, which takes 0.2 s of a processor to start."""


def over_ssh(
    routes: Mapping[str, Route],
    policies: Mapping[str, PinnedKey],
    ask_password: Callable[[], str] | None = None,
    password: str = "",
    tell: Callable[[str], None] = tell_on_standard_error,
) -> Transport:
    """A transport by SSH: in this process to few hosts, or where there is one core; else by several processes."""
    count = min(len(os.sched_getaffinity(0)), len(routes) // HOSTS_EACH)
    if count <= 1:
        return SshTransport(routes, policies, ask_password, password, tell)
    from slurmfab.hosts.workers import SharedTransport  # few runs have so many hosts

    return SharedTransport(routes, policies, SudoPassword(ask_password, password), tell, count)
