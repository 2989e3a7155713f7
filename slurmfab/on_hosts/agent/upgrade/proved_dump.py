"""A dump of the accounting database, proved: loaded into a database of its own beside the original, and counted.

Sent from the deployer, so that the archive is proved to be readable as a whole, too.
"""

from __future__ import annotations

import glob
import os
import time
from typing import IO, TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Sequence, Tuple

from slurmfab.on_hosts.agent.backup.restored_database import TABLES_QUERY, RestoredDatabase, refuse_strange
from slurmfab.on_hosts.agent.backup.staged_parts import is_done, mark_done, require
from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.packages.bundle_making import temporary_directory
from slurmfab.on_hosts.agent.services import daemon_log
from slurmfab.on_hosts.agent.upgrade.offer import fetch, prepare

if TYPE_CHECKING:
    import subprocess


SETTINGS = """\
AuthType=auth/munge
DbdHost=localhost
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=%s
PluginDir=%s
PidFile=%s/slurmdbd.pid
"""
OWN_SETTINGS = "/etc/slurm/slurmdbd.conf"
KEPT = ("authinfo=",)  # how lines of the host's slurmdbd.conf begin that hold for this one, too: munged's socket

PLUGIN = "usr/lib*/**/accounting_storage_mysql.so"
STARTED = " started"
"""How the line ends that slurmdbd logs when it has converted its tables: `slurmdbd version 26.05.5 started`."""

POLL_SECONDS, END_SECONDS = 0.2, 60.0


def try_on(context: Context, database: str, packages: Sequence[str], source: Dict[str, str]) -> float:
    """Have the new slurmdbd, of all these packages, convert a copy; how many seconds that took.

    `source`: as of `slurmfab.on_hosts.agent.upgrade.offer`. Raises ResourceFailed, with slurmdbd's last words.
    """
    with temporary_directory(context) as place:
        root = os.path.join(place, "root")
        if source.get("manager") == "dnf":
            from slurmfab.on_hosts.agent.dnf import dnf_offer

            dnf_offer.unpack(context, packages, source, place, root)
        else:
            unpack(context, packages, source, place, root)
        plugins = [os.path.dirname(path) for path in glob.glob(os.path.join(root, PLUGIN), recursive=True)]
        if not plugins:
            raise ResourceFailed("the new packages have no accounting_storage_mysql.so")
        write_settings(context, place, database, plugins[0])
        return run(place, os.path.join(root, "usr/sbin/slurmdbd"), plugins[0])


def unpack(context: Context, packages: Sequence[str], source: Dict[str, str], place: str, root: str) -> None:
    """Download packages and unpack them below a root; ResourceFailed of apt."""
    options, _ = prepare(context, place, source)
    archives = os.path.join(place, "archives")
    fetch(context, options, packages, archives)
    for file in names(archives):
        if file.endswith(".deb"):
            context.must(["dpkg-deb", "--extract", os.path.join(archives, file), root])


