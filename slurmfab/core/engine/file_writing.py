"""The cluster file and the lock on this machine: written under the claim on the cluster, and over nobody's change."""

from __future__ import annotations

from dataclasses import replace

from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory import schema_file, shared_files
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.shared_files import FilesRead
from slurmfab.core.engine import changed_files, requests
from slurmfab.core.engine.run import Run


def save_lock(run: Run, lock: Lock | None = None) -> None:
    """Write the lock file (the run's own lock by default), under the claim, if it has changed.

    Raises FilesChanged if somebody else has changed it; SlurmfabError for another run; InputError if unwritable.
    """
    put(run, None, run.inventory.lock if lock is None else lock)


def write(run: Run, text: str, lock: Lock | None = None) -> None:
    """Write the cluster file and the lock, as far as they have changed; as `save_lock`, and raising the same."""
    put(run, text, run.inventory.lock if lock is None else lock)


def put(run: Run, text: str | None, lock: Lock) -> None:
    """Write the lock, and the cluster file unless its text is `None`; see `write`."""
    path = run.inventory.path
    schema_file.renew(path, lock)
    before = run.inventory.files or shared_files.read(path)
    wanted = FilesRead(before.cluster if text is None else text.encode(), locks.text_of(lock).encode())
    if (wanted.cluster, wanted.lock) == (before.cluster, before.lock):
        return
    requests.require_claim(run)
    with shared_files.exclusively(path):
        now = shared_files.read(path)
        # An edit of the cluster file does not matter to who writes the lock alone.
        changed_files.refuse_difference(run, before, replace(now, cluster=before.cluster) if text is None else now)
        locks.save(lock, shared_files.lock_path(path))
        if text is not None:
            writing.write(path, text)
        run.note_files(replace(wanted, cluster=before.cluster if text is None else wanted.cluster))
