"""Rules about the file systems that hosts mount."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import covering
from slurmfab.cluster.inventory.rules.directories import SYSTEM, USED, overlap
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.inventory.storage import mounts_of, named_mounts

WITH_FILES = ("/etc", "/usr", "/var", "/var/lib", "/var/log", "/var/cache", "/var/spool", "/var/run", "/var/lock")
"""Directories with files that a host needs to work, which a mount would hide; below them there may be mounts."""


def mounts_hide_nothing_of_the_system(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A file system that is mounted over these directories would keep a host or its daemons from working."""
    for place, mount in dict(named_mounts(cluster)).items():
        used = used_by_others(mount.path)
        if is_systems(mount.path):
            yield place, f'"{mount.path}" is a directory of the system'
        elif used:
            yield place, f'"{mount.path}" would hide {used}, which slurmfab or a daemon uses'


def mounts_are_on_known_hosts(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A mount on a host that the cluster does not have is a typing mistake."""
    for number, mount in enumerate(cluster.mounts):
        unknown = [host for host in mount.hosts or () if host not in cluster.hosts]
        if unknown:
            yield ("mounts", number, "hosts"), f'"{fold(unknown)}" is no host of this cluster'


def each_path_is_mounted_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Of two mounts at one path, the second would hide the first."""
    places = {id(mount): place for place, mount in named_mounts(cluster)}
    if len({mount.path for _, mount in named_mounts(cluster)}) == len(set(places.values())):
        return
    order = list(dict.fromkeys(places.values()))
    first: dict[tuple[str, str], Place] = {}
    told: set[Place] = set()
    for host in cluster.hosts:
        there = {places[id(mount)]: mount.path for mount in mounts_of(cluster, host)}
        for place in sorted(there, key=order.index):
            path = there[place]
            other = first.setdefault((host, path), place)
            if other != place and place not in told:
                told.add(place)
                yield place, f'"{path}" is already mounted on {host} by {other[0]}[{other[1]}]'


def homes_are_shared(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A job writes its output where it was submitted: in the home of its user, which is to be the same everywhere."""
    homes = cluster.homes
    if homes is None:
        return
    served = {(export.host, export.path) for export in cluster.exports}
    lacking = [
        host
        for host in cluster.workplaces
        if covering(mounts_of(cluster, host), homes) is None
        and not any(host == server and f"{homes}/".startswith(f"{path}/") for server, path in served)
    ]
    if lacking:
        yield (
            ("homes",),
            f'"{homes}" is on no mount of {fold(lacking)}, where users work: name the file system there under mounts, '
            "or a host that serves it under exports",
        )


def is_systems(path: str) -> bool:
    """Whether a directory has files that a host needs to work."""
    return path in WITH_FILES or any(f"{path}/".startswith(f"{one}/") for one in SYSTEM)


def used_by_others(path: str) -> str:
    """The directory of slurmfab's or of a daemon that contains a directory or lies in it; empty for none."""
    return next((one for one in USED if overlap(one, path)), "")


RULES = (mounts_hide_nothing_of_the_system, mounts_are_on_known_hosts, each_path_is_mounted_once, homes_are_shared)
