"""The accounting database: MariaDB, its user and slurmdbd, on the host that the cluster file names."""

from __future__ import annotations

from slurmfab.agent.directory import Directory
from slurmfab.agent.file import File
from slurmfab.agent.listening import Listening
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.agent.slurmdbd_conf import PATH, SlurmdbdConf
from slurmfab.agent.storage import UNIT, Storage
from slurmfab.agent.storage_login import StorageLogin
from slurmfab.clusterfile.accounting import Database
from slurmfab.phases.slurm_conf import LOGS
from slurmfab.situation import Situation
from slurmfab.slurm import accounting

SETTINGS = "/etc/mysql/mariadb.conf.d/60-slurmfab.cnf"

READY_SECONDS = 120
"""How long slurmdbd may take until it answers: it makes its tables first, or brings those of an older version up."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """A database that lets slurmdbd in, and a slurmdbd that answers; and none on a host where it has been before.

    MariaDB comes first, for slurmdbd tries again every few seconds while it is away, and needs no restart after one.
    """
    database = situation.cluster.database
    if database is None:
        return ()
    if host != database.host:
        runs = host in situation.facts and situation.facts[host].services.get("slurmdbd") == "active"
        return (Service("slurmdbd", running=False),) if runs else ()
    return (
        Directory(LOGS, "slurm", "slurm", 0o755),
        *(server_elsewhere(situation, database) if database.external else server_here(situation, database)),
        Service("slurmdbd", watches=(PATH,)),
        Listening("slurmdbd", accounting.DBD_PORT, READY_SECONDS, accounting.LOG),
    )


def server_here(situation: Situation, database: Database) -> tuple[Resource, ...]:
    """MariaDB on the same host with settings for its memory; the password is made there and stays there."""
    pinned = situation.host(database.host)
    memory = pinned.hardware.RealMemory if pinned.hardware else 0
    return (
        File(SETTINGS, accounting.mariadb_settings(memory, situation.cluster.roles(database.host))),
        Service(UNIT, watches=(SETTINGS,)),
        SlurmdbdConf(slurmdbd_conf(situation, database, "localhost", 0)),
        Storage(database.name, database.user),
    )


def server_elsewhere(situation: Situation, database: Database) -> tuple[Resource, ...]:
    """A server of somebody else's; slurmdbd.conf is written when that has let us in."""
    host, port = database.server
    password = situation.database_password
    return (
        StorageLogin(host, port, database.user, database.name, password),
        SlurmdbdConf(slurmdbd_conf(situation, database, host, port), password),
    )


def slurmdbd_conf(situation: Situation, database: Database, server: str, port: int) -> str:
    """The text of slurmdbd.conf, without the password."""
    hostname = situation.host(database.host).hostname
    version = situation.slurm_version
    return accounting.slurmdbd_conf(
        accounting.SlurmdbdConf(hostname, version, server, port, database.user, database.name)
    )
