"""Files that sshd reads, accepted by sshd before it loads them."""

from __future__ import annotations

import os
import time
from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK, LOADED

UNITS = ("/usr/lib/systemd/system/ssh.service", "/usr/lib/systemd/system/sshd.service")
SOCKET = "ssh.socket"
"""Ubuntu's sshd starts with its first connection, by this unit."""
DROP_INS = "/etc/ssh/sshd_config.d"
PID_FILE = "/run/sshd.pid"
"""sshd writes it whenever it has loaded its files; without it, sshd starts for each connection."""


RELOAD_SECONDS, POLL_SECONDS = 20.0, 0.1  # how long sshd may take to load its files, and the time between two looks


class SshdFiles(OwnedFiles):
    """The files, of which sshd has loaded those in `DROP_INS`; logins that are open stay open."""

    kind: ClassVar[str] = "sshd-files"
    besides: ClassVar[State] = {LOADED: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The same as found."""
        return {**super().actual(context), LOADED: "older" if self.is_outdated(context) else AS_ON_DISK}

    def is_outdated(self, context: Context) -> bool:
        """Whether sshd loaded its files before a drop-in came, went or changed."""
        changed = [changed_at(context, path) for path in (DROP_INS, *self.by_path()) if path.startswith(DROP_INS)]
        loaded = changed_at(context, PID_FILE)
        return loaded > 0 and max(changed) > loaded

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write or remove the files, and have sshd load them; they are taken back if it does not accept them."""
        super().converge(context, differing)
        judged = context.run(["sshd", "-t"])
        if judged.returncode != 0:
            OwnedFiles(self.of, ()).converge(context, frozenset())
            reason = judged.stderr.decode(errors="replace").strip() or "no message"
            raise ResourceFailed("sshd does not accept its files, so they were taken back: %s" % reason)
        # The name of the unit on Debian, and elsewhere.
        unit = os.path.basename(next((one for one in UNITS if os.path.exists(context.path(one))), UNITS[1]))
        # sshd that a socket started loses it by a reload (OpenSSH 10.0 of Debian 13: "Cannot bind any address");
        # systemd keeps the socket during a restart, and sessions go on.
        has_socket = context.run(["systemctl", "is-active", "--quiet", SOCKET]).returncode == 0
        context.must(["systemctl", "try-restart" if has_socket else "try-reload-or-restart", unit])
        wait_until_loaded(self, context)


def changed_at(context: Context, path: str) -> float:
    """When a file or directory last changed; 0 where there is none."""
    try:
        return os.stat(context.path(path)).st_mtime
    except OSError:
        return 0.0


def wait_until_loaded(files: SshdFiles, context: Context) -> None:
    """Wait until sshd has loaded the files, after a reload has returned; ResourceFailed if it takes too long."""
    deadline = time.monotonic() + RELOAD_SECONDS
    while files.is_outdated(context):
        if time.monotonic() > deadline:
            raise ResourceFailed(
                "sshd did not load its files within %.0f s; see: systemctl status ssh" % RELOAD_SECONDS
            )
        time.sleep(POLL_SECONDS)
