"""The lock of a cluster that was deployed, and is not there: where copies are, and putting one back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from slurmfab.base import atomic_file, surroundings
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory import shared_files
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import record
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.undo.lock_copy import PLACE

GIT_SECONDS = 5.0


class Copy(NamedTuple):
    """A copy of a lock."""

    lock: locks.Lock
    of: str  # what has it, such as `the record of 20261121T112423.829348Z-deploy by ann@laptop`


def is_missing(known: Inventory) -> bool:
    """Whether there is a cluster file, and no lock beside it."""
    return known.lock == locks.Lock() and known.files is not None and known.files.lock is None


def refuse(known: Inventory) -> None:
    """Refuse to go on without the lock of a cluster whose records show that there was one.

    Without it no host key is pinned, and a run would take every host for a new one. Raises InputError if there is a
    copy; the message says where, and how to put it back.
    """
    copy = newest_copy(known.path) if is_missing(known) else None
    if copy is None:
        return
    path = shared_files.lock_path(known.path)
    git = f" Git has one too: git checkout HEAD -- {path}." if is_in_git(path) else ""
    raise InputError(
        f"{path} is missing, and this cluster has been deployed. It has the SSH host keys by which slurmfab knows the "
        f"hosts, their hardware and the numbers of users. A copy is in {copy.of}. To put that back: {FAB} "
        f"restore-lock.{git} Nothing was changed on any host."
    )


def require_deployed(known: Inventory) -> None:
    """Refuse a cluster that was never deployed. Raises InputError if it was not, or its lock is missing."""
    refuse(known)
    if not known.lock.ids:
        raise InputError(f"{known.path} has never been deployed. First: {FAB} deploy.")


def refuse_present(cluster_file: Path) -> None:
    """Refuse to put back a lock that is there. Raises InputError if there is one."""
    path = shared_files.lock_path(cluster_file)
    if shared_files.content(path) is not None:
        raise InputError(f"{path} is there; nothing was changed.")


def no_copy(cluster_file: Path, controller: str) -> str:
    """The message that no record has the lock, with the places that may have it."""
    return (
        f"No record in {record.directory(cluster_file)} has a lock. {controller}, the controller, may have a copy: "
        f"{FAB} restore-lock --from-controller. Others may be in git, on the machine from which the cluster was "
        f"deployed, and in backups ({FAB} backup)."
    )


def put_back(cluster_file: Path, copy: Copy) -> int:
    """Write a copy of a missing lock, and print where it is from. Raises InputError if there is a lock meanwhile."""
    path = shared_files.lock_path(cluster_file)
    with shared_files.exclusively(cluster_file):
        refuse_present(cluster_file)
        locks.save(copy.lock, path)
    write(f"Wrote {path} as {copy.of} has it. See what has changed since then: {FAB} plan.", sys.stdout)
    return 0


def newest_copy(cluster_file: Path) -> Copy | None:
    """The lock in the newest record that has one; records that are broken have none."""
    for path in reversed(atomic_file.kept(record.directory(cluster_file), cluster_file)):
        try:
            stored = record.stored(path, cluster_file)
            if stored.lock is not None:
                lock = locks.parse(json.dumps(stored.lock).encode(), path)
                return Copy(lock, f"the record of {path.stem} by {stored.by}")
        except (OSError, BrokenFile, InputError):
            continue
    return None


def is_in_git(path: Path) -> bool:
    """Whether the last commit of the file's repository has it."""
    argv = surroundings.git(str(path.parent), "cat-file", "-e", f"HEAD:./{path.name}")
    environment = surroundings.git_environment()
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def refuse_kept(run: Run) -> None:
    """Refuse to go on without a lock if the controller, whose host key is known, has a copy of it.

    Raises InputError if it has one. Raises HostError if it does not answer.
    """
    host, path = run.controller, shared_files.lock_path(run.inventory.path)
    found = answer_value(host, run.transport.call(host, {"op": "lock-copy"}), "lock_copy")
    if found and found["cluster"] == run.inventory.cluster.name:
        raise InputError(
            f"{path} is missing, and this cluster has been deployed: {host} has a copy, since {found['run']} by "
            f"{found['by']}. To put that back: {FAB} restore-lock --from-controller. To begin anew on purpose, remove "
            f"{PLACE} on {host}. Nothing was changed on any host."
        )
