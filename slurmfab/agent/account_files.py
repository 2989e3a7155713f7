"""/etc/passwd and /etc/group as files, changed line by line under the lock that all programs of shadow(5) take."""

from __future__ import annotations

import fcntl
import os
import time
from typing import Callable, List

from slurmfab.agent import replace
from slurmfab.agent.resource import Context, ResourceFailed

LOCK_SECONDS = 15.0
"""How long lckpwdf(3) waits for the lock."""


def edit(context: Context, path: str, change: Callable[[List[str]], List[str]]) -> None:
    """Replace a file of passwd(5) or group(5) by what becomes of its lines.

    Args:
        context: the request's context.
        path: of the file.
        change: makes new fields of a line's fields.

    Raises:
        ResourceFailed: the lock is held for long.
    """
    path = context.path(path)
    descriptor = os.open(context.path("/etc/.pwd.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        wait_for_lock(descriptor)
        lines = (replace.read(path) or b"").decode("utf-8", "surrogateescape").rstrip("\n").split("\n")
        status = os.stat(path)
        text = "".join(":".join(change(line.split(":"))) + "\n" for line in lines)
        data = text.encode("utf-8", "surrogateescape")
        replace.put(path, data, status.st_uid, status.st_gid, status.st_mode & 0o7777)
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int, seconds: float = LOCK_SECONDS) -> None:
    """Take a lock on a whole file, as lockf(3) does.

    Raises:
        ResourceFailed: somebody else holds it for that long.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise ResourceFailed("/etc/.pwd.lock is held by another program for %.0f s" % seconds) from None
            time.sleep(0.1)
        else:
            return
