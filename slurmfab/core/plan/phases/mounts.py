"""The file systems that hosts mount, as units of systemd; they come before daemons that use them, and before homes."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.paths import UNIT_FILES
from slurmfab.cluster.inventory.mounts import BIND, CLIENTS, Mount, covering, is_tried_again, needs_network, unit_name
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.mounts.mount_point import MountPoint
from slurmfab.on_hosts.agent.mounts.mount_units import AUTOMOUNT, MOUNT, OF
from slurmfab.on_hosts.agent.mounts.released_mounts import ReleasedMounts
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

SERVERS = {"nfs": "nfs-server.service", "nfs4": "nfs-server.service", "glusterfs": "glusterd.service"}
"""The server's unit by type, which starts before a host mounts what it serves itself."""

DAEMONS = ("slurmctld.service", "slurmd.service", "slurmdbd.service")
"""Daemons that start when all mounts have been tried."""

SLURMCTLD_DROP_IN = f"{UNIT_FILES}/slurmctld.service.d/slurmfab-mounts.conf"
SECONDS = 60  # time limit of mount(8), and of umount(8)


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Former mounts unmounted, the units' files, and the mounts; empty where the host neither has nor had any."""
    mounts = mounts_of(plan_input.cluster, host)
    state = plan_input.cluster.state_directory
    files = (*(file for one in mounts for file in unit_files(one, mounts, state)), *state_files(plan_input, host))
    written = owned(plan_input, host, OF, files)
    if not written:
        return ()
    units = tuple((file.path, file.text) for file in files if file.path.endswith((MOUNT, AUTOMOUNT)))
    names = (*(path.rpartition("/")[2] for path, _ in units), *DAEMONS[:1])
    points = (mount_point(one, mounts, state) for one in mounts)
    return (ReleasedMounts(units), *written, UnitsLoaded(OF, names), *points)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages with the clients of a host's mounts."""
    return tuple(CLIENTS[one.type] for one in mounts_of(plan_input.cluster, host) if one.type in CLIENTS)


def mount_point(mount: Mount, mounts: tuple[Mount, ...], state: str) -> MountPoint:
    """A mounted file system; arguments as for `unit_files`."""
    unit = unit_name(mount.path, AUTOMOUNT if mount.automount else MOUNT)
    again = unit_name(mount.path, AUTOMOUNT) if is_tried_again(mount, mounts, state) else ""
    return MountPoint(mount.path, unit, mount.source, mount.type, float(SECONDS), again=again)


def unit_files(mount: Mount, mounts: tuple[Mount, ...], state: str) -> Iterator[OwnedFile]:
    """Yield the files of a mount's units."""
    has_automount = mount.automount or is_tried_again(mount, mounts, state)
    context = {
        "path": mount.path,
        "source": mount.source.replace("%", "%%"),
        "type": "none" if mount.type == BIND else mount.type,
        "options": ",".join(options(mount, mounts)).replace("%", "%%"),
        "after": SERVERS.get(mount.type, ""),
        "before": " ".join(DAEMONS),
        "seconds": SECONDS,
        "automount": has_automount,
        "at_boot": not mount.automount,
    }
    yield OwnedFile(f"{UNIT_FILES}/{unit_name(mount.path, MOUNT)}", fill("mount-unit", context))
    if has_automount:
        yield OwnedFile(f"{UNIT_FILES}/{unit_name(mount.path, AUTOMOUNT)}", fill("automount-unit", context))


def options(mount: Mount, mounts: tuple[Mount, ...]) -> tuple[str, ...]:
    """The options of a mount; `_netdev` makes systemd wait for the network where the type does not say it."""
    first = ("bind",) if mount.type == BIND and not {"bind", "rbind"} & set(mount.options) else ()
    last = ("_netdev",) if needs_network(mount, mounts) and "_netdev" not in mount.options else ()
    return (*first, *mount.options, *last)


def state_files(plan_input: PlanInput, host: str) -> Iterator[OwnedFile]:
    """Yield the drop-in with which slurmctld does not start without the mount that its state is on."""
    directory = plan_input.cluster.state_directory
    if host in plan_input.cluster.controllers and covering(mounts_of(plan_input.cluster, host), directory):
        yield OwnedFile(SLURMCTLD_DROP_IN, fill("slurmctld-mounts.conf", {"directory": directory}))
