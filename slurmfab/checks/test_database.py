"""The accounting database: slurmdbd and MariaDB with the files that are there, and the way to both closed to others."""

from __future__ import annotations

import pytest

from slurmfab.checks.drifted import Drifted
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.test_daemons import assert_is_current, assert_listens
from slurmfab.checks.wanted import deploy, units_of
from slurmfab.cluster import Cluster
from slurmfab.clusterfile.accounting import DATABASE_PORT
from slurmfab.plans.kinds_of_drift import CHANGED_FILE
from slurmfab.slurm.accounting import DBD_PORT

CONF = "/etc/slurm/slurmdbd.conf"
OWNER, MODE = "slurm", 0o600
LOCAL = ("127.", "::1", "[::1]", "::ffff:127.")


def test_slurmdbd_listens(database: CheckedHost) -> None:
    """slurmdbd listens on its port"""
    assert_listens(database, "slurmdbd", DBD_PORT)


def test_slurmdbd_has_its_file(database: CheckedHost) -> None:
    """slurmdbd runs with the file that is on the disk"""
    assert_is_current(database, "slurmdbd", "slurmdbd was started before the last change of")


def test_mariadb_has_its_settings(database: CheckedHost, cluster: Cluster) -> None:
    """MariaDB runs with the settings that are on the disk"""
    need_server(database, cluster)
    assert_is_current(database, "mariadb", "MariaDB was started before the last change of")


def test_password_is_slurms_alone(database: CheckedHost) -> None:
    """the file with the database's password is the slurm user's alone"""
    file = database.file(CONF)
    assert file.exists, f"there is no {CONF}. Repair: {deploy(database.name)}"
    if (file.user, file.group, file.mode) != (OWNER, OWNER, MODE):
        raise Drifted(
            CHANGED_FILE,
            f"{CONF} is {file.user}:{file.group} {file.mode:04o} instead of {OWNER}:{OWNER} {MODE:04o}, so slurmdbd "
            f"does not start with it, or others know the password. Repair: {deploy(database.name)}",
        )


def test_mariadb_is_local(database: CheckedHost, cluster: Cluster) -> None:
    """MariaDB is reached from its own host alone"""
    need_server(database, cluster)
    sockets = database.socket.get_listening_sockets()
    places = [one.removeprefix("tcp://") for one in sockets if one.startswith("tcp://")]
    exposed = exposures(places, DATABASE_PORT)
    assert not exposed, (
        f"MariaDB listens on {' and '.join(exposed)}, where other hosts reach it. Repair: look in /etc/mysql for a "
        f"bind-address in a file that sorts behind 60-slurmfab.cnf, remove it, and {deploy(database.name)}"
    )


def exposures(places: list[str], port: int) -> list[str]:
    """The places `ADDRESS:PORT` on this port that are not the host's own."""
    return [one for one in places if one.rpartition(":")[2] == str(port) and not one.startswith(LOCAL)]


def need_server(database: CheckedHost, cluster: Cluster) -> None:
    """Leave a check out where the server is not the cluster's."""
    if "mariadb" not in units_of(cluster, database.name):
        pytest.skip("the database is on a server that is not the cluster's.")
