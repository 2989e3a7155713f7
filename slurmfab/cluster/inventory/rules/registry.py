"""Rules about the cluster's own image registry."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.paths import REGISTRY_FILES
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.rules.directories import named, overlap
from slurmfab.cluster.inventory.rules.mounts import used_by_others
from slurmfab.cluster.inventory.slurm_settings import Place

_NO_PLACES = ("/etc", "/tmp", "/var/run", "/var/tmp")  # noqa: S108 - they are refused
"""Directories of settings, and those that are emptied."""


def the_registry_is_on_a_known_host(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmfab sets up a registry on a host of the cluster, and no other one."""
    if cluster.registry is not None and cluster.registry.host not in cluster.hosts:
        yield ("registry", "host"), f'"{cluster.registry.host}" is no host of this cluster'


def images_have_a_directory_of_their_own(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Everybody who may fetch images reads what is there, and who may send images writes there."""
    if cluster.registry is None:
        return
    path, place = cluster.registry.directory, ("registry", "directory")
    other = next((key for (key, *_), one in named(cluster) if key != place[0] and overlap(one, path)), "")
    if other:
        yield place, f'"{path}" contains, or is inside of, the directory of {other}'
    elif any(overlap(one, path) for one in _NO_PLACES):
        yield place, f'"{path}" is no place for images; name a directory such as /srv/images'
    elif used := used_by_others(path):
        yield place, f'"{path}" has files of {used}, which only its host may read'


def files_of_the_registry_are_slurmfabs(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Of two contents for one file, only one would be there."""
    for path in REGISTRY_FILES if cluster.registry is not None else ():
        if path in cluster.files:
            yield ("files", path), "slurmfab writes it for the key registry"


RULES = (the_registry_is_on_a_known_host, images_have_a_directory_of_their_own, files_of_the_registry_are_slurmfabs)
