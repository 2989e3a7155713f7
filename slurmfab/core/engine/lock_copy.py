"""The controller's copy of the lock, kept at the end of runs."""

from __future__ import annotations

from slurmfab.base.errors import SlurmfabError
from slurmfab.core.engine import requests
from slurmfab.core.engine.actor import who
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.undo.lock_copy import LockCopy


def keep(run: Run) -> None:
    """Have the controller, which the run has claimed, keep the lock as the run leaves it; a failure is told."""
    files, host = run.inventory.files, run.controller
    if files is None or not files.lock or not run.remaining((host,)):
        return
    copy = LockCopy(run.inventory.cluster.name, run.id, who(), files.lock.decode())
    try:
        (outcome,) = requests.request_apply(run, host, (copy,), dry_run=False)
        reason = outcome.message if outcome.status == "failed" else ""
    except SlurmfabError as error:
        reason = str(error)
    if reason:
        run.progress.line(f"{host}: it did not keep a copy of the lock: {reason}")
