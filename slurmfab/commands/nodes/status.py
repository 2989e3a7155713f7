"""`fab status`: the state of Slurm as text or JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slurmfab.base.errors import HostError
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.status import snapshot, text
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.snapshot import Snapshot
from slurmfab.on_hosts.agent.slurm.reading import ENDED, LOST, OPEN, PARTS

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.hosts.transport import Transport


def ask_controllers(cluster: Cluster, transport: Transport, user: str = "") -> Status:
    """The state of Slurm, from the first controller that can be reached: one connection, one command.

    Args:
        transport: connects to its controllers; the primary is asked first.
        user: whose limits to include, if the cluster has an accounting database; empty for none.
    """
    lost: dict[str, str] = {}
    has_database = cluster.database is not None
    for host in cluster.controllers:
        try:
            parts = (*PARTS, LOST, ENDED, *([OPEN] if has_database else []))
            seen = snapshot.ask(transport, host, parts, user if has_database else "")
            return Status(cluster.name, seen, lost, has_database, user)
        except HostError as error:
            lost[host] = str(error)
    return Status(cluster.name, Snapshot(), lost, has_database, user)


def show(cluster: str, user: str, output: session.Output) -> int:
    """Print the state of a cluster, with the jobs of `user` (empty for none), or as JSON."""
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("status"))
    with session.ending(run, tells=False):
        status = ask_controllers(known.cluster, run.transport, user)
    output.write_json(status)
    if output.json != "-":
        text.write(status, user, sys.stdout)
    return status.exit_code