def write_settings(context: Context, place: str, database: str, plugins: str) -> None:
    """Write its slurmdbd.conf, which it finds beside SLURM_CONF."""
    own = read_text(context.path(OWN_SETTINGS)).splitlines()
    kept = "".join(line + "\n" for line in own if line.lower().replace(" ", "").startswith(KEPT))
    descriptor = os.open(os.path.join(place, "slurmdbd.conf"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(SETTINGS % (database, plugins, place) + kept)


def run(place: str, program: str, plugins: str) -> float:
    """Run it until the database is converted, and how long that took; ResourceFailed if it ends before."""
    import subprocess  # not every request needs it
    import tempfile

    libraries = "%s:%s" % (plugins, os.path.dirname(plugins))
    environment = {"LD_LIBRARY_PATH": libraries, "SLURM_CONF": place + "/slurm.conf", "PATH": "/usr/bin:/bin"}
    argv = ["setpriv", "--pdeathsig", "TERM", "unshare", "--net", program, "-D"]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            while not any(line.endswith(STARTED) for line in lines_of(log)):
                if process.poll() is not None:
                    said = daemon_log.causes(lines_of(log)) or lines_of(log)[-daemon_log.MOST :]
                    raise ResourceFailed("it ended: %s" % (" | ".join(said) or "it left no message"))
                time.sleep(POLL_SECONDS)
            return time.monotonic() - begun
        finally:
            end(process)


def lines_of(log: IO[bytes]) -> List[str]:
    """The lines that it has written."""
    return os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace").splitlines()


def end(process: subprocess.Popen[bytes]) -> None:
    """End it, if it runs."""
    import subprocess

    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


PROOF = "%s_slurmfab_proof"  # the name of the database into which the dump is loaded; it exists as long as that takes

SPACE = (
    "select coalesce(sum(data_length + index_length), 0) from information_schema.tables where table_schema = %s;"
    " select @@datadir;"
)
MARGIN = 256 << 20  # bytes that have to stay free on the database's disk

COUNT = "select %s, count(*) from %s.%s;"
COUNT_SECONDS = 7200.0
PROVED = "loaded and counted"
NO_ROOM = "its conversion was not tried: there is no room for that beside it"


class ProvedDump(Resource):
    """A dump that has been loaded, with as many rows in each table as the original has.

    slurmdbd goes on writing meanwhile: a number between that before the dump and that of now is right.
    """

    kind: ClassVar[str] = "proved-dump"
    named_by: ClassVar[str] = "database"
    wanted_state: ClassVar[State] = {"dump": PROVED}
    deadline: ClassVar[float] = 86400.0
    database: str  # name of the original
    staged: str  # path of the dump on this host
    sha256: str
    before: Tuple[Tuple[str, int], ...] = ()  # rows of each table before the dump was made
    # `NAME=VERSION` of the new packages whose slurmdbd converts what was loaded; empty for none.
    packages: Tuple[str, ...] = ()
    # Where they come from: the words of `slurmfab.on_hosts.agent.upgrade.offer` with their values.
    source: Tuple[Tuple[str, str], ...] = ()

    def actual(self, context: Context) -> State:
        """Whether this dump was proved."""
        return {"dump": PROVED if is_done(context, self.staged, self.sha256) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Load the dump, count its rows, have the new slurmdbd convert it, and remove what was loaded.

        Raises:
            ResourceFailed: it cannot be loaded, has other tables or rows than the original, or cannot be converted.
            LeftAsItWas: there is no room for a second database.
        """
        require(context, self.staged, self.sha256)
        has_room = self.require_room(context)
        name = PROOF % self.database
        place = mariadb.identifier(name)
        mariadb.sql(context, "drop database if exists %s; create database %s;" % (place, place))
        try:
            RestoredDatabase(self.database, self.staged, self.sha256).load(context, name)
            refuse_strange(context, name)
            refuse_difference(dict(self.before), rows(context, name), rows(context, self.database))
            if self.packages:
                context.remark = self.tried(context, name) if has_room else NO_ROOM
        finally:
            mariadb.sql(context, "drop database if exists %s;" % place)
        mark_done(context, self.staged, self.sha256)

    def tried(self, context: Context, name: str) -> str:
        """How a conversion of the loaded database went; ResourceFailed if the new slurmdbd cannot be had or fails."""

        try:
            return "the new slurmdbd converted it in %.0f s" % try_on(context, name, self.packages, dict(self.source))
        except ResourceFailed as error:
            raise ResourceFailed("the new slurmdbd cannot convert a copy of the database: %s" % error) from error

    def require_room(self, context: Context) -> bool:
        """Whether a third copy of the database fits, for a conversion; LeftAsItWas if not even a second does."""
        import os

        (size,), (directory,) = mariadb.sql(context, SPACE % mariadb.quoted(self.database))
        space = os.statvfs(context.path(directory))
        needed, free = int(float(size)) + MARGIN, space.f_bavail * space.f_frsize
        if free < needed:
            text = "no room to load it: %s has %d MiB free, and %d MiB are needed"
            raise LeftAsItWas(text % (directory, free >> 20, needed >> 20))
        return free >= needed + int(float(size))


def read(request: Mapping[str, Any], context: Context) -> Dict[str, int]:
    """Rows of each table of the `database` of this host's server; ResourceFailed if it does not answer."""
    return rows(context, request["database"])


def rows(context: Context, database: str) -> Dict[str, int]:
    """The number of rows of each table."""
    tables = [row[0] for row in mariadb.sql(context, TABLES_QUERY % mariadb.quoted(database))]
    if not tables:
        return {}
    place = mariadb.identifier(database)
    queries = [COUNT % (mariadb.quoted(table), place, mariadb.identifier(table)) for table in tables]
    found: List[List[str]] = mariadb.sql(context, " ".join(queries), COUNT_SECONDS)
    return {table: int(number) for table, number in found}


def refuse_difference(before: Mapping[str, int], loaded: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Refuse, by ResourceFailed, a dump with other tables or rows than the original had around its time."""
    wrong = []
    for table in sorted({*loaded, *now}):
        if table not in loaded or table not in now:
            wrong.append("%s is only in the %s" % (table, "dump" if table in loaded else "database"))
            continue
        low, high = sorted((before.get(table, now[table]), now[table]))
        if not low <= loaded[table] <= high:
            wrong.append("%s has %d rows in the dump and %d in the database" % (table, loaded[table], now[table]))
    if not loaded or wrong:
        raise ResourceFailed("the dump differs from the database: %s" % ("; ".join(wrong[:3]) or "it has no tables"))
