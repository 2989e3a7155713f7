"""Rules about the file systems that hosts mount."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slurmfab.hostlist import fold
from slurmfab.inventory.mounts import mounts_of
from slurmfab.inventory.rules.directories import SYSTEM, USED

if TYPE_CHECKING:
    from slurmfab.inventory.cluster import Cluster
    from slurmfab.inventory.slurm_settings import Place

WITH_FILES = ("/etc", "/usr", "/var", "/var/lib", "/var/log", "/var/cache", "/var/spool", "/var/run", "/var/lock")
"""Directories with files that a host needs to work, which a mount would hide; below them there may be mounts."""


def mounts_hide_nothing_of_the_system(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A file system that is mounted over these directories would keep a host or its daemons from working."""
    for number, mount in enumerate(cluster.mounts):
        path = f"{mount.path}/"
        used = next((one for one in USED if f"{one}/".startswith(path) or path.startswith(f"{one}/")), "")
        if mount.path in WITH_FILES or any(path.startswith(f"{one}/") for one in SYSTEM):
            yield ("mounts", number, "path"), f'"{mount.path}" is a directory of the system'
        elif used:
            yield ("mounts", number, "path"), f'"{mount.path}" would hide {used}, which slurmfab or a daemon uses'


def mounts_are_on_known_hosts(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A mount on a host that the cluster does not have is a typing mistake."""
    for number, mount in enumerate(cluster.mounts):
        unknown = [host for host in mount.hosts or () if host not in cluster.hosts]
        if unknown:
            yield ("mounts", number, "hosts"), f'"{fold(unknown)}" is no host of this cluster'


def each_path_is_mounted_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Of two mounts at one path, the second would hide the first."""
    if len({mount.path for mount in cluster.mounts}) == len(cluster.mounts):
        return
    first: dict[tuple[str, str], int] = {}
    numbers = {id(mount): number for number, mount in enumerate(cluster.mounts)}
    told = set[int]()
    for host in cluster.hosts:
        for number, path in sorted((numbers[id(mount)], mount.path) for mount in mounts_of(cluster, host)):
            other = first.setdefault((host, path), number)
            if other != number and number not in told:
                told.add(number)
                yield ("mounts", number, "path"), f'"{path}" is already mounted on {host} by mounts[{other}]'


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (
    mounts_hide_nothing_of_the_system,
    mounts_are_on_known_hosts,
    each_path_is_mounted_once,
)
