"""Shells on hosts that are opened when a check needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from slurmfab.base.errors import HostError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.hosts import CheckedHost, Shells, open_shells
from slurmfab.core.engine import session
from slurmfab.hosts.host_keys import PinnedKey

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]
"""Opens shells on the named hosts of a cluster; see `slurmfab.commands.checks.hosts.open_shells`."""


def opener_of(output: session.Output, password: str = "") -> Opener:
    """A function that opens shells on hosts by SSH; the sudo password, if asked for already, is handed to it."""
    ask = output.asker()
    known_password = password or (ask() if ask and output.ask_password else "")

    def opener(inventory: Inventory, hosts: Sequence[str]) -> AbstractContextManager[Shells]:
        policies = {host: PinnedKey(host, session.trusted_keys(inventory, host)) for host in inventory.cluster.hosts}
        return open_shells(inventory, hosts, policies, ask, known_password)

    return opener


def host_in(shells: Shells, name: str) -> CheckedHost:
    """A host whose shell is open. Raises HostError if it cannot be reached."""
    shell = shells[name]
    if isinstance(shell, HostError):
        raise shell
    return CheckedHost(name, shell)


@contextmanager
def opened(opener: Opener, known: Inventory, name: str) -> Iterator[CheckedHost]:
    """One host, with its shell open in the `with` block. Raises HostError if it cannot be reached."""
    with opener(known, (name,)) as shells:
        yield host_in(shells, name)
