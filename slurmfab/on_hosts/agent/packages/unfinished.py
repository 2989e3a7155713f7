"""Packages that dpkg has not finished, and packages that apt may not change."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import List, Sequence

from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.packages import dpkg_status

SIGNS = (b" half-", b" unpacked\n", b" triggers-")
"""One of these is in a status file that has a package in such a state."""

SHOWN = 5  # how many packages a message names
LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")  # locks of dpkg and of programs that run it (fcntl(2))


def unfinished(root: str, status: bytes) -> str:
    """Up to five unfinished packages, as `tar half-configured`; none while a program holds dpkg's lock."""
    found = []
    if any(sign in status for sign in SIGNS):
        for paragraph in status.split(b"\n\n"):
            state = dpkg_status.field(b"\n" + paragraph, "Status").rpartition(" ")[2]
            if state in dpkg_status.UNFINISHED:
                found.append("%s %s" % (dpkg_status.field(b"\n" + paragraph, "Package"), state))
    if not found and any(name.isdecimal() for name in names(root.rstrip("/") + dpkg_status.JOURNAL)):
        found.append("dpkg's journal")
    return ", ".join(found[:SHOWN]) if found and not is_locked(root) else ""


def is_locked(root: str, locks: Sequence[str] = LOCKS) -> bool:
    """Whether a program holds a lock of the package manager below this root, because it installs something now."""
    layout = "hhqqi4x"  # struct flock (fcntl(2))
    question = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    for path in locks:
        try:
            with open(root.rstrip("/") + path, "rb") as file:
                answer = fcntl.fcntl(file, fcntl.F_GETLK, question)
        except OSError:
            continue
        if struct.unpack(layout, answer)[0] != fcntl.F_UNLCK:
            return True
    return False


def held(status: bytes) -> List[str]:
    """The packages that are held (apt-mark(8))."""
    paragraphs = (b"\n" + paragraph for paragraph in status.split(b"\n\n") if b"\nStatus: hold " in paragraph)
    return [dpkg_status.field(paragraph, "Package") for paragraph in paragraphs]
