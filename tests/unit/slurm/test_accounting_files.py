"""slurmdbd.conf and MariaDB's settings, by version and by host."""

from __future__ import annotations

import pytest

from slurmfab.cluster.slurm.accounting import (
    LOG,
    SlurmdbdConf,
    buffer_pool,
    log_file,
    mariadb_settings,
    redo_log,
    slurmdbd_conf,
)
from slurmfab.cluster.slurm.places import DBD_PORT, slurmdbd_port
from slurmfab.cluster.slurm.versions import SlurmVersion


@pytest.mark.parametrize(
    ("memory", "roles", "pool"),
    [
        (64000, ("database",), 32000),
        (64000, ("controller", "database"), 16000),
        (64000, ("controller", "database", "compute"), 3968),
        (1024, ("controller", "database"), 256),
        (400, ("database",), 128),
        (0, ("database",), 128),
        (1000000, ("database",), 32768),
    ],
)
def test_the_buffer_pool_leaves_memory_to_what_else_the_host_does(
    memory: int, roles: tuple[str, ...], pool: int
) -> None:
    assert buffer_pool(memory, roles) == pool


@pytest.mark.parametrize(("pool", "log"), [(128, 64), (1024, 256), (32768, 1024)])
def test_the_redo_log_is_a_quarter_of_the_pool_within_bounds(pool: int, log: int) -> None:
    assert redo_log(pool) == log


def test_settings_are_those_that_slurmdbd_asks_for() -> None:
    lines = mariadb_settings(16000, ("database",)).splitlines()
    assert "innodb_buffer_pool_size = 7936M" in lines
    assert "innodb_log_file_size = 1024M" in lines
    assert "innodb_lock_wait_timeout = 900" in lines
    assert "loose_innodb_snapshot_isolation = OFF" in lines
    assert "bind-address = 127.0.0.1" in lines


@pytest.mark.parametrize("version", [(22, 5), (24, 11)])
def test_slurmdbd_conf_has_no_password_and_a_pid_file_that_slurm_may_write(version: tuple[int, int]) -> None:
    text = slurmdbd_conf(SlurmdbdConf("db01", SlurmVersion(*version), "localhost", 0, "slurm", "slurm_acct_db"))
    assert "PidFile=/run/slurmdbd/slurmdbd.pid\n" in text
    assert "DbdHost=db01\n" in text
    assert "StoragePort" not in text
    assert "StoragePass" not in text


def test_keys_of_the_site_replace_lines_and_follow_them() -> None:
    own = {"dbdport": "7019", "DebugLevel": None, "PurgeJobAfter": "12months", "ArchiveDir": "/srv/archive"}
    conf = SlurmdbdConf("c1", SlurmVersion(24, 11), "localhost", 0, "slurm", "slurm_acct_db", own=own)
    lines = slurmdbd_conf(conf).splitlines()
    assert "DbdPort=7019" in lines
    assert "# DebugLevel is left to Slurm, as the cluster file wants it." in lines
    assert lines.index("ArchiveDir=/srv/archive") + 1 == lines.index("PurgeJobAfter=12months")
    assert (slurmdbd_port(own), slurmdbd_port({}), log_file({"LogFile": None}), log_file({})) == (
        7019,
        DBD_PORT,
        "",
        LOG,
    )


def test_an_option_of_ours_joins_those_of_the_site() -> None:
    own = {"CommunicationParameters": "keepaliveinterval=30"}
    conf = SlurmdbdConf("c1", SlurmVersion(24, 11), "localhost", 0, "slurm", "slurm_acct_db", ipv6=True, own=own)
    assert "CommunicationParameters=EnableIPv6,keepaliveinterval=30" in slurmdbd_conf(conf).splitlines()


def test_an_external_server_has_its_port() -> None:
    text = slurmdbd_conf(SlurmdbdConf("c1", SlurmVersion(24, 11), "db.example.org", 3307, "acct", "history"))
    assert "StorageHost=db.example.org\nStoragePort=3307\nStorageLoc=history\nStorageUser=acct\n" in text
