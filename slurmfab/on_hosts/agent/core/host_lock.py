"""The lock of a host: only one run at a time may change it."""

from __future__ import annotations

import os
import time
from typing import Optional

LOCK = "/run/slurmfab.lock"
"""The lock file. Not below /run/lock, where any user could make and lock a file of this name."""

INTERRUPTED = "; that run was interrupted; this host is still completing its last step"
"""Added to the name of a run when its deployer has disconnected."""


class LockHeld(Exception):
    """Another session has the lock; the text is its name."""


class Lock:
    """The lock of this host (flock(2)) of one session's process; it has its name, and mtime of the last release."""

    def __init__(self) -> None:
        self.descriptor: Optional[int] = None
        self.released_at: Optional[float] = None
        self.is_interrupted = False

    def idle(self) -> Optional[float]:
        """Seconds since another session released it; `None` when no session had it since the host's boot."""
        return None if self.released_at is None else time.time() - self.released_at

    def note_interruption(self) -> None:
        """Write into the lock file that this session's deployer has disconnected; safe in a signal handler."""
        if self.descriptor is not None and not self.is_interrupted:
            self.is_interrupted = True
            os.write(self.descriptor, INTERRUPTED.encode())

    def note_release(self) -> None:
        """Set the mtime of the lock file; the kernel releases the lock when the process ends."""
        if self.descriptor is not None:
            os.utime(self.descriptor)
