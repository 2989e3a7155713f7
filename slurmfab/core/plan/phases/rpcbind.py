"""rpcbind, which comes with the packages of NFS: where only NFS version 4 is used, it neither starts nor listens."""

from __future__ import annotations

from slurmfab.base.paths import UNIT_FILES
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.software import RPCBIND
from slurmfab.core.plan.phases import exports
from slurmfab.core.plan.phases.capability import HEAD, owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

OF = "rpcbind"
UNITS = ("rpcbind.socket", "rpcbind.service")
DROP_IN = f"""{HEAD}[Unit]
# NFS version 4 does without rpcbind, which listens on port 111. A condition that never holds: it does not start.
ConditionPathExists=!/
"""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Drop-ins that keep rpcbind from starting, and its end; only their removal where the host has a use for it.

    Without the drop-ins, units that want it, such as nfs-server, would start it although it is disabled; and where
    version 3 comes into use later, rpc-statd.service starts it (its `Requires=rpcbind.socket`).
    """
    paths = (f"{UNIT_FILES}/{unit}.d/slurmfab.conf" for unit in UNITS)
    files = tuple(OwnedFile(path, DROP_IN) for path in paths) if is_useless(plan_input, host) else ()
    written = owned(plan_input, host, OF, files)
    if not written:
        return ()
    stopped = tuple(Service(unit, enabled=False, running=False) for unit in UNITS) if files else ()
    return (*written, UnitsLoaded(OF, UNITS), *stopped)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The package, where those of NFS bring it along: so the host notes whether it had rpcbind before."""
    return (RPCBIND,) if has_nfs(plan_input, host) else ()


def is_useless(plan_input: PlanInput, host: str) -> bool:
    """Whether slurmfab brought rpcbind, and mounts are version 4; 3 asks it for ports (rpcbind(8))."""
    if host not in plan_input.facts or not has_nfs(plan_input, host):
        return False
    facts = plan_input.facts[host]
    is_ours = RPCBIND in facts.added_packages or RPCBIND not in facts.packages
    return is_ours and all(mount.is_nfs_4 for mount in mounts_of(plan_input.cluster, host) if mount.is_nfs)


def has_nfs(plan_input: PlanInput, host: str) -> bool:
    """Whether a host serves or mounts anything by NFS for slurmfab."""
    mounted = (mount.is_nfs for mount in mounts_of(plan_input.cluster, host))
    return bool(exports.packages(plan_input, host)) or any(mounted)
