"""What must hold of a cluster's database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slurmfab.clusterfile.addresses import is_address

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

_HIGHEST_PORT = 65535
_SLURMDBD = "accounting_storage/slurmdbd"
_SAID_BY_DATABASE = ("AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort")
_PARTITION_KEYS = ("qos", "allowaccounts", "allowqos", "denyaccounts", "denyqos")


def external_is_whole(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A database of somebody else's has an address and a password; of one of ours the host alone knows them."""
    database = cluster.database
    if database is None:
        return
    said = database.model_fields_set
    if database.external is None:
        for key in sorted({"password_file", "user"} & said):
            words = "it belongs to an external database; slurmfab's own has a user and a password of its own making"
            yield ("database", key), words
        return
    if "password_file" not in said or database.password_file is None:
        yield (
            ("database",),
            (
                "an external database needs the key password_file: a file of yours, mode 0600, with the password of "
                f'the database user "{database.user}"'
            ),
        )
    address, port = database.server
    if not is_address(address) or not 0 < port <= _HIGHEST_PORT:
        words = f'"{database.external}" is no address:port; write it as db.example.org, 10.0.0.9:3307 or [fd00::9]:3306'
        yield ("database", "external"), words


def database_is_where_no_jobs_run(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Jobs would take its memory; on a controller that is a compute node as well, it can be nowhere else."""
    if cluster.database and cluster.roles(cluster.database.host) in (("database", "compute"), ("database", "login")):
        kind = "a compute node, where jobs run" if cluster.database.host in cluster.compute_nodes else "a login host"
        yield (
            ("database", "host"),
            f'"{cluster.database.host}" is {kind}; the database belongs on a controller, or on a host of its own',
        )


def partitions_need_a_database(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmctld does not start with a partition's QOS that no slurmdbd knows, and without one there are no accounts."""
    if cluster.database or _setting(cluster, "AccountingStorageType").lower() == _SLURMDBD:
        return
    for number, partition in enumerate(cluster.partitions):
        for key in partition.settings:
            if key.lower() in _PARTITION_KEYS:
                yield (
                    ("partitions", number, "settings", key),
                    "it needs an accounting database; say where: database: HOST",
                )


def database_is_said_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Two words on where slurmdbd is would be one too many."""
    if cluster.database is None:
        return
    for key in cluster.slurm_conf:
        if key.lower() in {said.lower() for said in _SAID_BY_DATABASE}:
            yield ("slurm_conf", key), f"slurmfab writes {key} itself: the key database at the top says this"


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (
    external_is_whole,
    database_is_where_no_jobs_run,
    partitions_need_a_database,
    database_is_said_once,
)


def _setting(cluster: Cluster, key: str) -> str:
    return next((value or "" for name, value in cluster.slurm_conf.items() if name.lower() == key.lower()), "")
