"""slurmctld stopped for a moment, with a systemd timer that starts it again if slurmfab does not."""

from __future__ import annotations

import time
from typing import ClassVar, Tuple

from slurmfab.agent.core.resource import Context, Resource, State
from slurmfab.agent.services.service import Service, is_active

UNIT = "slurmctld"

TIMER = "slurmfab-slurmctld"
"""Transient timer that starts slurmctld again; it disappears afterwards, and at a reboot."""

STOP_SECONDS = 120.0
"""Time that slurmctld gets to write its state and end (systemd's TimeoutStopSec= is 90 s)."""


class SlurmctldPause(Resource):
    """slurmctld stopped for a moment, or running again.

    While slurmctld is stopped, clients retry, as after any restart. If it ran while its munged has another key than the
    nodes, it would reject their messages; a node whose message about a job's end was rejected never sends it again.

    Args:
        paused: whether slurmctld is to be stopped.
        limit: seconds after which systemd starts it again, even if slurmfab was killed.
        grace: seconds to wait after the stop, for job steps that are being launched.
    """

    kind: ClassVar[str] = "slurmctld-pause"
    deadline: ClassVar[float] = 600.0
    paused: bool = True
    limit: int = 20
    grace: float = 0.0

    def name(self) -> str:
        """The unit."""
        return UNIT

    def units(self) -> Tuple[str, ...]:
        """The unit."""
        return (UNIT,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Stopped, with the timer set; or running, without a timer."""
        return {"running": "no", "timer": "set"} if self.paused else {"running": "yes", "timer": None}

    def actual(self, context: Context) -> State:
        """Whether slurmctld runs, and whether the timer is set."""
        return {
            "running": "yes" if is_active(context, UNIT) else "no",
            "timer": "set" if is_active(context, TIMER + ".timer") else None,
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Set the timer, then stop slurmctld; or start slurmctld, then stop the timer.

        Raises:
            ResourceFailed: systemd refuses the timer, and slurmctld was not stopped; or slurmctld does not start.
        """
        if self.paused:
            context.run(["systemctl", "stop", TIMER + ".timer"])
            context.must([
                "systemd-run", "--quiet", "--collect", "--unit=" + TIMER, "--on-active=%d" % self.limit,
                "--timer-property=AccuracySec=1s", "systemctl", "start", UNIT,
            ])  # fmt: skip
            context.must(["systemctl", "stop", UNIT], seconds=STOP_SECONDS)
            time.sleep(self.grace)
            return
        if "running" in differing:
            Service(UNIT).start(context, "start")
        context.run(["systemctl", "stop", TIMER + ".timer"])
