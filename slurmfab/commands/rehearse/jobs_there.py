"""Whether the real cluster has jobs over which an archive is not restored without `--overwrite`."""

from __future__ import annotations

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.backup.restoring import overwrite_refusal, stored_jobs
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output


def has_jobs(known: Inventory, archive: Backup, output: Output) -> bool:
    """Ask the hosts of the state and the database; a cluster that does not tell counts as one with jobs."""
    controller = known.cluster.controller
    hosts = fold(dict.fromkeys((controller, *known.cluster.database_hosts)))
    run = session.start(known, hosts, output, RunOptions("rehearse", installs_python=False))
    try:
        with session.ending(run, tells=False):
            return bool(overwrite_refusal(archive, stored_jobs(run, archive), controller))
    except SlurmfabError:
        return True
