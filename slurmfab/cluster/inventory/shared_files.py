"""The cluster file and its lock on disk, compared, before they are written, under a lock that others cannot take."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from slurmfab.base import atomic_file, bounded_file, strict_json
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.hostlist import fold
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

MOST_BYTES = 64 << 20
"""Size of the largest cluster file or lock that is read; the lock of 65,536 nodes with four GPUs each is smaller."""

WAIT_SECONDS = 10.0  # seconds to wait for another process that writes the files, which takes it milliseconds

POLL_SECONDS = 0.02


@dataclass(frozen=True)
class FilesRead:
    """A cluster file and its lock as they were read."""

    # the bytes of the cluster file; `None` where there was none
    cluster: bytes | None = field(default=None, repr=False)
    lock: bytes | None = field(default=None, repr=False)  # the bytes of the lock; `None` where there was none
    read_at: float = field(default_factory=time.time)  # when they were read, in seconds since 1970

    @property
    def hosts(self) -> frozenset[str]:
        """The names of the hosts in the lock; none where it cannot be read."""
        with suppress(BrokenFile, TypeError, AttributeError):
            return frozenset(strict_json.parse(self.lock or b"{}", "").get("hosts", {}))
        return frozenset()


def lock_path(path: Path) -> Path:
    """The path of a cluster file's lock: `cluster.lock.json` beside `cluster.yaml`."""
    return path.with_name(f"{path.stem}.lock.json")


def existing(path: Path) -> list[str]:
    """The paths of a cluster file and its lock, of those that are there, be it as broken links."""
    return [str(one) for one in (path, lock_path(path)) if os.path.lexists(one)]


def read(path: Path) -> FilesRead:
    """Read a cluster file and its lock without judging them; InputError if one is there, but cannot be read."""
    read_at = time.time()
    return FilesRead(content(path), content(lock_path(path)), read_at)


def content(path: Path) -> bytes | None:
    """The bytes of a cluster file or a lock, `None` without one; InputError if unreadable, large or not regular."""
    try:
        return bounded_file.read(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def changes(path: Path, before: FilesRead, now: FilesRead) -> tuple[str, ...]:
    """How the files have changed since a run read them, a line for each; empty where they have not."""
    lines = [changed_text(path)] if now.cluster != before.cluster else []
    if now.lock != before.lock:
        came, went = sorted(now.hosts - before.hosts), sorted(before.hosts - now.hosts)
        parts = [f"{fold(came)} joined"] if came else []
        parts += [f"{fold(went)} left"] if went else []
        lines.append(f"{changed_text(lock_path(path))}{': ' if parts else ''}{' and '.join(parts)}")
    return tuple(lines)


def changed_text(path: Path) -> str:
    """That a file was changed, and when."""
    try:
        at = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    except OSError:
        return f"{path} was removed"
    return f"{path} was changed at {at:%Y-%m-%d %H:%M:%S}"


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """While in this context, no other process of this program writes a cluster file, its lock, or what belongs to them.

    Whoever can open a file or a directory can lock it (flock(2)), and so stop all others. So the lock is on the
    directory of the cluster's records, which those alone can open who may change the cluster file. A file system
    without locks (some network file systems) does not stop the work: the files are compared in any case. Raises
    InputError if a directory cannot be made or opened, or another process holds the lock for too long.
    """
    place = path.parent
    try:
        folder, name = atomic_file.opened_parent(path, through_link=True, make=True)
        folder.close()
        file = Path(folder.path, name)
        place = file.with_name(f"{file.stem}.runs")
        with atomic_file.opened_private(place, file) as records:
            descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=records.descriptor)
    except (OSError, ResourceFailed, BrokenFile) as error:
        why = error.strerror if isinstance(error, OSError) else error.reason if isinstance(error, BrokenFile) else error
        raise InputError(f"{place} cannot be used: {why}.") from error
    try:
        take(descriptor, place)
        yield
    finally:
        os.close(descriptor)


def take(descriptor: int, directory: Path) -> None:
    """Take the lock on an open directory; InputError if another process holds it for longer than this waits."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InputError(
                    f"{directory}: another process has locked this directory for {WAIT_SECONDS:.0f} s "
                    "(fuser -v shows which). Nothing was written there."
                ) from None
            time.sleep(POLL_SECONDS)
        except OSError:
            return  # no locks on this file system
        else:
            return
