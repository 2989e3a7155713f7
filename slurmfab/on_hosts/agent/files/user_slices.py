"""Limits for the processes of each user who has logged in, as drop-ins of systemd's slices of users."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK, LOADED


class UserSlices(OwnedFiles):
    """The drop-ins, which systemd has loaded: they hold for users who are logged in, too."""

    kind: ClassVar[str] = "user-slices"
    besides: ClassVar[State] = {LOADED: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The same as found; where nobody is logged in, systemd reads them at the next login."""
        shown = context.run(["systemctl", "show", "--property=NeedDaemonReload", "user-*.slice"]).stdout
        return {**super().actual(context), LOADED: "older" if b"=yes" in shown else AS_ON_DISK}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write or remove the drop-ins, and have systemd load them; ResourceFailed as for files, or of systemd."""
        super().converge(context, differing)
        context.must(["systemctl", "daemon-reload"])
