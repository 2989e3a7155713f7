"""Checks of the accounting database: slurmdbd and MariaDB have loaded their files, and others cannot reach them."""

from __future__ import annotations

import pytest

from slurmfab.base.paths import SLURMDBD_CONF
from slurmfab.cluster.inventory.accounting import DATABASE_PORT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.places import slurmdbd_port
from slurmfab.cluster.slurm.platform import wanted
from slurmfab.commands.checks.applies import DoesNotApply, Drifted
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.test_daemons import assert_is_current, assert_listens
from slurmfab.commands.checks.wanted import deploy, units_of
from slurmfab.core.impact.drift_kinds import CHANGED_FILE
from slurmfab.on_hosts.agent.services import database_waits as waits

MODE = 0o600
LOCAL = ("127.", "::1", "[::1]", "::ffff:127.")  # prefixes of loopback addresses


def test_slurmdbd_listens(database: CheckedHost, cluster: Cluster) -> None:
    """slurmdbd listens on its port"""
    assert_listens(database, "slurmdbd", slurmdbd_port(cluster.slurmdbd_conf))


def test_slurmdbd_has_its_file(database: CheckedHost) -> None:
    """slurmdbd has loaded the file on disk"""
    assert_is_current(database, "slurmdbd", "slurmdbd was started before the last change of")


def test_mariadb_has_its_settings(database: CheckedHost, cluster: Cluster) -> None:
    """MariaDB has loaded the settings on disk"""
    need_server(database, cluster)
    assert_is_current(database, "mariadb", "MariaDB was started before the last change of")


def test_password_is_slurms_alone(database: CheckedHost, cluster: Cluster) -> None:
    """only the slurm user can read the database password"""
    file, owner = database.file(SLURMDBD_CONF), cluster.slurm_user
    assert file.exists, f"there is no {SLURMDBD_CONF}. Repair: {deploy(database.name)}"
    # The mode gives the group nothing, so a file made by hand may have another one.
    if (file.user, file.mode) != (owner, MODE):
        raise Drifted(
            CHANGED_FILE,
            f"{SLURMDBD_CONF} is {file.user}:{file.group} {file.mode:04o} instead of {owner} {MODE:04o}, so "
            f"slurmdbd does not start with it, or others can read the password. Repair: {deploy(database.name)}",
        )


def test_mariadb_is_local(database: CheckedHost, cluster: Cluster) -> None:
    """MariaDB accepts connections only from its own host"""
    need_server(database, cluster)
    if cluster.database and not cluster.database.settings:
        raise DoesNotApply("the cluster file leaves MariaDB's settings to the site")
    sockets = database.socket.get_listening_sockets()
    places = [one.removeprefix("tcp://") for one in sockets if one.startswith("tcp://")]
    exposed = exposures(places, DATABASE_PORT)
    place = wanted(cluster, database.name).database_settings
    assert not exposed, (
        f"MariaDB listens on {' and '.join(exposed)}, which other hosts can reach. Repair: look for a bind-address in "
        f"a file that sorts after {place}, remove it, then run {deploy(database.name)}"
    )


def test_no_query_waits_for_a_lock(database: CheckedHost, cluster: Cluster) -> None:
    """no other session keeps slurmdbd's queries waiting in MariaDB"""
    need_server(database, cluster)
    if not database.service("mariadb").is_running:
        pytest.skip(f"mariadb does not run on {database.name}.")
    shown = database.ask("mariadb --batch --skip-column-names --execute=%s", waits.SESSIONS)
    cause, _, repair = waits.told(waits.rows_in(shown)).partition(". To end it: ")
    assert not cause, f"{cause}. Repair: {repair or 'see which session that is, and end it'}"


def exposures(places: list[str], port: int) -> list[str]:
    """The listening addresses `ADDRESS:PORT` on this port that other hosts can reach."""
    return [one for one in places if one.rpartition(":")[2] == str(port) and not one.startswith(LOCAL)]


def need_server(database: CheckedHost, cluster: Cluster) -> None:
    """Leave out the check if the database server is outside the cluster."""
    if "mariadb" not in units_of(cluster, database.name):
        raise DoesNotApply("the database runs on a server outside the cluster")
