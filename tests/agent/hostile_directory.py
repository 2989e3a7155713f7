"""A directory of another user, who exchanges what is in it while root works there."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OTHER = 65534
"""UID of the other user (nobody) where the tests run as root; elsewhere everybody may write to the directory."""

ROUNDS = 300
"""How often a step is repeated while another thread exchanges names."""


def give_away(directory: Path) -> Path:
    """Make a directory if it is missing, and let another user change it; return it."""
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(directory, OTHER, OTHER)
    else:
        directory.chmod(0o777)
    return directory


def state_of(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Owner, group, mode and content of a directory and of everything in it; changes nothing."""
    found = {}
    for path in (directory, *sorted(directory.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_uid, status.st_gid, status.st_mode, content)
    return found


def locks_met_by(directory: Path, user: int = OTHER, group: int = OTHER) -> list[str]:
    """What another user can open below a directory and finds locked there; whoever can open it could lock it first."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.chdir(directory)
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            for place, folders, files in os.walk("."):
                for name in (".", *folders, *files):
                    path = os.path.relpath(os.path.join(place, name))  # noqa: PTH118
                    with suppress(PermissionError):
                        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                        try:
                            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        except BlockingIOError:
                            os.write(writing, f"{path}\n".encode())
                        os.close(descriptor)
            os.write(writing, b"done")
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, encoding="utf-8") as found:
        *paths, end = found.read().split("\n")
    assert end == "done"
    return sorted(set(paths))


@contextmanager
def swapped(path: Path, target: Path) -> Iterator[None]:
    """A context in which a thread exchanges a path, again and again, with a link to the target and back."""
    away, ended = path.with_name(path.name + ".away"), threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for step in (
                lambda: path.rename(away),
                lambda: path.symlink_to(target),
                path.unlink,
                lambda: away.rename(path),
            ):
                with suppress(OSError):
                    step()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def insist(step: Callable[[], object], refusals: tuple[type[Exception], ...], rounds: int = ROUNDS) -> int:
    """Repeat a step, and return how often it succeeded; refusals are expected."""
    succeeded = 0
    for _ in range(rounds):
        try:
            step()
            succeeded += 1
        except refusals:
            pass
    return succeeded
