"""`status`: one look at Slurm, told as a screen of text or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab import atomic_file, inventory, operations
from slurmfab.errors import HostError
from slurmfab.status import snapshot, text
from slurmfab.status.cluster_state import Status
from slurmfab.status.snapshot import Snapshot

if TYPE_CHECKING:
    from slurmfab.ssh.transport import Transport


def look(name: str, controllers: Sequence[str], transport: Transport) -> Status:
    """Ask the first controller that can be reached: one connection, one command.

    Args:
        name: the cluster's.
        controllers: their names, the primary first.
        transport: the way to them.
    """
    lost: dict[str, str] = {}
    for host in controllers:
        try:
            return Status(name, snapshot.ask(transport, host), lost)
        except HostError as error:
            lost[host] = str(error)
    return Status(name, Snapshot(), lost)


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
        status = look(known.cluster.name, known.cluster.controllers, run.transport)
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
