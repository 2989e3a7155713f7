"""Whether a database server that is somebody else's lets slurmdbd in, found out before anything relies on it."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.agent import mariadb
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

WHAT_TO_TRY = {
    1044: "grant the user all privileges on that database",
    1045: "is the password in the password_file right, and may the user come from this host?",
    1130: "the server lets nobody in from this host; create the user for its address",
    2002: "does the server run, and does it listen on that address and port?",
    2003: "does the server run, and does it listen on that address and port?",
    2005: "does this host know that name? Otherwise give the address",
}
"""By error number (mysqld_error.h, errmsg.h)."""


class StorageLogin(Resource):
    """A database server elsewhere that accepts a user and password; there is nothing to converge.

    Args:
        host: its address.
        port: its port.
        user: as whom slurmdbd logs in (StorageUser).
        database: the database's name (StorageLoc).
        password: the user's.
    """

    kind: ClassVar[str] = "storage-login"
    UNSHOWN = ("password",)
    host: str
    port: int
    user: str
    database: str
    password: str = ""

    def name(self) -> str:
        """Who, and where."""
        return "%s@%s:%d" % (self.user, self.host, self.port)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """It lets slurmdbd in."""
        return {"login": "accepted"}

    def actual(self, context: Context) -> State:
        """Whether it does; unknown before the library is installed with slurmdbd.

        Raises:
            ResourceFailed: it does not, and why.
        """
        if context.dry_run and not mariadb.is_here():
            return {}
        number, words = mariadb.login(self.host, self.port, self.user, self.password, self.database)
        # slurmdbd makes a database that is not there yet, where it may.
        if number in (0, mariadb.NO_SUCH_DATABASE):
            return {"login": "accepted"}
        advice = WHAT_TO_TRY.get(number, "see that server's own log")
        raise ResourceFailed(
            "the database server %s:%d does not let slurmdbd in: %s (error %d); %s"
            % (self.host, self.port, words, number, advice)
        )

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Nothing: reading again, when slurmdbd is installed, tells."""
