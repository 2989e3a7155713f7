"""A guard that starts a stopped daemon again when the run that stopped it ends without starting it.

The guard is a transient unit of systemd, so it outlives the agent, its connection and the deployer. It waits for the
lock of this host, which an agent holds until its process ends: at once when the deployer is killed, and after a minute
of silence when the network fails. So a run that is merely slow is never disturbed, whatever time it takes.
"""

from __future__ import annotations

import os

from slurmfab.on_hosts.agent.core.host_lock import LOCK
from slurmfab.on_hosts.agent.core.resource import Context

UNIT = "slurmfab-start-%s"
"""Name of the transient unit for a daemon's unit; it disappears when its work is done, and at a reboot."""

TRANSIENT = "/run/systemd/transient"  # where systemd has the files of transient units (systemd.unit(5))

SCRIPT = 'flock --shared "$1" true && exec systemctl start "$2"'
"""The lock is free again before the daemon starts, so the next run is not refused."""


def arm(context: Context, unit: str) -> None:
    """Have a daemon started when the present run has ended; called before the daemon is stopped.

    `context`: the request's context; the agent holds the host's lock. Raises ResourceFailed if systemd refuses the
    guard.
    """
    if is_armed(context, unit):
        return
    what = "--description=Starts %s again if slurmfab does not" % unit
    script = ["sh", "-c", SCRIPT, "sh", LOCK, unit]
    context.must(["systemd-run", "--quiet", "--collect", "--unit=" + UNIT % unit, what, *script])


def disarm(context: Context, unit: str) -> None:
    """Remove the guard of a daemon that runs again; costs no process where there is none."""
    if is_armed(context, unit):
        context.run(["systemctl", "stop", UNIT % unit])


def is_armed(context: Context, unit: str) -> bool:
    """Whether a daemon has a guard."""
    return os.path.exists(context.path("%s/%s.service" % (TRANSIENT, UNIT % unit)))
