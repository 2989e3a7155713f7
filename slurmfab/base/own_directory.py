"""Temporary directories of this program, of which none stays for long when a run is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.base.foreign import Trusted, caller, is_own_group, why_not_own


@contextmanager
def own_directory(kind: str) -> Iterator[Path]:
    """A context with a directory that only this user can enter, and that is removed at its end.

    Those of the same kind that killed runs have left are removed first. Raises OSError if none can be made, and
    InputError where others could put their own in its place, as by a TMPDIR of theirs.
    """
    prefix, above = f"slurmfab-{kind}-", Path(tempfile.gettempdir())
    own = Trusted(frozenset({0, os.geteuid(), caller()}), None)
    why = why_not_own(above, own)
    # Who is in a group takes a look at all users, and the usual place needs none.
    if why and is_own_group(above.stat()):
        why = why_not_own(above, own._replace(group=above.stat().st_gid))
    if why:
        raise InputError(
            f"The directory of temporary files, {above}, is not safe: {why}. Set TMPDIR to one of yours, or to /tmp."
        )
    for left in above.glob(f"{prefix}*"):
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
    """A descriptor with the lock of a directory; OSError if it is not as ours are, or a living process has the lock.

    A directory with another mode may be one of this user's own, which somebody who could write to it has moved here.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
            raise PermissionError(f"{directory} was not made by slurmfab for this user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
