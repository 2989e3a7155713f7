"""Rules about the accounting database."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.hostlist import HIGHEST_PORT
from slurmfab.base.ip_addresses import is_link_local
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.inventory.values import is_address

_SLURMDBD = "accounting_storage/slurmdbd"
_PARTITION_KEYS = ("qos", "allowaccounts", "allowqos", "denyaccounts", "denyqos")


def external_is_whole(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """An external database needs an address and one password; slurmfab's own needs neither."""
    database = cluster.database
    if database is None:
        return
    given = database.model_fields_set
    if database.external is None:
        for key in sorted({"password_file", "keep_password"} & given):
            reason = "it is only for an external database; the password of slurmfab's own database stays on its host"
            yield ("database", key), reason
        return
    if not database.settings:
        yield ("database", "settings"), "slurmfab never writes the settings of an external database; remove this key"
    if database.keep_password and database.password_file:
        yield ("database", "keep_password"), "the password comes from password_file; remove one of the two"
    if not database.keep_password and database.password_file is None:
        yield (
            ("database",),
            (
                "an external database needs the key password_file: a file here, mode 0600, with the password of "
                f'the database user "{database.user}"; or keep_password: true, if slurmdbd.conf on '
                f"{database.host} has it already"
            ),
        )
    address, port = database.server
    if is_link_local(address):
        yield ("database", "external"), f'"{database.external}" is an IPv6 address of one link; write another one'
    elif not is_address(address) or not 0 < port <= HIGHEST_PORT:
        reason = (
            f'"{database.external}" is not address:port; write it as db.example.org, 10.0.0.9:3307 or [fd00::9]:3306'
        )
        yield ("database", "external"), reason


def slurmdbd_conf_has_a_slurmdbd(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Only the host of slurmdbd has a slurmdbd.conf, and its port is a port."""
    if cluster.slurmdbd_conf and cluster.database is None:
        yield ("slurmdbd_conf",), "it needs an accounting database; set its host: database: HOST"
    for key, value in cluster.slurmdbd_conf.items():
        if key.lower() == "dbdport" and value and not (value.isdecimal() and 0 < int(value[:10]) <= HIGHEST_PORT):
            yield ("slurmdbd_conf", key), f'"{value}" is not a port; write a number from 1 to {HIGHEST_PORT}'


def database_is_where_no_jobs_run(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Jobs would take the database's memory; on a controller that is also a compute node it is allowed."""
    if cluster.database and cluster.roles(cluster.database.host) in (("database", "compute"), ("database", "login")):
        kind = "a compute node, where jobs run" if cluster.database.host in cluster.compute_nodes else "a login host"
        yield (
            ("database", "host"),
            f'"{cluster.database.host}" is {kind}; the database belongs on a controller, or on a host of its own',
        )


def partitions_need_a_database(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Without slurmdbd there are no QOS and accounts, and slurmctld does not start if a partition names one."""
    if cluster.database or _setting(cluster, "AccountingStorageType").lower() == _SLURMDBD:
        return
    for number, partition in enumerate(cluster.partitions):
        for key in partition.settings:
            if key.lower() in _PARTITION_KEYS:
                yield (
                    ("partitions", number, "settings", key),
                    "it needs an accounting database; set its host: database: HOST",
                )


RULES = (external_is_whole, slurmdbd_conf_has_a_slurmdbd, database_is_where_no_jobs_run, partitions_need_a_database)


def _setting(cluster: Cluster, key: str) -> str:
    return next((value or "" for name, value in cluster.slurm_conf.items() if name.lower() == key.lower()), "")
