"""Editing /etc/passwd and /etc/group under the lock that useradd(8), groupadd(8) and the like take."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Callable, Iterator, List

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

LOCK_SECONDS = 15.0  # how long to wait for the lock, as lckpwdf(3) does


def edit(context: Context, path: str, change: Callable[[List[str]], List[str]]) -> None:
    """Change lines of a file of passwd(5) or group(5) in one step; ResourceFailed if another has the lock."""
    with locked(context):
        path = context.path(path)
        lines = (replace.read(path) or b"").decode("utf-8", "surrogateescape").rstrip("\n").split("\n")
        status = os.stat(path)
        text = "".join(":".join(change(line.split(":"))) + "\n" for line in lines)
        data = text.encode("utf-8", "surrogateescape")
        replace.put(path, data, status.st_uid, status.st_gid, status.st_mode & 0o7777)


@contextlib.contextmanager
def locked(context: Context) -> Iterator[None]:
    """Hold the lock of all files of users and groups, subuid(5) too; ResourceFailed if another program has it."""
    descriptor = os.open(context.path("/etc/.pwd.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int, seconds: float = LOCK_SECONDS) -> None:
    """Lock a whole file as lockf(3); ResourceFailed if another program holds it for so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise ResourceFailed(
                    "another program has held the lock /etc/.pwd.lock for %.0f s. See which one: "
                    "lslocks. When it is done, run the same command again." % seconds
                ) from None
            time.sleep(0.1)
        else:
            return
