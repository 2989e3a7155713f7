"""Slurm's files for accounting: slurmdbd.conf, MariaDB's settings, and what slurm.conf says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurmfab.slurm.render import fill
from slurmfab.slurm.versions import SlurmVersion, pid_files

DBD_PORT = 6819
"""Where slurmdbd listens (DbdPort, slurmdbd.conf(5)): its default, said aloud."""

LOG = "/var/log/slurm/slurmdbd.log"

CHUNK = 128
"""MiB by which InnoDB's buffer pool grows (innodb_buffer_pool_chunk_size)."""

SHARES = {"database": 2, "controller": 4, "compute": 16}
"""By what the host is besides, most demanding last: which part of its memory is for the buffer pool."""

SMALLEST_LOG, LARGEST_LOG = 64, 1024
"""MiB of InnoDB's redo log."""

LARGEST_POOL = 32 * 1024
"""MiB; no history of jobs that slurmdbd looks through at once is larger."""


@dataclass(frozen=True)
class SlurmdbdConf:
    """Everything that slurmdbd.conf says, but for the password.

    Args:
        hostname: what slurmdbd's host calls itself.
        version: of the installed Slurm.
        storage_host: address of the database server, `localhost` for one on the same host.
        storage_port: its port.
        storage_user: as whom slurmdbd logs in.
        database: the database's name.
    """

    hostname: str
    version: SlurmVersion
    storage_host: str
    storage_port: int
    storage_user: str
    database: str


def slurmdbd_conf(conf: SlurmdbdConf) -> str:
    """The text of slurmdbd.conf; the line with the password is added where the password is known."""
    return fill("slurmdbd.conf", {"conf": conf, "port": DBD_PORT, "log": LOG, "pid_files": pid_files(conf.version)})


def mariadb_settings(memory: int, roles: Sequence[str]) -> str:
    """The text of MariaDB's settings for slurmdbd on a host.

    Args:
        memory: the host's, in MiB.
        roles: what the host is.
    """
    pool = buffer_pool(memory, roles)
    return fill("mariadb.cnf", {"pool": pool, "log_file": redo_log(pool)})


def redo_log(pool: int) -> int:
    """MiB for InnoDB's redo log: a quarter of the buffer pool, as far as that is worth its place on the disk.

    MariaDB allocates all of it at once; slurmdbd has nothing against 64 MiB.

    Args:
        pool: MiB of the buffer pool.
    """
    return min(max(SMALLEST_LOG, pool // 4), LARGEST_LOG)


def buffer_pool(memory: int, roles: Sequence[str]) -> int:
    """MiB for InnoDB's buffer pool: half of the memory of a host that is nothing else, less where others need it too.

    Slurm's guide to accounting wants 5 to 50% of the memory.

    >>> buffer_pool(64000, ("database",)), buffer_pool(64000, ("controller", "database"))
    (32000, 16000)

    Args:
        memory: the host's, in MiB.
        roles: what the host is.
    """
    share = memory // max(SHARES.get(role, 1) for role in roles)
    return max(CHUNK, min(share, LARGEST_POOL) // CHUNK * CHUNK)
