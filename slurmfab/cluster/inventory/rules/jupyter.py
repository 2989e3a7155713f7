"""Rules about notebooks in the browser."""

from __future__ import annotations

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Complaints


def the_hub_is_where_users_submit(cluster: Cluster) -> Complaints:
    """It proves logins of the cluster's users and submits their jobs."""
    host = cluster.jupyter.host if cluster.jupyter else ""
    if host and not {"controller", "login"} & set(cluster.roles(host)):
        yield ("jupyter", "host"), f'"{host}" is neither a controller nor a login host of this cluster'
