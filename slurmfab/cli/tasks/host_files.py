"""Values of `--hosts` that name files: `@FILE`, `@FILE:GROUP`, and `-` for standard input."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks.options import Common
from slurmfab.cluster.host_files import selection
from slurmfab.cluster.inventory import loading


def resolved(common: Common, hosts: str, *, newcomers: bool) -> str:
    """The hostlist that a value of `hosts` stands for.

    A host of a file that is a member of the cluster, by its name or its address, gets the member's name. `newcomers`:
    whether hosts that are no members are wanted. Raises InputError if a file cannot be read, has no such group, or
    names no host.
    """
    if hosts.strip() == selection.STANDARD_INPUT and common.ask_sudo_password:
        raise InputError(
            "--hosts - and --ask-sudo-password would both read standard input; name a file: --hosts @FILE."
        )
    known = members(common.cluster)
    return selection.resolved(hosts, known, newcomers=newcomers or not known)


def members(cluster: str) -> Mapping[str, tuple[str, ...]]:
    """The addresses of each member of the cluster, by name; empty if there is no cluster file yet."""
    path = loading.named_path(cluster)
    if not path.exists():
        return {}
    known = loading.load(path).cluster
    return {host: (known.addresses[host],) if host in known.addresses else () for host in known.hosts}
