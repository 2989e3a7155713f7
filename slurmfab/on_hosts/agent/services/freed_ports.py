"""TCP ports that a daemon still has by former settings, and that another daemon of the same host gets."""

from __future__ import annotations

from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.services import slurmctld_state, start_guard
from slurmfab.on_hosts.agent.services.service import main_pid, show
from slurmfab.on_hosts.agent.services.sockets import has_socket, listening

STOP_SECONDS = 180.0


class FreedPorts(Resource):
    """Ports of daemons that no other daemon of these listens on.

    A daemon that does is stopped. It has other ports by the new settings, and starts with these in a later phase, which
    would not be reached if a daemon of an earlier phase could not start.
    """

    kind: ClassVar[str] = "freed-ports"
    only_name: ClassVar[str] = "tcp"
    wanted_state: ClassVar[State] = {"held": None}
    listeners: Tuple[Tuple[str, int, int], ...]  # unit, first and last port; a unit may have several

    def units(self) -> Tuple[str, ...]:
        """The units of the daemons."""
        return tuple(dict.fromkeys(unit for unit, _, _ in self.listeners))

    def actual(self, context: Context) -> State:
        """The ports that another daemon has, such as `6819 of slurmdbd by slurmctld`."""
        held = ["%d of %s by %s" % (port, unit, holder) for port, (unit, holder) in self.held(context).items()]
        return {"held": ", ".join(held) or None}

    def held(self, context: Context) -> Dict[int, Tuple[str, str]]:
        """By port, the unit that gets it, and the one whose main process listens there."""
        found = {}
        sockets = [(port, inode) for port, inode in listening() if self.owners(port)]
        for holder in self.units() if sockets else ():
            pid = main_pid(show(context, holder))
            for port, inode in sockets:
                if pid and has_socket(pid, {inode}) and holder not in self.owners(port):
                    found[port] = self.owners(port)[0], holder
        return found

    def owners(self, port: int) -> List[str]:
        """The units that get a port."""
        return [unit for unit, first, last in self.listeners if first <= port <= last]

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Stop the daemons that have ports of others; slurmctld has a guard that starts it should the run end early."""
        for holder in dict.fromkeys(holder for _, holder in self.held(context).values()):
            if holder == slurmctld_state.UNIT:
                start_guard.arm(context, holder)
            context.must(["systemctl", "stop", holder], seconds=STOP_SECONDS)
