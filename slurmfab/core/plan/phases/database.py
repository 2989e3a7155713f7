"""The accounting database: slurmdbd, and MariaDB unless it is external, on the host that the cluster file names."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from slurmfab.base.paths import JWT_KEY, SLURM_LOGS
from slurmfab.cluster.inventory.accounting import Database
from slurmfab.cluster.slurm import accounting
from slurmfab.core.plan.directories import log_directory, slurm_directory, unguarded
from slurmfab.core.plan.phases import daemon_users, rest
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH, SlurmdbdConf
from slurmfab.on_hosts.agent.database.storage import MARIADB_UNIT, Storage, StorageLogin
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.services.listening import Listening
from slurmfab.on_hosts.agent.services.service import Service

READY_SECONDS = 120
"""Seconds that slurmdbd gets until it listens: before, it creates its tables or converts them from an older version."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """A database with slurmdbd's login, and slurmdbd, which retries by itself; elsewhere it is stopped."""
    database = plan_input.cluster.database
    if database is None:
        return ()
    if host != database.host:
        runs = host in plan_input.facts and plan_input.facts[host].services.get("slurmdbd") == "active"
        return (Service("slurmdbd", running=False),) if runs else ()
    own = plan_input.cluster.slurmdbd_conf
    directories = (
        slurm_directory(),
        log_directory(plan_input, host),
        *log_elsewhere(own, plan_input.slurm_owner(database.host)),
    )
    return (
        *(directories if plan_input.cluster.guard_directories else unguarded(directories)),
        *(server_elsewhere(plan_input, database) if database.external else server_here(plan_input, database)),
        *daemon_users.resources(plan_input, host, "slurmdbd"),
        Service("slurmdbd", watches=(PATH, *rest.watched(plan_input, host))),
        Listening("slurmdbd", accounting.port(own), READY_SECONDS, accounting.log_file(own)),
    )


def log_elsewhere(own: Mapping[str, str | None], owner: tuple[str, str]) -> tuple[Resource, ...]:
    """The directory of slurmdbd's log if the site has it elsewhere: made if missing, else as it is."""
    directory = posixpath.dirname(accounting.log_file(own))
    is_ours = directory in ("", SLURM_LOGS)
    return () if is_ours else (Directory(directory, *owner, 0o755, kept=True),)


def server_here(plan_input: PlanInput, database: Database) -> tuple[Resource, ...]:
    """MariaDB on slurmdbd's host, with settings unless it has its own, and slurmdbd.conf; the password stays there."""
    return (
        *(server_with_settings(plan_input, database) if database.settings else (Service(MARIADB_UNIT),)),
        SlurmdbdConf(slurmdbd_conf(plan_input, database, "localhost", 0), "", *plan_input.slurm_owner(database.host)),
        Storage(database.name, database.user),
    )


def server_with_settings(plan_input: PlanInput, database: Database) -> tuple[Resource, ...]:
    """MariaDB with slurmfab's settings; a change of these restarts it."""
    pinned, path = plan_input.host(database.host), plan_input.platform.database_settings
    memory = pinned.hardware.RealMemory if pinned.hardware else 0
    return (
        File(path, accounting.mariadb_settings(memory, plan_input.cluster.roles(database.host))),
        Service(MARIADB_UNIT, watches=(path,)),
    )


def server_elsewhere(plan_input: PlanInput, database: Database) -> tuple[Resource, ...]:
    """A checked login at an external server, then slurmdbd.conf."""
    host, port = database.server
    password = plan_input.database_password
    return (
        StorageLogin(host, port, database.user, database.name, password, database.keep_password),
        SlurmdbdConf(slurmdbd_conf(plan_input, database, host, port), password, *plan_input.slurm_owner(database.host)),
    )


def slurmdbd_conf(plan_input: PlanInput, database: Database, server: str, port: int) -> str:
    """The text of slurmdbd.conf without password; the server may be `localhost`, and port 0 is the default."""
    hostname = plan_input.host(database.host).hostname
    version = plan_input.slurm_of(database.host)
    cluster = plan_input.cluster
    values = (hostname, version, server, port, database.user, database.name, cluster.slurm_user, plan_input.uses_ipv6)
    own = (cluster.slurmdbd_conf, cluster.private_data, plan_input.platform, JWT_KEY if cluster.rest else "")
    return accounting.slurmdbd_conf(accounting.SlurmdbdConf(*values, *own))
