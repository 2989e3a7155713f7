"""The accounting database restored from a backup: loaded under a temporary name, then exchanged in one statement."""

from __future__ import annotations

import contextlib
import gzip
import tempfile
import zlib
from typing import BinaryIO, ClassVar, List, cast

from slurmfab.agent.backup.database import CLIENT_ENVIRONMENT, END_MARK, find_client
from slurmfab.agent.backup.staged_parts import is_done, mark_done, require
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.database import mariadb
from slurmfab.agent.services.service import is_active

COPY_BYTES = 1 << 20
TABLES_QUERY = "select table_name from information_schema.tables where table_schema = %s;"
LOADING, REPLACED = "%s_restoring", "%s_replaced"
"""Names of temporary databases used during a restore."""


class RestoredDatabase(Resource):
    """This host's database with exactly the tables of a backup.

    Args:
        database: its name.
        staged: path of the backup's part on this host.
        sha256: of that part.
    """

    kind: ClassVar[str] = "restored-database"
    deadline: ClassVar[float] = 86400.0
    database: str
    staged: str
    sha256: str

    def name(self) -> str:
        """The database."""
        return self.database

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The backup's tables."""
        return {"tables": "from the backup"}

    def actual(self, context: Context) -> State:
        """Whether the tables were restored; slurmdbd may have changed them since."""
        if is_done(context, self.staged, self.sha256):
            return self.wanted(context)
        return {"tables": "other" if self.tables(context, self.database) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Load the tables under a temporary name, then exchange all tables by one statement, which is atomic.

        Raises:
            ResourceFailed: slurmdbd runs, the part is damaged, or the server refuses; the database is unchanged.
        """
        if is_active(context, "slurmdbd"):
            raise ResourceFailed(
                "the database cannot be replaced while slurmdbd runs. Stop it: systemctl stop slurmdbd"
            )
        require(context, self.staged, self.sha256)
        names = (self.database, LOADING % self.database, REPLACED % self.database)
        ours, loading, replaced = map(mariadb.identifier, names)
        for name in (loading, replaced):
            mariadb.sql(context, "drop database if exists %s; create database %s;" % (name, name))
        self.load(context, names[1])
        old, new = self.tables(context, names[0]), self.tables(context, names[1])
        if not new:
            raise ResourceFailed("the backup holds no tables")
        mariadb.sql(context, "create database if not exists %s;" % ours)
        away = [(ours, mariadb.identifier(table), replaced) for table in old]
        here = [(loading, mariadb.identifier(table), ours) for table in new]
        moves = ["%s.%s to %s.%s" % (source, table, target, table) for source, table, target in away + here]
        mariadb.sql(context, "rename table %s;" % ", ".join(moves))
        mark_done(context, self.staged, self.sha256)
        mariadb.sql(context, "drop database %s; drop database %s;" % (loading, replaced))

    def load(self, context: Context, into: str) -> None:
        """Load the dump with the database client, and check that it was complete.

        Raises:
            ResourceFailed: the client fails, or the dump is incomplete.
        """
        import subprocess  # not every request needs it

        argv = [find_client("mariadb", "mysql"), "--batch", "--", into]
        last = b""
        with tempfile.TemporaryFile() as errors, gzip.open(context.path(self.staged), "rb") as text:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                env=CLIENT_ENVIRONMENT,
                start_new_session=True,
            )
            try:
                last = copy(cast(BinaryIO, text), cast(BinaryIO, process.stdin))
            except BrokenPipeError:
                pass  # the client's error is read below
            except (OSError, EOFError, zlib.error) as error:
                raise ResourceFailed("the backup is damaged: %s" % error) from error
            finally:
                with contextlib.suppress(BrokenPipeError):
                    cast(BinaryIO, process.stdin).close()
                code = process.wait()
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
        if code != 0:
            raise ResourceFailed("%s ended with exit code %d: %s" % (argv[0], code, " | ".join(lines[-2:])))
        if not last.endswith(END_MARK):
            raise ResourceFailed("the backup's database is incomplete: the end of the dump is missing")

    def tables(self, context: Context, database: str) -> List[str]:
        """The tables of a database; none if it does not exist."""
        return [row[0] for row in mariadb.sql(context, TABLES_QUERY % mariadb.quoted(database))]


def copy(source: BinaryIO, target: BinaryIO) -> bytes:
    """Copy a file object, and return its last bytes, as many as `END_MARK` has."""
    last = b""
    for piece in iter(lambda: source.read(COPY_BYTES), b""):
        target.write(piece)
        last = (last + piece)[-len(END_MARK) :]
    return last
