"""A reboot of the machine itself, not through Slurm."""

from __future__ import annotations

from typing import ClassVar, FrozenSet

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State

UNIT = "slurmfab-reboot"
DELAY_SECONDS = 2  # time between the answer and the reboot, so that the answer still arrives

REQUESTED, NOT_REQUESTED = "requested", "not requested"


class MachineReboot(Resource):
    """A machine that reboots in a moment."""

    kind: ClassVar[str] = "machine-reboot"
    only_name: ClassVar[str] = "now"
    wanted_state: ClassVar[State] = {"reboot": REQUESTED}

    def actual(self, context: Context) -> State:
        """Whether the timer of the reboot runs."""
        shown = context.run(["systemctl", "is-active", UNIT + ".timer"]).stdout.strip()
        return {"reboot": REQUESTED if shown == b"active" else NOT_REQUESTED}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Start the timer. Raises ResourceFailed if systemd refuses."""
        context.must([
            "systemd-run", "--quiet", "--collect", "--unit=" + UNIT, "--on-active=%d" % DELAY_SECONDS,
            "--timer-property=AccuracySec=100ms", "systemctl", "reboot",
        ])  # fmt: skip
