"""Whether an external database server accepts slurmdbd's login, tested before anything depends on it."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH, present_password

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

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The login is accepted."""
        return {"login": "accepted"}

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
