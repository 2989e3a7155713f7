"""The accounting database: slurmdbd, and MariaDB unless it is external, on the host that the cluster file names."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping

from slurmfab.base.errors import DeployFailed
from slurmfab.base.paths import JWT_KEY, SLURM_LOGS
from slurmfab.cluster.inventory.accounting import Database
from slurmfab.cluster.slurm import accounting
from slurmfab.cluster.slurm.meaning import is_same_setting
from slurmfab.cluster.slurm.places import slurmdbd_port
from slurmfab.core.impact.slurm_diff import PARTITION_LINE, SETTING
from slurmfab.core.plan.directories import log_directory, slurm_directory, unguarded
from slurmfab.core.plan.phases import daemon_users, rest
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.client.commands import PARTITION
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH, SlurmdbdConf
from slurmfab.on_hosts.agent.database.storage import MARIADB_UNIT, Storage, StorageLogin
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.services.listening import Listening
from slurmfab.on_hosts.agent.services.service import Service

READY_SECONDS = 120
"""Seconds that slurmdbd gets until it listens: before, it creates its tables or converts them from an older version."""

SLURMDBD = "accounting_storage/slurmdbd"  # the AccountingStorageType of clusters with a slurmdbd

PLACE = ("accountingstoragetype", "accountingstoragehost")
"""The keys that select the slurmdbd, in lower case as in parsed files."""

KNOWN_TO_SLURMDBD = ("QOS", "AllowAccounts", "AllowQos", "DenyAccounts", "DenyQos")
"""The keys of a partition whose values slurmdbd must know first: accounts and QOS (slurm.conf(5))."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """A database that accepts slurmdbd's login, and slurmdbd; on other hosts, slurmdbd stopped if it runs.

    slurmdbd needs no restart after one of MariaDB: it tries again every few seconds.
    """
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
        Listening("slurmdbd", slurmdbd_port(own), READY_SECONDS, accounting.log_file(own)),
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
    pinned, path = plan_input.host(database.host), plan_input.platform_of(database.host).database_settings
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
    platform = plan_input.platform_of(database.host)
    more = next((value for key, value in cluster.slurm_conf.items() if key.lower() == "authaltparameters"), None)
    tokens = ",".join((f"jwt_key={JWT_KEY}", *((more,) if more else ()))) if cluster.rest else ""
    own = (cluster.slurmdbd_conf, cluster.private_data, platform, tokens)
    return accounting.slurmdbd_conf(accounting.SlurmdbdConf(*values, *own))


def joins_accounting(plan_input: PlanInput) -> bool:
    """Whether the new slurm.conf connects an existing slurmctld to another slurmdbd than its actual slurm.conf does.

    From Slurm 24.11, slurmdbd gives each cluster an ID, and slurmctld stores it beside the cluster's name in its state
    directory. A slurmctld with an ID from another slurmdbd exits with CLUSTER ID MISMATCH. Without a slurm.conf on the
    controller the answer is no: a stored ID then belongs to some other cluster, and slurmctld has to report it.
    """
    wanted = plan_input.conf_wanted.settings
    changes = any(
        not is_same_setting(key, plan_input.setting_before(key), wanted.get(key, ""), plan_input.is_same_host)
        for key in PLACE
    )
    has_worked = bool(plan_input.controller_facts.slurm_conf)
    return has_worked and changes and wanted.get(PLACE[0]) == SLURMDBD


def needs_slurmdbd(plan_input: PlanInput) -> bool:
    """Whether slurmdbd must run, and know all accounts and QOS, before the new slurm.conf is installed.

    It must for the first slurm.conf, for changes of AccountingStorage keys, and for partitions that are added or name
    other accounts or QOS. In other cases slurmctld works without slurmdbd until that is back.
    """
    if plan_input.cluster.database is None or plan_input.files_stay:
        return False
    return not plan_input.controller_facts.slurm_conf or any(
        one.name.startswith("AccountingStorage")
        if one.kind == SETTING
        else one.kind == PARTITION_LINE and one.name != PARTITION and (one.is_added or one.key in KNOWN_TO_SLURMDBD)
        for one in plan_input.differences
    )


def require_slurmdbd(plan_input: PlanInput, failed: Collection[str]) -> None:
    """Stop, by DeployFailed, if slurmdbd's host failed while the new slurm.conf makes slurmctld depend on it."""
    lost = [host for host in plan_input.cluster.database_hosts if host in failed]
    if lost and needs_slurmdbd(plan_input):
        raise DeployFailed(
            f"{lost[0]} is the host of the accounting database, and the new slurm.conf relies on what slurmdbd knows. "
            "So it was left as it is, and nothing else was started."
        )
