"""The conversion of the accounting database, tried on a copy: by the new slurmdbd, which is fetched and not installed.

The copy is the database into which the dump of the backup was loaded. That slurmdbd has no network, so nobody can talk
to it, nor it to slurmctld; it reaches the database server and munged by their sockets.
"""

from __future__ import annotations

import glob
import os
import time
from typing import IO, TYPE_CHECKING, Dict, List, Sequence

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.packages.bundle_making import temporary_directory
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

PLUGIN = "usr/lib/*/*/accounting_storage_mysql.so"
STARTED = " started"
"""How the line ends that slurmdbd logs when it has converted its tables: `slurmdbd version 26.05.5 started`."""

POLL_SECONDS, END_SECONDS = 0.2, 60.0


def try_on(context: Context, database: str, packages: Sequence[str], source: Dict[str, str]) -> float:
    """Have the new slurmdbd, of all these packages, convert a copy; how many seconds that took.

    `source`: as of `slurmfab.on_hosts.agent.upgrade.offer`. Raises ResourceFailed, with slurmdbd's last words.
    """
    with temporary_directory(context) as place:
        options, _ = prepare(context, place, source)
        archives, root = (os.path.join(place, name) for name in ("archives", "root"))
        fetch(context, options, packages, archives)
        for file in names(archives):
            if file.endswith(".deb"):
                context.must(["dpkg-deb", "--extract", os.path.join(archives, file), root])
        plugins = [os.path.dirname(path) for path in glob.glob(os.path.join(root, PLUGIN))]
        if not plugins:
            raise ResourceFailed("the new packages have no accounting_storage_mysql.so")
        write_settings(context, place, database, plugins[0])
        return run(place, os.path.join(root, "usr/sbin/slurmdbd"), plugins[0])


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
                    said = [line for line in lines_of(log) if "error" in line or "fatal" in line] or lines_of(log)
                    raise ResourceFailed("it ended: %s" % (" | ".join(said[-3:]) or "it left no message"))
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
