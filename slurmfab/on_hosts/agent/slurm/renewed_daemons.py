"""Daemons that are restarted because a program or a library that they use was replaced by a newer version.

Only those are restarted of which it is known that a restart harms nobody: jobs go on without slurmd and slurmctld, and
sessions without sshd's listener. Others, such as systemd itself and D-Bus, are left to a reboot.
"""

from __future__ import annotations

from typing import ClassVar, Dict, FrozenSet, List, Tuple

from slurmfab.on_hosts.agent.client.commands import PRIMARY_ANSWERS, SHOW_SLURMD
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.services import replaced_files
from slurmfab.on_hosts.agent.services.replaced_files import IN_ORDER, is_restartable
from slurmfab.on_hosts.agent.services.service import Service

CURRENT = "current"
SECONDS = 180.0


class RenewedDaemons(Resource):
    """No daemon that can be restarted uses a replaced file."""

    kind: ClassVar[str] = "renewed-daemons"
    only_name: ClassVar[str] = "all"
    deadline: ClassVar[float] = 900.0
    is_primary: bool = False  # whether the host is the primary controller, so that its slurmctld has to answer

    def wanted(self, context: Context) -> State:
        """Each such daemon, without replaced files."""
        return dict.fromkeys(stale(context), CURRENT)

    def actual(self, context: Context) -> State:
        """Which replaced files each daemon uses."""
        return {unit: "uses replaced %s" % ", ".join(files) for unit, files in stale(context).items()}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Restart the daemons, those that others need first; ResourceFailed if one does not run or answer then."""
        for unit in ordered(list(differing)):
            if unit not in IN_ORDER:
                context.must(["systemctl", "try-restart", unit], seconds=SECONDS)
                continue
            Service(unit, answers=self.answers(unit)).start(context, "restart")

    def answers(self, unit: str) -> Tuple[str, ...]:
        """The command that succeeds once a daemon works; none where it has only to stay active."""
        if unit == "slurmctld" and self.is_primary:
            return PRIMARY_ANSWERS
        return SHOW_SLURMD if unit == "slurmd" else ()


def stale(context: Context) -> Dict[str, List[str]]:
    """The daemons that can be restarted and use replaced files, with these files."""
    return {unit: files for unit, files in replaced_files.users(context).items() if is_restartable(unit)}


def ordered(units: List[str]) -> List[str]:
    """The units in the order of their restarts."""
    known = [unit for unit in IN_ORDER if unit in units]
    return known + sorted(unit for unit in units if unit not in IN_ORDER)
