"""The accounting database restored from a backup: loaded under a temporary name, then exchanged in one statement.

A dump is a program in SQL, and its client has commands of its own that run shells and read files. So the dump is loaded
by a database user that exists as long as that takes and may do nothing outside the temporary database, and the client
executes SQL alone. What is loaded must be tables like slurmdbd's; it is refused before anything is exchanged otherwise.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
import zlib
from typing import BinaryIO, ClassVar, List, Tuple, cast

from slurmfab.on_hosts.agent.backup.archive import unpacked_most
from slurmfab.on_hosts.agent.backup.database import END_MARK, find_client, option_file, start_client
from slurmfab.on_hosts.agent.backup.staged_parts import is_done, mark_done, require
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.services.service import is_active

COPY_BYTES = 1 << 20
TABLES_QUERY = "select table_name from information_schema.tables where table_schema = %s;"
LOADING, REPLACED = "%s_restoring", "%s_replaced"  # names of temporary databases used during a restore
LOADER = "slurmfab_restore"  # the database user that loads the dump; it exists as long as that takes

LOADER_PRIVILEGES = "SELECT, INSERT, CREATE, DROP, ALTER, INDEX, LOCK TABLES"
"""What a dump of tables needs. No other database, no file of the server, no view, trigger, procedure or event."""

SQL_ALONE = ("--binary-mode", "--loose-sandbox", "--local-infile=0")
"""For mariadb(1): no client commands such as `\\!`, `system` and `source`, and no files of this host. Clients before
10.11.8 know no sandbox and ignore the option, as its beginning says."""

STRANGE_QUERY = """select hex(table_name) from information_schema.tables where table_schema = %s and (
table_type <> 'BASE TABLE' or engine not in ('InnoDB', 'Aria', 'MyISAM') or create_options like '%%DIRECTORY%%'
or table_name not regexp '^[A-Za-z0-9_.$-]+$');"""
"""The names of what is no table as slurmdbd makes it."""


class RestoredDatabase(Resource):
    """This host's database with exactly the tables of a backup."""

    kind: ClassVar[str] = "restored-database"
    named_by: ClassVar[str] = "database"
    wanted_state: ClassVar[State] = {"tables": "from the backup"}
    deadline: ClassVar[float] = 86400.0
    database: str
    staged: str  # path of the backup's part on this host
    sha256: str  # of that part

    def actual(self, context: Context) -> State:
        """Whether the tables were restored; slurmdbd may have changed them since."""
        if is_done(context, self.staged, self.sha256):
            return self.wanted(context)
        return {"tables": "other" if self.tables(context, self.database) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Load tables under another name, then exchange all at once; ResourceFailed, database unchanged."""
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
        refuse_strange(context, names[1])
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
        """Load the dump as a user who may do nothing else; ResourceFailed if the client fails, or it is incomplete."""
        program, last = find_client("mariadb", "mysql"), b""
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(tempfile.TemporaryFile())
            text = stack.enter_context(gzip.open(context.path(self.staged), "rb"))
            options, descriptors = loader(stack, context, into)
            process = start_client([program, *options, "--batch", *SQL_ALONE, "--", into], descriptors, errors)
            try:
                most = unpacked_most(os.stat(context.path(self.staged)).st_size)
                last = copy(cast(BinaryIO, text), cast(BinaryIO, process.stdin), most)
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
            raise ResourceFailed("%s ended with exit code %d: %s" % (program, code, " | ".join(lines[-2:])))
        if not last.endswith(END_MARK):
            raise ResourceFailed("the backup's database is incomplete: the end of the dump is missing")

    def tables(self, context: Context, database: str) -> List[str]:
        """The tables of a database; none if it does not exist."""
        return [row[0] for row in mariadb.sql(context, TABLES_QUERY % mariadb.quoted(database))]


def copy(source: BinaryIO, target: BinaryIO, most: int) -> bytes:
    """Copy a file object, and return its last bytes, `len(END_MARK)`; EOFError beyond `most` bytes."""
    last, left = b"", most
    for piece in iter(lambda: source.read(COPY_BYTES), b""):
        left -= len(piece)
        if left < 0:
            raise EOFError("it would become more than %d bytes" % most)
        target.write(piece)
        last = (last + piece)[-len(END_MARK) :]
    return last


def loader(stack: contextlib.ExitStack, context: Context, database: str) -> Tuple[List[str], Tuple[int, ...]]:
    """Make the database user that loads a dump into this database, until the stack ends.

    Returns the client's options, and the descriptors that it inherits. Raises ResourceFailed if the server refuses.
    """
    user, password = "%s@'localhost'" % mariadb.quoted(LOADER), os.urandom(24).hex()
    removal = "DROP USER IF EXISTS %s;" % user
    secret = mariadb.quoted(mariadb.password_hash(password))
    # In a grant, `_` stands for any letter.
    place = mariadb.identifier(database.replace("_", "\\_"))
    stack.callback(mariadb.sql, context, removal)
    mariadb.sql(
        context,
        "%s CREATE USER %s IDENTIFIED VIA mysql_native_password USING %s; GRANT %s ON %s.* TO %s;"
        % (removal, user, secret, LOADER_PRIVILEGES, place, user),
    )
    descriptor = option_file(stack, '[client]\nuser="%s"\npassword="%s"\n' % (LOADER, password))
    return ["--defaults-extra-file=/proc/self/fd/%d" % descriptor, "--protocol=socket"], (descriptor,)


def refuse_strange(context: Context, database: str) -> None:
    """Refuse what slurmdbd does not make, by ResourceFailed: views, sequences, tables elsewhere, other letters."""
    rows = mariadb.sql(context, STRANGE_QUERY % mariadb.quoted(database))
    if rows:
        name = bytes.fromhex(rows[0][0]).decode(errors="replace")
        raise ResourceFailed("the backup's database holds %r, which is no table of slurmdbd" % name[:80])
