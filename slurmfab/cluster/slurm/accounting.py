"""The files for accounting: slurmdbd.conf and MariaDB's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slurmfab.cluster.slurm.places import DBD_PORT
from slurmfab.cluster.slurm.platform import DEBIAN, Platform
from slurmfab.cluster.slurm.render import Settings, fill
from slurmfab.cluster.slurm.versions import SlurmVersion

LOG = "/var/log/slurm/slurmdbd.log"

DBD_PRIVATE = ("accounts", "events", "jobs", "reservations", "usage", "users")
"""The values of PrivateData that slurmdbd knows (slurmdbd.conf(5)); nodes and partitions are slurmctld's alone."""

CHUNK = 128  # InnoDB's buffer pool is a multiple of this, in MiB (innodb_buffer_pool_chunk_size)

SHARES = {"database": 2, "controller": 4, "compute": 16}
"""By role of the host: the buffer pool gets its memory divided by this; the highest divisor of all roles is used."""

SMALLEST_LOG, LARGEST_LOG = 64, 1024  # limits of InnoDB's redo log in MiB
LARGEST_POOL = 32 * 1024  # upper limit of the buffer pool in MiB; slurmdbd reads no larger job history at once


@dataclass(frozen=True)
class SlurmdbdConf:
    """The contents of slurmdbd.conf, without the password."""

    hostname: str  # the own hostname of slurmdbd's host (DbdHost)
    version: SlurmVersion
    storage_host: str  # address of the database server; `localhost` for one on the same host
    storage_port: int
    storage_user: str
    database: str
    slurm_user: str = "slurm"
    ipv6: bool = False  # whether slurmdbd uses IPv6 addresses too
    # the user's keys; they replace the lines that slurmfab would write, `None` leaves a line out
    own: Mapping[str, str | None] = field(default_factory=dict)
    private_data: tuple[str, ...] = ()  # what users see only their own of; slurmdbd has `DBD_PRIVATE` of it
    platform: Platform = DEBIAN
    tokens: str = ""  # AuthAltParameters, with the path of the key that proves tokens; empty for none


def slurmdbd_conf(conf: SlurmdbdConf) -> str:
    """The text of slurmdbd.conf; the agent adds the line with the password."""
    settings = Settings(conf.own)
    private = ",".join(one for one in conf.private_data if one in DBD_PRIVATE)
    files = {"log": LOG, "pid_files": conf.platform.pid_files(conf.version)}
    context = {"conf": conf, "port": DBD_PORT, "private_data": private, **files}
    lines = {"slurmdbd": settings.line, "ipv6": settings.line_with, "slurmdbd_rest": settings.rest}
    return fill("slurmdbd.conf", {**context, **lines})


def log_file(own: Mapping[str, str | None]) -> str:
    """The path of slurmdbd's log, by the user's keys of slurmdbd.conf; empty if it writes to syslog alone."""
    return {"logfile": LOG, **{key.lower(): value or "" for key, value in own.items()}}["logfile"]


def mariadb_settings(memory: int, roles: Sequence[str]) -> str:
    """The text of MariaDB's settings for slurmdbd on a host with so many MiB and with these roles."""
    pool = buffer_pool(memory, roles)
    return fill("mariadb.cnf", {"pool": pool, "log_file": redo_log(pool)})


def redo_log(pool: int) -> int:
    """MiB for InnoDB's redo log, which is allocated at once: a quarter of the buffer pool, within limits."""
    return min(max(SMALLEST_LOG, pool // 4), LARGEST_LOG)


def buffer_pool(memory: int, roles: Sequence[str]) -> int:
    """MiB for InnoDB's buffer pool: half of the memory of a dedicated host, less on a host with other roles.

    Slurm's accounting guide recommends 5 to 50% of the memory.

    >>> buffer_pool(64000, ("database",)), buffer_pool(64000, ("controller", "database"))
    (32000, 16000)

    Args:
        memory: the host's memory in MiB.
    """
    share = memory // max(SHARES.get(role, 1) for role in roles)
    return max(CHUNK, min(share, LARGEST_POOL) // CHUNK * CHUNK)
