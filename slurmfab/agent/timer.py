"""A systemd timer that waits for its next time, with the unit files that are on the disk."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import AS_ON_DISK, ENABLED, LOADED, show


class Timer(Resource):
    """A timer that is enabled and waits, as its unit files say now; systemd notices by itself that they are newer.

    Args:
        unit: without `.timer`; there is a service of the same name.
    """

    kind: ClassVar[str] = "timer"
    unit: str

    def name(self) -> str:
        """The unit."""
        return self.unit

    def units(self) -> tuple[str, ...]:
        """The timer."""
        return (self.unit + ".timer",)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Enabled and waiting, with what is on the disk."""
        return {"enabled": "yes", "running": "yes", LOADED: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The same as it is; a timer that does not wait is shown by systemd's word, such as `failed`."""
        shown = show(context, self.unit + ".timer")
        service = show(context, self.unit + ".service")
        is_older = "yes" in (shown.get("NeedDaemonReload"), service.get("NeedDaemonReload"))
        state = shown.get("ActiveState", "unknown")
        return {
            "enabled": "yes" if shown.get("UnitFileState") in ENABLED else "no",
            "running": "yes" if state == "active" else state,
            LOADED: "older" if is_older else AS_ON_DISK,
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Read the unit files, enable the timer, and let it wait anew.

        Raises:
            ResourceFailed: systemd does not accept them.
        """
        timer = self.unit + ".timer"
        context.must(["systemctl", "daemon-reload"])
        if show(context, timer).get("LoadState") != "loaded":
            raise ResourceFailed("systemd does not load %s; see: systemctl status %s" % (timer, timer))
        context.must(["systemctl", "enable", "--quiet", timer])
        context.must(["systemctl", "restart", timer])
