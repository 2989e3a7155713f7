"""Rules about notebooks in the browser."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place


def the_hub_is_where_users_submit(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """It proves logins of the cluster's users and submits their jobs."""
    host = cluster.jupyter.host if cluster.jupyter else ""
    if host and not {"controller", "login"} & set(cluster.roles(host)):
        yield ("jupyter", "host"), f'"{host}" is neither a controller nor a login host of this cluster'


RULES = (the_hub_is_where_users_submit,)
