"""The database of this host's own MariaDB that slurmdbd writes to, and the database user that it is."""

from __future__ import annotations

import re
from typing import ClassVar

from slurmfab.agent import mariadb, replace
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active
from slurmfab.agent.slurmdbd_conf import PATH, password_in, present_password

UNIT, SLURMDBD = "mariadb", "slurmdbd"
QUESTIONS = """SELECT 'database' FROM information_schema.schemata WHERE schema_name = %s;
SELECT 'user' FROM mysql.user WHERE user = %s AND host = 'localhost';"""
IDENTIFIED = "ALTER USER %s IDENTIFIED VIA mysql_native_password USING %s ACCOUNT UNLOCK;"
ALL = re.compile(r"GRANT ALL PRIVILEGES ON (\S+)\.\* TO ")


class Storage(Resource):
    """A database, and a user with all rights on it who comes from this host with slurmdbd.conf's password.

    Args:
        database: its name (StorageLoc).
        user: the database user's name (StorageUser).
    """

    kind: ClassVar[str] = "storage"
    database: str
    user: str

    def name(self) -> str:
        """Database and user."""
        return "%s of %s" % (self.database, self.user)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Both are there, and slurmdbd gets in."""
        return {"database": "present", "user": "present", "grants": "all", "password": "accepted"}

    def actual(self, context: Context) -> State:
        """The same as the server says it; nothing before it is installed, and no more than that while it is down.

        Raises:
            ResourceFailed: the server runs and does not answer.
        """
        if not is_active(context, UNIT):
            if not context.dry_run:
                raise ResourceFailed("MariaDB does not run on this host; see: systemctl status %s" % UNIT)
            return dict.fromkeys(self.wanted(context), "unknown while MariaDB is down") if mariadb.is_here() else {}
        name, user = mariadb.quoted(self.database), mariadb.quoted(self.user)
        rows = mariadb.sql(context, QUESTIONS % (name, user))
        found = {row[0]: "present" for row in rows}
        password = password_in(replace.read(context.path(PATH)) or b"")
        if "user" in found:
            found["grants"] = self.grants(context)
            found["password"] = self.acceptance(password)
        if context.dry_run and found != self.wanted(context):
            # It may run, but whoever asks it has a new connection to the database opened, and is turned away.
            context.starting.add(SLURMDBD)
        return found

    def grants(self, context: Context) -> str:
        """Whether the user may do everything with the database, or what it may do."""
        rows = mariadb.sql(context, "SHOW GRANTS FOR %s@'localhost';" % mariadb.quoted(self.user))
        lines = [row[0] for row in rows]
        places = (ALL.match(line) for line in lines)
        meant = ("*", mariadb.identifier(self.database), mariadb.identifier(self.pattern))
        return "all" if any(place and place[1] in meant for place in places) else "not all"

    @property
    def pattern(self) -> str:
        """The database's name where `_` would stand for any letter, as it does in a grant."""
        return self.database.replace("_", "\\_")

    def acceptance(self, password: str) -> str:
        """Whether the server takes the password, or why not."""
        number, words = mariadb.login("localhost", 0, self.user, password, self.database)
        # Whom it knows, but who has no rights to that database yet, has come further than to the password.
        return "accepted" if number in mariadb.LET_IN else "refused: %s" % words

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make what is not there; a user that cannot get in gets slurmdbd.conf's password."""
        name, user = mariadb.identifier(self.database), "%s@'localhost'" % mariadb.quoted(self.user)
        statements = []
        if "database" in differing:
            # Names of accounts are compared without regard to case (https://slurm.schedmd.com/accounting.html).
            statements.append("CREATE DATABASE %s CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;" % name)
        if differing & {"user", "password"}:
            secret = mariadb.quoted(mariadb.password_hash(present_password(context)))
            statements.append("CREATE USER IF NOT EXISTS %s;" % user)
            statements.append(IDENTIFIED % (user, secret))
        if differing & {"user", "grants"}:
            statements.append("GRANT ALL PRIVILEGES ON %s.* TO %s;" % (mariadb.identifier(self.pattern), user))
        mariadb.sql(context, "\n".join(statements))
