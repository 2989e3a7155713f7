"""Units that are no daemons: loaded drop-ins, timers, a unit that has given up, and the reboot of the machine."""

from __future__ import annotations

from typing import ClassVar, FrozenSet, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK, ENABLED, LOADED, show


class UnitsLoaded(Resource):
    """systemd knows the present files of some units, drop-ins included."""

    kind: ClassVar[str] = "units-loaded"
    named_by: ClassVar[str] = "of"
    wanted_state: ClassVar[State] = {LOADED: AS_ON_DISK}
    of: str  # the capability that the units are for, such as `mounts`
    wanted_units: Tuple[str, ...]  # names of the units; those that do not exist do not count
    # Files that have to be among what systemd has loaded for them. It does not look into a directory of drop-ins that
    # was made since it last read all files, and does not say that this is missing.
    drop_ins: Tuple[str, ...] = ()

    def actual(self, context: Context) -> State:
        """Whether systemd says that a unit's file was changed."""
        shown = {unit: show(context, unit) for unit in self.wanted_units}
        # systemd calls a masked unit with drop-ins older than its files, however often it reads them again.
        masked = tuple("/%s.d/" % unit for unit, one in shown.items() if one.get("LoadState") == "masked")
        is_older = any(
            one.get("NeedDaemonReload") == "yes" for one in shown.values() if one.get("LoadState") != "masked"
        )
        # Of a masked unit systemd loads no drop-ins.
        expected = {path for path in self.drop_ins if not any(part in path for part in masked)}
        found = {path for one in shown.values() for path in one.get("DropInPaths", "").split()}
        return {LOADED: "older" if is_older or not expected <= found else AS_ON_DISK}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make systemd read the files again; nothing is restarted. Raises ResourceFailed if systemd fails."""
        context.must(["systemctl", "daemon-reload"])


class Timer(Resource):
    """A timer that is enabled and active; systemd itself reports when it has loaded older unit files."""

    kind: ClassVar[str] = "timer"
    named_by: ClassVar[str] = "unit"
    wanted_state: ClassVar[State] = {"enabled": "yes", "running": "yes", LOADED: AS_ON_DISK}
    unit: str  # name without `.timer`; a service of the same name exists

    def units(self) -> tuple[str, ...]:
        """The timer."""
        return (self.unit + ".timer",)

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


class RevivedUnit(Resource):
    """A unit that has not failed; one that is not there, or was stopped, counts as right."""

    kind: ClassVar[str] = "revived-unit"
    named_by: ClassVar[str] = "unit"
    wanted_state: ClassVar[State] = {"failed": "no"}
    unit: str  # its name, such as `systemd-logind`, which fails where a directory in its sandbox does not answer

    def units(self) -> Tuple[str, ...]:
        """The unit."""
        return (self.unit,)

    def actual(self, context: Context) -> State:
        """Whether it has, as systemd says."""
        return {"failed": "yes" if show(context, self.unit).get("ActiveState") == "failed" else "no"}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Start it, however often it has failed before. Raises ResourceFailed if it does not start."""
        context.run(["systemctl", "reset-failed", self.unit])
        context.must(["systemctl", "start", self.unit])


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
