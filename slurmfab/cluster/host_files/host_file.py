"""The hosts and groups of one file, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold


@dataclass(frozen=True)
class ListedHost:
    """A host in a file."""

    name: str
    address: str = ""  # where SSH connects to, if the file says so; else empty
    user: str = ""  # login name, if the file says so; else empty
    port: int = 0  # port of its sshd; 0 if the file does not say

    @property
    def endpoint(self) -> str:
        """The host as an entry of a hostlist, as in `admin@10.0.0.5:2222`."""
        user = f"{self.user}@" if self.user else ""
        address = self.address or self.name
        if not self.port:
            return f"{user}{address}"
        return f"{user}[{address}]:{self.port}" if ":" in address else f"{user}{address}:{self.port}"


@dataclass(frozen=True)
class HostFile:
    """The hosts of a file, in its order, and its groups."""

    where: str
    hosts: tuple[ListedHost, ...]  # the hosts, each once
    # names of hosts by name of the group; empty if the format has none
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def selected(self, group: str) -> tuple[ListedHost, ...]:
        """The hosts of a group (empty: all) in the file's order; InputError if the group is missing or empty."""
        if group and group not in self.groups:
            known = f"It has {', '.join(sorted(self.groups))}." if self.groups else "Its format has no groups."
            raise InputError(f"{self.where}: there is no group {group!r}. {known}")
        members = set(self.groups[group]) if group else {host.name for host in self.hosts}
        found = tuple(host for host in self.hosts if host.name in members)
        if not found:
            raise InputError(f"{self.where}: {f'the group {group!r}' if group else 'it'} names no host.")
        return found

    def __repr__(self) -> str:
        return f"HostFile({self.where!r}, {fold(host.name for host in self.hosts)})"
