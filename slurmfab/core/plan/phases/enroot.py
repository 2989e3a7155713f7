"""enroot and pyxis: their settings, and the one line by which Slurm loads pyxis on each host.

The packages are the site's own (key `packages`). Each srun and each job step reads plugstack.conf anew, so no daemon
restarts. Debian's plugstack.conf includes all of plugstack.conf.d, also where slurmctld serves it (`configless`), and
each host has its own files there.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.paths import PYXIS_DROP_IN
from slurmfab.cluster.inventory.containers import Enroot
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import PYXIS
from slurmfab.core.plan.phases import scratch
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.people.user_directories import UserDirectories
from slurmfab.on_hosts.agent.slurm.spank_plugin import SpankPlugin

CAPABILITY = "enroot"
RUNTIME = "/run/pyxis"
"""Root's directory in which pyxis, as root, makes one for each user who has a job step in a container: its default."""

SETTINGS = "/etc/enroot/enroot.conf.d/slurmfab.conf"
"""enroot reads it after its own file, whose values count where both have one (enroot 3.4 and later)."""

TMPFILES = "/etc/tmpfiles.d/slurmfab-pyxis.conf"
MOUNTS = "/etc/enroot/mounts.d/90-slurmfab.fstab"
OF_SCRATCH = "x-create=dir,rbind,rw,nosuid,nodev,nofail,silent"
"""How enroot mounts the directories of jobs; each is its user's alone."""

HOOKS = "/etc/enroot/hooks.d/50-slurmfab-{}.sh"
SHIPPED_HOOK = "/usr/share/enroot/hooks.d/50-{}.sh"
OPTION = "--container-image"
PLUGIN, PACKAGED = "spank_pyxis.so", "/usr/share/pyxis/pyxis.conf"
"""The file name of pyxis, and the file of its package with the line that loads it, for any architecture."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The settings, and the line that loads pyxis once it can be loaded; without the way, their removal."""
    containers = plan_input.cluster.containers
    if containers is None or not uses(plan_input, host, "enroot"):
        return owned(plan_input, host, CAPABILITY, ())
    users = tuple(sorted(user.name for user in plan_input.cluster.users)) if plan_input.cluster.unix_users else ()
    return (
        *((Directory(RUNTIME),) if plan_input.is_compute_node(host) else ()),
        UserDirectories(containers.enroot.storage, users),
        SpankPlugin(PLUGIN, PACKAGED, PYXIS_DROP_IN, OPTION, PYXIS),
        *owned(plan_input, host, CAPABILITY, files(plan_input, host, containers.enroot)),
    )


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:  # noqa: ARG001
    """None: no suite has them, so the cluster file names them under `packages`, which is a rule."""
    return ()


def files(plan_input: PlanInput, host: str, enroot: Enroot) -> Iterator[OwnedFile]:
    """Yield the files of the way on a host."""
    yield OwnedFile(SETTINGS, fill("enroot.conf", {"storage": enroot.storage, "mount_home": enroot.mount_home}))
    for hook in enroot.hooks:
        yield OwnedFile(HOOKS.format(hook), fill("enroot-hook.sh", {"hook": SHIPPED_HOOK.format(hook)}), mode=0o755)
    if scratch.has_some(plan_input, host) and plan_input.cluster.scratch:
        path = plan_input.cluster.scratch.path
        yield OwnedFile(MOUNTS, f"# Made by slurmfab from the cluster file.\n{path} {path} none {OF_SCRATCH}\n")
    if plan_input.is_compute_node(host):
        yield OwnedFile(TMPFILES, f"# Made by slurmfab from the cluster file.\nd {RUNTIME} 0755 root root -\n")
    yield OwnedFile(PYXIS_DROP_IN, fill("pyxis.conf", {"packaged": PACKAGED}))
