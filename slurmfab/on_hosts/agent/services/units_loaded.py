"""Units that systemd has loaded from their present files."""

from __future__ import annotations

from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK, LOADED, show


class UnitsLoaded(Resource):
    """systemd knows the present files of some units, drop-ins included."""

    kind: ClassVar[str] = "units-loaded"
    of: str  # the capability that the units are for, such as `mounts`
    wanted_units: Tuple[str, ...]  # names of the units; those that do not exist do not count
    # Files that have to be among what systemd has loaded for them. It does not look into a directory of drop-ins that
    # was made since it last read all files, and does not say that this is missing.
    drop_ins: Tuple[str, ...] = ()

    def name(self) -> str:
        """The capability."""
        return self.of

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Loaded from the present files."""
        return {LOADED: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """Whether systemd says that a unit's file was changed."""
        shown = {unit: show(context, unit) for unit in self.wanted_units}
        # systemd calls a masked unit with drop-ins older than its files, however often it reads them again.
        masked = tuple("/%s.d/" % unit for unit, one in shown.items() if one.get("LoadState") == "masked")
        is_older = any(
            one.get("NeedDaemonReload") == "yes" for one in shown.values() if one.get("LoadState") != "masked"
        )
        return {LOADED: "older" if is_older or not self.has_drop_ins(context, masked) else AS_ON_DISK}

    def has_drop_ins(self, context: Context, masked: Tuple[str, ...]) -> bool:
        """Whether systemd has loaded the drop-ins, but those of masked units, parts of whose paths are given."""
        expected = {path for path in self.drop_ins if not any(part in path for part in masked)}
        if not expected:
            return True
        argv = ["systemctl", "show", "--property=DropInPaths", "--value", *self.wanted_units]
        return expected <= set(context.run(argv).stdout.decode(errors="replace").split())

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make systemd read the files again; nothing is restarted. Raises ResourceFailed if systemd fails."""
        context.must(["systemctl", "daemon-reload"])
