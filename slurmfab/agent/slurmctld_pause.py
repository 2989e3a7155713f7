"""slurmctld away for a moment in which nobody could talk to it anyway, and back by itself if nobody calls it back."""

from __future__ import annotations

import time
from typing import ClassVar, Tuple

from slurmfab.agent.resource import Context, Resource, State
from slurmfab.agent.service import Service, is_active

UNIT = "slurmctld"

TIMER = "slurmfab-slurmctld"
"""The transient timer that starts slurmctld again; it is gone when it has, and after a reboot."""

STOP_SECONDS = 120.0
"""How long slurmctld may take to write its state and go (TimeoutStopSec= of systemd is 90 s)."""


class SlurmctldPause(Resource):
    """A slurmctld that is stopped for a moment, or one that runs again.

    While it is not there, whoever has to tell it something tries again, as after any restart. While it is there and its
    munged has another key than theirs, it refuses what they tell, and a job's end that is refused is never told again.

    Args:
        paused: whether it is to be away.
        limit: seconds after which systemd starts it again whatever has become of the one who stopped it.
        grace: seconds to wait after the stop, for the job steps that are just being launched.
    """

    kind: ClassVar[str] = "slurmctld-pause"
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
        """Away until the timer brings it back; or running, and no timer."""
        return {"running": "no", "timer": "set"} if self.paused else {"running": "yes", "timer": None}

    def actual(self, context: Context) -> State:
        """What is."""
        return {
            "running": "yes" if is_active(context, UNIT) else "no",
            "timer": "set" if is_active(context, TIMER + ".timer") else None,
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Stop it, with the timer set before; or start it, and stop the timer after.

        Raises:
            ResourceFailed: systemd sets no timer, and slurmctld was not stopped; or slurmctld does not start.
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
