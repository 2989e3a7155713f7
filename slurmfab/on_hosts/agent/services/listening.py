"""A daemon that listens on its TCP port."""

from __future__ import annotations

import os
import time
from typing import ClassVar, List

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services.daemon_log import error_lines
from slurmfab.on_hosts.agent.services.service import is_active
from slurmfab.on_hosts.agent.services.sockets import listening_inodes

POLL_SECONDS = 0.2


class Listening(Resource):
    """A TCP port on which a daemon listens; slurmdbd does once its database answers and its tables exist."""

    kind: ClassVar[str] = "listening"
    wanted_state: ClassVar[State] = {"listens": "yes"}
    unit: str  # the daemon's unit name
    port: int
    seconds: int  # how long to wait
    log: str  # path of the daemon's log, whose last errors a failure reports; empty for none

    def name(self) -> str:
        """The unit and the port, such as `slurmdbd:6819`."""
        return "%s:%d" % (self.unit, self.port)

    def actual(self, context: Context) -> State:  # noqa: ARG002
        """Whether any process listens."""
        return {"listens": "yes" if listens(self.port) else "no"}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Wait until the daemon listens; ResourceFailed, with its last errors, if it ends or takes too long."""
        deadline = time.monotonic() + self.seconds
        while not listens(self.port):
            if time.monotonic() > deadline or not is_active(context, self.unit):
                state = "does not answer after %d s" % self.seconds if is_active(context, self.unit) else "has ended"
                found = last_errors(context.path(self.log)) if self.log else []
                errors = " | ".join(found) or ("no error in %s" % self.log if self.log else "see its journal")
                raise ResourceFailed("%s %s: %s" % (self.unit, state, errors))
            time.sleep(POLL_SECONDS)


def listens(port: int) -> bool:
    """Whether any process of this host listens on a TCP port."""
    return any(listening_inodes(port))


def last_errors(path: str) -> List[str]:
    """The last errors in a log, up to three and each once; empty where there is no log."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 8192))
        lines = error_lines(file.read().decode(errors="replace"))
    return list(dict.fromkeys(line.partition("] ")[2] or line for line in lines))[-3:]
