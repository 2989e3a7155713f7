"""The accounting database from a backup, loaded beside the one that is there and exchanged with it in one step."""

from __future__ import annotations

import contextlib
import gzip
import tempfile
import zlib
from typing import BinaryIO, ClassVar, List, cast

from slurmfab.agent import mariadb
from slurmfab.agent.backup_database import END, client
from slurmfab.agent.resource import SYSTEM_PATH, Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active
from slurmfab.agent.staged_parts import done, is_done, require

PIECE = 1 << 20
TABLES = "select table_name from information_schema.tables where table_schema = %s;"
LOADING, REPLACED = "%s_restoring", "%s_replaced"
"""Names of databases that are there for as long as it takes."""


class RestoredDatabase(Resource):
    """The database of this host with the tables of a backup, and no others.

    Args:
        database: its name.
        staged: where the part of the backup lies on this host.
        sha256: of that.
    """

    kind: ClassVar[str] = "restored-database"
    database: str
    staged: str
    sha256: str

    def name(self) -> str:
        """The database."""
        return self.database

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """What the backup has."""
        return {"tables": "from the backup"}

    def actual(self, context: Context) -> State:
        """Whether it is that, or was before slurmdbd went on with it."""
        if is_done(context, self.staged, self.sha256):
            return self.wanted(context)
        return {"tables": "other" if self.tables(context, self.database) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Load the tables under another name, and then exchange them by one statement, which is done wholly or not.

        Raises:
            ResourceFailed: slurmdbd runs, the part is damaged, or the server refuses; the database is as before.
        """
        if is_active(context, "slurmdbd"):
            raise ResourceFailed("slurmdbd runs; its database cannot be replaced meanwhile: systemctl stop slurmdbd")
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
        done(context, self.staged, self.sha256)
        mariadb.sql(context, "drop database %s; drop database %s;" % (loading, replaced))

    def load(self, context: Context, into: str) -> None:
        """Have the client read the text, and see it come to its end.

        Raises:
            ResourceFailed: the client stops, or the text was cut off.
        """
        import subprocess  # noqa: PLC0415 - not every request needs it

        argv = [client("mariadb", "mysql"), "--batch", "--", into]
        environment = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
        last = b""
        with tempfile.TemporaryFile() as errors, gzip.open(context.path(self.staged), "rb") as text:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=errors, stderr=errors, env=environment, start_new_session=True
            )
            try:
                last = copy(cast(BinaryIO, text), cast(BinaryIO, process.stdin))
            except BrokenPipeError:
                pass  # the client says why
            except (OSError, EOFError, zlib.error) as error:
                raise ResourceFailed("the backup is damaged: %s" % error) from error
            finally:
                with contextlib.suppress(BrokenPipeError):
                    cast(BinaryIO, process.stdin).close()
                code = process.wait()
            errors.seek(0)
            words = errors.read().decode(errors="replace").strip().splitlines()
        if code != 0:
            raise ResourceFailed("%s ended with exit code %d: %s" % (argv[0], code, " | ".join(words[-2:])))
        if not last.endswith(END):
            raise ResourceFailed("the backup's database ends too early")

    def tables(self, context: Context, database: str) -> List[str]:
        """The tables of a database; none where there is no such database."""
        return [row[0] for row in mariadb.sql(context, TABLES % mariadb.quoted(database))]


def copy(source: BinaryIO, target: BinaryIO) -> bytes:
    """Copy a file, and return the last bytes of it."""
    last = b""
    for piece in iter(lambda: source.read(PIECE), b""):
        target.write(piece)
        last = (last + piece)[-len(END) :]
    return last
