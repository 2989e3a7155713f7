"""Mounts whose units' files a rollback has put back: mounted and enabled as these say."""

from __future__ import annotations

import os
from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.mounts import mount_units
from slurmfab.on_hosts.agent.mounts.mount_point import BIND, MountPoint
from slurmfab.on_hosts.agent.mounts.mount_units import AUTOMOUNT, MOUNT

SECONDS = 60.0  # time limit of an attempt, where the unit names none


class EarlierMounts(Resource):
    """Mounts as the files of their units say, which are on this host."""

    kind: ClassVar[str] = "earlier-mounts"
    deadline: ClassVar[float] = 900.0
    paths: Tuple[str, ...]  # the files of mount and automount units

    def name(self) -> str:
        """The units."""
        return ",".join(mount_units.unit_of(path) for path in self.paths)

    def points(self, context: Context) -> List[MountPoint]:
        """The mounts, each behind the one that it is inside of."""
        return sorted((point_of(context, path) for path in self.mounts), key=lambda one: one.path)

    @property
    def mounts(self) -> List[str]:
        """The files of the mount units."""
        names = (path[: -len(AUTOMOUNT)] + MOUNT if path.endswith(AUTOMOUNT) else path for path in self.paths)
        return list(dict.fromkeys(names))

    def wanted(self, context: Context) -> State:
        """Each is mounted and enabled."""
        return {point.path: state_text(point.wanted(context)) for point in self.points(context)}

    def actual(self, context: Context) -> State:
        """Whether it is."""
        return {point.path: state_text(point.actual(context)) for point in self.points(context)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Mount and enable those that are not. Raises ResourceFailed if mount(8) fails, in its words."""
        context.must(["systemctl", "daemon-reload"])
        for point in self.points(context):
            if point.path in differing:
                actual, wanted = point.actual(context), point.wanted(context)
                point.converge(context, frozenset(name for name in wanted if wanted[name] != actual[name]))


def point_of(context: Context, path: str) -> MountPoint:
    """The mount that a file of a mount unit describes."""
    text = read_text(context.path(path))
    unit = mount_units.unit_of(path)
    beside = mount_units.automount_of(unit)
    again = beside if os.path.exists(context.path(mount_units.automount_of(path))) else ""
    unit, again = (unit, again) if mount_units.starts_at_boot(text) else (beside, "")
    kind = mount_units.value(text, "Type")
    is_bind = BIND in mount_units.value(text, "Options").split(",")
    source = mount_units.value(text, "What")
    return MountPoint(mount_units.value(text, "Where"), unit, source, BIND if is_bind else kind, SECONDS, again=again)


def state_text(state: State) -> str:
    """A state of a mount as text."""
    values: Dict[str, str] = {name: str(value) for name, value in state.items()}
    return "%s, enabled: %s" % (values["mounted"], values["enabled"])
