"""slurmctld stopped for a while, with a guard that starts it again if the run does not."""

from __future__ import annotations

import time
from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core.host_paths import SLURM_DIRECTORY
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State, compare
from slurmfab.on_hosts.agent.services import start_guard
from slurmfab.on_hosts.agent.services.service import Service, is_active
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles

UNIT = "slurmctld"

STOP_SECONDS = 120.0  # time that slurmctld gets to write its state and end (systemd's TimeoutStopSec= is 90 s)


class SlurmctldPause(Resource):
    """slurmctld stopped for a while, or running again; in both cases it starts at boot as before.

    While slurmctld is stopped, clients retry, as after any restart. If it ran while its munged has another key than the
    nodes, it would reject their messages; a node whose message about a job's end was rejected never sends it again.
    """

    kind: ClassVar[str] = "slurmctld-pause"
    only_name: ClassVar[str] = UNIT
    own_units: ClassVar[Tuple[str, ...]] = (UNIT,)
    UNSHOWN = ("files",)
    deadline: ClassVar[float] = 600.0
    paused: bool = True  # whether slurmctld is to be stopped
    grace: float = 0.0  # seconds to wait after the stop, for job steps that are being launched
    # Slurm's files that will be replaced meanwhile. The installed Slurm has to accept them, the disks have to have room
    # for them, and the present ones have to be in the undo store, before slurmctld is stopped.
    files: Tuple[Tuple[str, str], ...] = ()
    node: str = ""  # NodeName of this host, as for `SlurmFiles`
    directory: str = SLURM_DIRECTORY  # where the files are

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Stopped; or running, without a guard."""
        return {"running": "no"} if self.paused else {"running": "yes", "guard": None}

    def actual(self, context: Context) -> State:
        """Whether slurmctld runs, and whether it has a guard."""
        running = UNIT not in context.stopped and is_active(context, UNIT)
        return {"running": "yes" if running else "no", "guard": "set" if start_guard.is_armed(context, UNIT) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Set the guard and stop slurmctld, or start it and remove the guard; ResourceFailed if it cannot be."""
        if self.paused:
            self.rehearse(context)
            start_guard.arm(context, UNIT)
            context.must(["systemctl", "stop", UNIT], seconds=STOP_SECONDS)
            time.sleep(self.grace)
            return
        if "running" in differing:
            Service(UNIT).start(context, "start")
        start_guard.disarm(context, UNIT)

    def rehearse(self, context: Context) -> None:
        """Replace all that slurmctld's running allows; ResourceFailed if refused, OSError without room."""
        if not self.files:
            return
        files = SlurmFiles(self.directory, self.files, self.node)
        differing = frozenset(change.name for change in compare(files, context))
        if differing:
            context.keep(files, context, differing)
            files.rehearse(context)
