"""Temporary directories of this program, of which none stays for long when a run is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def own_directory(kind: str) -> Iterator[Path]:
    """A context with a directory that only this user can enter, and that is removed at its end.

    Those of the same kind that killed runs have left are removed first. Raises OSError if none can be made.
    """
    prefix = f"slurmfab-{kind}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            lock = locked(left)
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    place, lock = made(prefix)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def made(prefix: str) -> tuple[Path, int]:
    """A new directory, and the descriptor with its lock; another one if a process took it for one that was left."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(BlockingIOError, FileNotFoundError):
            lock = locked(place)
            if place.exists():
                return place, lock
            os.close(lock)


def locked(directory: Path) -> int:
    """A descriptor with the lock of a directory; OSError if it is another user's, or a living process has the lock."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{directory} belongs to another user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
