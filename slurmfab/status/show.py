"""`status`: one look at Slurm, told as a screen of text or as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab import atomic_file, inventory, operations
from slurmfab.errors import HostError
from slurmfab.status import snapshot, text
from slurmfab.status.cluster_state import Status
from slurmfab.status.snapshot import Snapshot

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.ssh.transport import Transport


def look(cluster: Cluster, transport: Transport, user: str = "") -> Status:
    """Ask the first controller that can be reached: one connection, one command.

    Args:
        cluster: the cluster.
        transport: the way to its controllers, of which the primary is asked first.
        user: whose limits to ask for, where there is a database that has them.
    """
    lost: dict[str, str] = {}
    has_database = cluster.database is not None
    for host in cluster.controllers:
        try:
            seen = snapshot.ask(transport, host, user=user if has_database else "")
            return Status(cluster.name, seen, lost, has_database)
        except HostError as error:
            lost[host] = str(error)
    return Status(cluster.name, Snapshot(), lost, has_database)


def show(cluster: str, user: str, output: operations.Output) -> int:
    """Tell how a cluster is.

    Args:
        cluster: the cluster file's path, empty for the default one.
        user: whose jobs to list, empty for nobody's.
        output: what else to tell.

    Returns:
        The exit code.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    run = operations.start(known, "", output, command="status")
    try:
        status = look(known.cluster, run.transport, user)
    finally:
        run.transport.close()
    told = json.dumps(status.as_json(user), indent=2) + "\n"
    if output.json == "-":
        sys.stdout.write(told)
    else:
        if output.json:
            atomic_file.write(Path(output.json), told)
        text.write(status, user, sys.stdout)
    return status.exit_code
