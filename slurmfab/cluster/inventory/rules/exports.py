"""Rules about directories that a host of the cluster serves to others."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import covering
from slurmfab.cluster.inventory.rules.mounts import is_systems, used_by_others
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.inventory.storage import mounts_of


def servers_are_known_hosts(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmfab makes a host of the cluster a server, and no other one."""
    for number, export in enumerate(cluster.exports):
        if export.host not in cluster.hosts:
            yield (
                ("exports", number, "host"),
                f'"{export.host}" is no host of this cluster; what another server has is mounted by the key mounts',
            )


def exports_hold_nothing_of_the_system(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Other hosts must not read keys and passwords, or write what a daemon reads."""
    for number, export in enumerate(cluster.exports):
        used = used_by_others(export.path)
        if is_systems(export.path):
            yield ("exports", number, "path"), f'"{export.path}" is a directory of the system'
        elif used:
            yield ("exports", number, "path"), f'"{export.path}" has files of {used}, which only its host may read'


def each_directory_is_exported_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Of two entries for one directory, the options of only one would hold."""
    first: dict[tuple[str, str], int] = {}
    for number, export in enumerate(cluster.exports):
        other = first.setdefault((export.host, export.path), number)
        if other != number:
            yield ("exports", number, "path"), f'"{export.path}" of {export.host} is already exports[{other}]'


def exports_are_not_inside_of_their_mounts(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """On the server, the one would hide the other, or contain itself."""
    for number, export in enumerate(cluster.exports):
        path, mount = f"{export.path}/", f"{export.mount or export.path}/"
        if path != mount and (path.startswith(mount) or mount.startswith(path)):
            yield (
                ("exports", number, "mount"),
                f'"{export.mount}" and the directory "{export.path}" lie one in the other; mount it elsewhere, such as '
                f"at {export.path} itself",
            )


def exports_are_on_no_network_mount(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """The kernel does not serve again what it has from another server (exports(5))."""
    for number, export in enumerate(cluster.exports):
        there = covering(mounts_of(cluster, export.host), export.path) if export.host in cluster.hosts else None
        if there is not None and there.is_network:
            yield (
                ("exports", number, "path"),
                f'"{export.path}" is on {there.path}, which {export.host} has from {there.source}; mount that on the '
                "other hosts as well",
            )


RULES = (
    servers_are_known_hosts,
    exports_hold_nothing_of_the_system,
    each_directory_is_exported_once,
    exports_are_not_inside_of_their_mounts,
    exports_are_on_no_network_mount,
)
