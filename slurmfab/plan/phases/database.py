"""The accounting database: slurmdbd, and MariaDB unless it is external, on the host that the cluster file names."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.database.slurmdbd_conf import PATH, SlurmdbdConf
from slurmfab.agent.database.storage import MARIADB_UNIT, Storage
from slurmfab.agent.database.storage_login import StorageLogin
from slurmfab.agent.files.file import File
from slurmfab.agent.services.listening import Listening
from slurmfab.agent.services.service import Service
from slurmfab.inventory.accounting import Database
from slurmfab.plan.directories import log_directory, slurm_directory
from slurmfab.plan.plan_input import PlanInput
from slurmfab.slurm import accounting

SETTINGS = "/etc/mysql/mariadb.conf.d/60-slurmfab.cnf"
"""The file with slurmfab's settings of MariaDB."""

READY_SECONDS = 120
"""Seconds that slurmdbd gets until it listens: before, it creates its tables or converts them from an older version."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """A database that accepts slurmdbd's login, and slurmdbd; on other hosts, slurmdbd stopped if it runs.

    slurmdbd does not need a restart after one of MariaDB: it retries every few seconds.
    """
    database = plan_input.cluster.database
    if database is None:
        return ()
    if host != database.host:
        runs = host in plan_input.facts and plan_input.facts[host].services.get("slurmdbd") == "active"
        return (Service("slurmdbd", running=False),) if runs else ()
    return (
        slurm_directory(),
        log_directory(),
        *(server_elsewhere(plan_input, database) if database.external else server_here(plan_input, database)),
        Service("slurmdbd", watches=(PATH,)),
        Listening("slurmdbd", accounting.DBD_PORT, READY_SECONDS, accounting.LOG),
    )


def server_here(plan_input: PlanInput, database: Database) -> tuple[Resource, ...]:
    """MariaDB on slurmdbd's host, with settings for its memory, and slurmdbd.conf.

    The password is generated on the host and stays there.
    """
    pinned = plan_input.host(database.host)
    memory = pinned.hardware.RealMemory if pinned.hardware else 0
    return (
        File(SETTINGS, accounting.mariadb_settings(memory, plan_input.cluster.roles(database.host))),
        Service(MARIADB_UNIT, watches=(SETTINGS,)),
        SlurmdbdConf(slurmdbd_conf(plan_input, database, "localhost", 0)),
        Storage(database.name, database.user),
    )


def server_elsewhere(plan_input: PlanInput, database: Database) -> tuple[Resource, ...]:
    """A checked login at an external server, then slurmdbd.conf."""
    host, port = database.server
    password = plan_input.database_password
    return (
        StorageLogin(host, port, database.user, database.name, password),
        SlurmdbdConf(slurmdbd_conf(plan_input, database, host, port), password),
    )


def slurmdbd_conf(plan_input: PlanInput, database: Database, server: str, port: int) -> str:
    """The text of slurmdbd.conf, without the password.

    Args:
        plan_input: the cluster file, the lock and the facts.
        database: the database in the cluster file.
        server: address of the database server; `localhost` for one on the same host.
        port: TCP port of the server; 0 for the default.
    """
    hostname = plan_input.host(database.host).hostname
    version = plan_input.slurm_version
    return accounting.slurmdbd_conf(
        accounting.SlurmdbdConf(hostname, version, server, port, database.user, database.name, plan_input.uses_ipv6)
    )
