"""A daemon that runs the program which is on the disk, after its package was exchanged under it."""

from __future__ import annotations

import os
import time
from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services import start_guard
from slurmfab.on_hosts.agent.services.service import Service, main_pid, show
from slurmfab.on_hosts.agent.upgrade import slurm_users

AS_ON_DISK = "as on disk"

SLURMDBD = "slurmdbd"
PATIENT = "/run/systemd/system/slurmdbd.service.d/slurmfab-upgrade.conf"
"""A file for slurmdbd's unit that is gone after the next boot."""

PATIENT_TEXT = "[Service]\nTimeoutStartSec=infinity\nTimeoutStopSec=infinity\nRestart=no\n"
"""systemd neither ends slurmdbd while it converts its tables, nor when it is asked to stop meanwhile; nor does it begin
a conversion again that has failed."""

BEGIN_SECONDS = 3.0  # how long slurmdbd has to go on after its start; a mistake in its file ends it at once
STARTS = ("active", "activating", "reloading")  # ActiveStates of a unit whose daemon runs, or is about to


class RenewedDaemon(Resource):
    """A service that runs, and uses the files of Slurm's that are on the disk.

    slurmdbd is not waited for: it listens only when it has converted its tables, and must not be stopped before.
    """

    kind: ClassVar[str] = "renewed-daemon"
    named_by: ClassVar[str] = "unit"
    wanted_state: ClassVar[State] = {"running": "yes", "program": AS_ON_DISK}
    deadline: ClassVar[float] = 600.0
    unit: str  # name of its unit
    answers: Tuple[str, ...] = ()  # a program and its arguments that succeeds once the daemon works; empty for none

    def units(self) -> Tuple[str, ...]:
        """The unit."""
        return (self.unit,)

    def actual(self, context: Context) -> State:
        """Whether it runs, and whether its program was replaced."""
        shown = show(context, self.unit)
        state = shown.get("ActiveState")
        runs = state in STARTS if self.unit == SLURMDBD else state in STARTS[:1]
        return {
            "running": "yes" if runs else state,
            "program": program(context, self.unit, main_pid(shown)) if runs else None,
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Start it, or restart it. Raises ResourceFailed if it does not start; with its last errors."""
        if show(context, self.unit).get("NeedDaemonReload") == "yes":
            context.must(["systemctl", "daemon-reload"])
        if self.unit == SLURMDBD:
            self.start_patiently(context)
        else:
            Service(self.unit, answers=self.answers).start(context, "restart")

    def start_patiently(self, context: Context) -> None:
        """Start slurmdbd, however long its tables take to convert; ResourceFailed, with its last errors, if it ends."""
        from slurmfab.on_hosts.agent.services import daemon_log

        path = context.path(PATIENT)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace.put(path, PATIENT_TEXT.encode(), 0, 0, 0o644)
        context.must(["systemctl", "daemon-reload"])
        start_guard.disarm(context, self.unit)
        log = daemon_log.position(context, self.unit)
        context.run(["systemctl", "reset-failed", self.unit])
        context.must(["systemctl", "restart", "--no-block", self.unit])
        deadline = time.monotonic() + BEGIN_SECONDS
        is_begun = False
        while time.monotonic() < deadline:
            state = show(context, self.unit).get("ActiveState")
            is_begun = is_begun or state in STARTS
            if state == "failed" or (is_begun and state not in STARTS and state != "deactivating"):
                words = " | ".join(daemon_log.last_words(context, self.unit, log))
                raise ResourceFailed("%s does not stay active: %s" % (self.unit, words))
            time.sleep(0.1)


def program(context: Context, unit: str, pid: int) -> str:
    """Whether a unit uses Slurm's files as they are on the disk, or such that were replaced."""
    return "replaced since it started" if slurm_users.is_old(context, unit, pid) else AS_ON_DISK
