"""Shells on hosts that are opened when a check needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from slurmfab.base.errors import HostError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.hosts import CheckedHost, Shells

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]
"""Opens shells on the named hosts of a cluster; see `slurmfab.commands.checks.hosts.open_shells`."""


def host_in(shells: Shells, name: str) -> CheckedHost:
    """A host whose shell is open.

    Raises:
        HostError: it cannot be reached.
    """
    shell = shells[name]
    if isinstance(shell, HostError):
        raise shell
    return CheckedHost(name, shell)


@contextmanager
def opened(opener: Opener, known: Inventory, name: str) -> Iterator[CheckedHost]:
    """One host, with its shell open in the `with` block.

    Raises:
        HostError: it cannot be reached.
    """
    with opener(known, (name,)) as shells:
        yield host_in(shells, name)
