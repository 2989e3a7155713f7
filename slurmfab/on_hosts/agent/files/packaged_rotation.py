"""The packages' own rotation of a daemon's log, where it asks the daemon by a script that refuses to."""

from __future__ import annotations

import os
import re
from typing import ClassVar

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State

BY_SIGNAL = {"opens its log anew": "by a signal of systemd"}
ASKS = rb"(?m)^([ \t]*)(?:/usr/sbin/)?invoke-rc\.d --quiet %s reconfig >/dev/null[ \t]*$"
"""The line in Debian 12. The init script behind it signals no process whose PID file is not root's
(start-stop-daemon(8), --pidfile), so the daemon goes on writing into the log that was moved away and compressed."""

SIGNAL = (
    rb"\1systemctl --quiet is-active %s && systemctl kill --kill-who=main --signal=SIGUSR2 %s" + rb"\n" + rb"\1true"
)
"""slurmctld(8) and slurmdbd(8), SIGUSR2: open the log anew."""


class PackagedRotation(Resource):
    """The file for logrotate(8) of the package of slurmctld or slurmdbd, which run as the slurm user.

    Other lines of it stay, and so does a file that asks in another way, or that an admin removed.
    """

    kind: ClassVar[str] = "packaged-rotation"
    wanted_state: ClassVar[State] = BY_SIGNAL
    daemon: str  # the daemon, whose package has the same name
    program: str  # path of its program, without which the package is not installed yet

    def name(self) -> str:
        """The path of the file."""
        return "/etc/logrotate.d/%s" % self.daemon

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:  # noqa: ARG002
        """The file."""
        return (self.name(),)

    def actual(self, context: Context) -> State:
        """The same; or that there is no package yet, or that it asks by the script."""
        found = replace.find(context.path(self.name()))
        if found is None and not os.path.lexists(context.path(self.program)):
            return dict.fromkeys(BY_SIGNAL)
        asks = found is not None and re.search(self.line, found[1])
        return dict.fromkeys(BY_SIGNAL, "by an init script, which refuses") if asks else BY_SIGNAL

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Exchange the line."""
        path = context.path(self.name())
        found = replace.find(path)
        if found is not None:
            daemon = self.daemon.encode()
            text = re.sub(self.line, SIGNAL % (daemon, daemon), found[1])
            replace.put(path, text, found[0].st_uid, found[0].st_gid, found[0].st_mode & 0o777)

    @property
    def line(self) -> bytes:
        """The pattern of the line."""
        return ASKS % re.escape(self.daemon).encode()
