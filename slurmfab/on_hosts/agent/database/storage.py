"""slurmdbd's database and database user in this host's own MariaDB, and the login to another."""

from __future__ import annotations

import re
from typing import ClassVar

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH, password_in, present_password
from slurmfab.on_hosts.agent.services.service import is_active

MARIADB_UNIT, SLURMDBD_UNIT = "mariadb", "slurmdbd"
EXISTENCE_QUERIES = """SELECT 'database' FROM information_schema.schemata WHERE schema_name = %s;
SELECT 'user' FROM mysql.user WHERE user = %s AND host = 'localhost';"""
CHANGE_LOGIN = "ALTER USER %s IDENTIFIED VIA mysql_native_password USING %s ACCOUNT UNLOCK;"
ALL_PRIVILEGES = re.compile(r"GRANT ALL PRIVILEGES ON (\S+)\.\* TO ")


class Storage(Resource):
    """A database, and a local user with all privileges on it and slurmdbd.conf's password."""

    kind: ClassVar[str] = "storage"
    wanted_state: ClassVar[State] = {"database": "present", "user": "present", "grants": "all", "password": "accepted"}
    database: str  # its name (StorageLoc)
    user: str  # the database user (StorageUser)

    def name(self) -> str:
        """Database and user."""
        return "%s of %s" % (self.database, self.user)

    def actual(self, context: Context) -> State:
        """The same on the server; in a dry run empty or unknown without MariaDB, otherwise ResourceFailed."""
        if not is_active(context, MARIADB_UNIT):
            if not context.dry_run:
                raise ResourceFailed("MariaDB does not run on this host; see: systemctl status %s" % MARIADB_UNIT)
            return (
                dict.fromkeys(self.wanted(context), "unknown while MariaDB is stopped")
                if mariadb.is_installed()
                else {}
            )
        name, user = mariadb.quoted(self.database), mariadb.quoted(self.user)
        rows = mariadb.sql(context, EXISTENCE_QUERIES % (name, user))
        found = {row[0]: "present" for row in rows}
        password = password_in(replace.read(context.path(PATH)) or b"")
        if "user" in found:
            found["grants"] = self.grants(context)
            found["password"] = self.acceptance(password)
        if context.dry_run and found != self.wanted(context):
            # slurmdbd may run, but opens a new connection to the database for each query, which would be refused.
            context.starting.add(SLURMDBD_UNIT)
        return found

    def grants(self, context: Context) -> str:
        """`all` if the user has all privileges on the database, otherwise `not all`."""
        rows = mariadb.sql(context, "SHOW GRANTS FOR %s@'localhost';" % mariadb.quoted(self.user))
        lines = [row[0] for row in rows]
        places = (ALL_PRIVILEGES.match(line) for line in lines)
        meant = ("*", mariadb.identifier(self.database), mariadb.identifier(self.pattern))
        return "all" if any(place and place[1] in meant for place in places) else "not all"

    @property
    def pattern(self) -> str:
        """The database's name with `_` escaped, which stands for any letter in a grant."""
        return self.database.replace("_", "\\_")

    def acceptance(self, password: str) -> str:
        """`accepted` if the server accepts the password, otherwise its error."""
        number, error = mariadb.login("localhost", 0, self.user, password, self.database)
        # An error about the database, for missing privileges, comes after the password was accepted.
        return "accepted" if number in mariadb.LOGIN_ACCEPTED else "refused: %s" % error

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Create what is missing; a user whose login fails gets slurmdbd.conf's password."""
        name, user = mariadb.identifier(self.database), "%s@'localhost'" % mariadb.quoted(self.user)
        statements = []
        if "database" in differing:
            # Slurm needs a case-insensitive collation (https://slurm.schedmd.com/accounting.html).
            statements.append("CREATE DATABASE %s CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;" % name)
        if differing & {"user", "password"}:
            secret = mariadb.quoted(mariadb.password_hash(present_password(context)))
            statements.append("CREATE USER IF NOT EXISTS %s;" % user)
            statements.append(CHANGE_LOGIN % (user, secret))
        if differing & {"user", "grants"}:
            statements.append("GRANT ALL PRIVILEGES ON %s.* TO %s;" % (mariadb.identifier(self.pattern), user))
        mariadb.sql(context, "\n".join(statements))


ADVICE = {
    1044: "grant the user all privileges on that database",
    1045: "is the password in the password_file right, and may the user come from this host?",
    1130: "the server accepts no user from this host; create the user for its address",
    2002: "does the server run, and does it listen on that address and port?",
    2003: "does the server run, and does it listen on that address and port?",
    2005: "this host cannot resolve that name; use the address",
}
"""By error number (mysqld_error.h, errmsg.h)."""


class StorageLogin(Resource):
    """An external database server that accepts a user and password; there is nothing to converge."""

    kind: ClassVar[str] = "storage-login"
    wanted_state: ClassVar[State] = {"login": "accepted"}
    UNSHOWN = ("password",)
    host: str
    port: int
    user: str  # the database user (StorageUser)
    database: str  # the database's name (StorageLoc)
    password: str = ""
    kept: bool = False  # whether the password is the one in this host's slurmdbd.conf

    def name(self) -> str:
        """User and server."""
        return "%s@%s:%d" % (self.user, self.host, self.port)

    def actual(self, context: Context) -> State:
        """Whether the login is accepted, else ResourceFailed; empty in a dry run before slurmdbd is there."""
        if context.dry_run and not mariadb.is_installed():
            return {}
        password = self.kept_password(context) if self.kept else self.password
        number, error = mariadb.login(self.host, self.port, self.user, password, self.database)
        # slurmdbd creates a missing database if it has the privilege.
        if number in (0, mariadb.NO_SUCH_DATABASE):
            return {"login": "accepted"}
        advice = ADVICE.get(number, "see that server's own log")
        raise ResourceFailed(
            "the database server %s:%d refuses slurmdbd's login: %s (error %d); %s"
            % (self.host, self.port, error, number, advice)
        )

    def kept_password(self, context: Context) -> str:
        """The password in this host's slurmdbd.conf; ResourceFailed, with what to do, if there is none."""
        try:
            return present_password(context)
        except ResourceFailed:
            raise ResourceFailed(
                "the cluster file says database: {keep_password: true}, but %s has no password to keep. Put it into a "
                "file and name that: database: {password_file: FILE} instead of keep_password" % PATH
            ) from None

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Nothing: the login is tested again when slurmdbd is installed."""
