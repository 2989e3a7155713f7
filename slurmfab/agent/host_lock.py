"""The right to change this host, which one run has at a time."""

from __future__ import annotations

import os
import time
from typing import Optional

LOCK = "/run/slurmfab.lock"
"""Held while a session changes a host. Not below /run/lock, where any user could hold a file of this name."""

CUT_OFF = ", and cut off: this host still finishes what it was at"
"""Said after the name of a run whose deployer is gone."""


class Held(Exception):
    """Another session has the lock; the text says whose it is."""


class Lock:
    """The right to change this host, for one session at a time; it goes with the process that holds it (flock(2)).

    The file's text says who has it, and its time when somebody last let go of it.
    """

    def __init__(self) -> None:
        self.descriptor: Optional[int] = None
        self.before: Optional[float] = None
        self.is_cut_off = False

    def take(self, path: str, who: str) -> None:
        """Take the lock unless this session has it already.

        Args:
            path: the lock file.
            who: what others are told of this session.

        Raises:
            Held: another session has it.
        """
        if self.descriptor is not None:
            return
        import fcntl  # noqa: PLC0415 - facts do without it

        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 500).decode(errors="replace").strip()
            os.close(descriptor)
            raise Held(holder or "somebody who has just begun") from None
        seen = os.fstat(descriptor)
        self.before = seen.st_mtime if seen.st_size else None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, who.encode())
        self.descriptor = descriptor

    def idle(self) -> Optional[float]:
        """Seconds since another session let go of it; none when there was no other since the host was started."""
        return None if self.before is None else time.time() - self.before

    def cut_off(self) -> None:
        """Tell those who come later that this session's deployer is gone; safe in a signal handler."""
        if self.descriptor is not None and not self.is_cut_off:
            self.is_cut_off = True
            os.write(self.descriptor, CUT_OFF.encode())

    def let_go(self) -> None:
        """Note the time; the lock itself goes with the process."""
        if self.descriptor is not None:
            os.utime(self.descriptor)
