"""A session takes the lock of its host; a module of its own, since who only asks for facts does not need it."""

from __future__ import annotations

import fcntl
import os
import time
from typing import Callable

from slurmfab.on_hosts.agent.core.host_lock import INTERRUPTED, Lock, LockHeld

PATIENCE = 20.0
"""Seconds to wait for an interrupted run: most steps are shorter, but a package manager may take minutes."""

WAITING = "waiting up to %.0f s for the last step of an interrupted run"


def take_lock(lock: Lock, path: str, who: str, tell: Callable[[str], None]) -> None:
    """Take the lock, in the name by which others know this session, once.

    Waits for the last step of an interrupted run, and tells so. Raises LockHeld if another session has the lock.
    """
    if lock.descriptor is not None:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        wait_for(descriptor, tell)
    except BaseException:
        os.close(descriptor)
        raise
    status = os.fstat(descriptor)
    lock.released_at = status.st_mtime if status.st_size else None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, who.encode())
    lock.descriptor = descriptor


def wait_for(descriptor: int, tell: Callable[[str], None]) -> None:
    """Lock an open file; LockHeld if a session has it that goes on, or an interrupted one for too long."""
    deadline = time.monotonic() + PATIENCE
    is_told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 500, 0).decode(errors="replace").strip()
        else:
            return
        if not holder.endswith(INTERRUPTED) or time.monotonic() > deadline:
            raise LockHeld(holder or "a run that has just started")
        if not is_told:
            tell(WAITING % PATIENCE)
            is_told = True
        time.sleep(0.1)
