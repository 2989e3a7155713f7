"""Rules about limits to what users may store."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import covering
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.inventory.storage import mounts_of, places


def quotas_are_set_by_hosts_of_the_cluster(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Only the host that has a file system can limit users there."""
    if cluster.quota is None or places(cluster):
        return
    path = cluster.quota.path
    there = next((one for host in cluster.hosts if (one := covering(mounts_of(cluster, host), path))), None)
    if there is None:
        yield ("quota", "path"), f'"{path}" is on no mount and no export of the cluster file'
    else:
        yield (
            ("quota", "path"),
            f'"{path}" is from {there.source}, which is no host of this cluster; set quotas there',
        )


def users_have_quotas_of_something(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A user's own limits are for the file system that `quota` names."""
    for number, user in enumerate(cluster.users if cluster.quota is None else ()):
        if user.quota is not None:
            yield ("users", number, "quota"), "it needs the key quota, which names the file system"


RULES = (quotas_are_set_by_hosts_of_the_cluster, users_have_quotas_of_something)
