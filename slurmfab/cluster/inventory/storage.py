"""What a cluster stores where: the mounts of each host, the clients of exports, and the places of quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.exports import Export
from slurmfab.cluster.inventory.mounts import BIND, Mount, covering
from slurmfab.cluster.inventory.quota import kib


def mounts_of(cluster: Cluster, host: str) -> tuple[Mount, ...]:
    """The mounts of a host, those of exports included, each behind the one that it is inside of."""
    if not cluster.mounts and not cluster.served:
        return ()
    roles = set(cluster.roles(host))
    there = [one for one in cluster.mounts if (host in one.hosts if one.hosts is not None else roles & set(one.roles))]
    for export, here, elsewhere in cluster.served:
        if host == export.host:
            there += [here] if here else []
        elif roles & set(export.to):
            there.append(elsewhere)
    return tuple(sorted(there, key=lambda one: one.path))


def named_mounts(cluster: Cluster) -> Iterator[tuple[tuple[str, int, str], Mount]]:
    """Yield all mounts of a cluster file, those of exports included, each with the place of its path in the file."""
    for number, mount in enumerate(cluster.mounts):
        yield ("mounts", number, "path"), mount
    numbers = {id(export): number for number, export in enumerate(cluster.exports)}
    for export, here, elsewhere in cluster.served:
        for mount in filter(None, (here, elsewhere)):
            yield ("exports", numbers[id(export)], "mount"), mount


def clients(cluster: Cluster, export: Export) -> tuple[str, ...]:
    """The hosts that may mount an export, in the cluster's order; without the server itself."""
    roles = set(export.to)
    return tuple(host for host in cluster.hosts if host != export.host and roles & set(cluster.roles(host)))


def exports_of(cluster: Cluster, host: str) -> tuple[Export, ...]:
    """The directories that a host serves."""
    return tuple(export for export in cluster.exports if export.host == host)


class Limit(NamedTuple):
    """A user's limits in KiB; 0 for none."""

    user: str
    soft: int
    hard: int


def limits(cluster: Cluster) -> tuple[Limit, ...]:
    """The limits of all users who have any, in the order of the cluster file."""
    default = cluster.quota
    if default is None:
        return ()
    own = ((user.name, default if user.quota is None else user.quota) for user in cluster.users)
    return tuple(Limit(name, kib(one.soft), kib(one.hard)) for name, one in own if one)


def places(cluster: Cluster) -> dict[str, str]:
    """By host, the directory whose file system there has quotas set: of an export, or on local disks."""
    if cluster.quota is None:
        return {}
    path = cluster.quota.path
    for export in cluster.exports:
        if f"{path}/".startswith(f"{export.mount or export.path}/"):
            return {export.host: export.path}
    found = {host: covering(mounts_of(cluster, host), path) for host in cluster.hosts}
    return {host: one.path for host, one in found.items() if one and not one.is_network and one.type != BIND}
