"""A daemon that has come so far that it listens on its port."""

from __future__ import annotations

import os
import time
from typing import ClassVar, List

from slurmfab.agent.reading import read_text
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import complaints, is_active

LISTEN = "0A"
"""The state of a listening socket (/proc/net/tcp, proc(5))."""

POLL_SECONDS = 0.2


class Listening(Resource):
    """A TCP port on which a unit's daemon listens, waited for and not made.

    slurmdbd listens when its database answers and its tables are there, and not before.

    Args:
        unit: the daemon's.
        port: its port.
        seconds: how long it may take.
        log: the file in which it says what it is at.
    """

    kind: ClassVar[str] = "listening"
    unit: str
    port: int
    seconds: int
    log: str

    def name(self) -> str:
        """The unit and its port."""
        return "%s:%d" % (self.unit, self.port)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """It listens."""
        return {"listens": "yes"}

    def actual(self, context: Context) -> State:  # noqa: ARG002
        """Whether anything does."""
        return {"listens": "yes" if listens(self.port) else "no"}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Wait for it.

        Raises:
            ResourceFailed: it does not come, with the last errors in its log.
        """
        deadline = time.monotonic() + self.seconds
        while not listens(self.port):
            if time.monotonic() > deadline or not is_active(context, self.unit):
                state = "does not answer after %d s" % self.seconds if is_active(context, self.unit) else "has ended"
                words = " | ".join(last_errors(context.path(self.log))) or "no error in %s" % self.log
                raise ResourceFailed("%s %s: %s" % (self.unit, state, words))
            time.sleep(POLL_SECONDS)


def listens(port: int) -> bool:
    """Whether any process of this host listens on a TCP port."""
    wanted = ":%04X" % port
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_text(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[1].endswith(wanted) and fields[3] == LISTEN:  # noqa: PLR2004
                return True
    return False


def last_errors(path: str) -> List[str]:
    """The last errors in a log, each once."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 8192))
        lines = complaints(file.read().decode(errors="replace"))
    return list(dict.fromkeys(line.partition("] ")[2] or line for line in lines))[-3:]
