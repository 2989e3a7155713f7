"""A systemd timer that is active and loaded from the present unit files."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK, ENABLED, LOADED, show


class Timer(Resource):
    """A timer that is enabled and active; systemd itself reports when it has loaded older unit files."""

    kind: ClassVar[str] = "timer"
    named_by: ClassVar[str] = "unit"
    unit: str  # name without `.timer`; a service of the same name exists

    def units(self) -> tuple[str, ...]:
        """The timer."""
        return (self.unit + ".timer",)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Enabled, active, and loaded from the present unit files."""
        return {"enabled": "yes", "running": "yes", LOADED: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The same as systemd reports it; of a timer that is not active, its ActiveState, such as `failed`."""
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
        """Reload the unit files, enable and restart the timer; ResourceFailed if systemd does not load it."""
        timer = self.unit + ".timer"
        context.must(["systemctl", "daemon-reload"])
        if show(context, timer).get("LoadState") != "loaded":
            raise ResourceFailed("systemd does not load %s; see: systemctl status %s" % (timer, timer))
        context.must(["systemctl", "enable", "--quiet", timer])
        context.must(["systemctl", "restart", timer])
