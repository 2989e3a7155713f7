"""The directories that a host serves to others by NFS: before others mount them, and taken back after they unmount."""

from __future__ import annotations

from slurmfab.cluster.inventory.exports import Export
from slurmfab.cluster.inventory.storage import clients, exports_of
from slurmfab.cluster.slurm.software import NFS_SERVER
from slurmfab.core.plan.phases.capability import HEAD, once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.mounts.exports import LOADED_OF, OF, ExportFiles, ExportsLoaded
from slurmfab.on_hosts.agent.services.service import Service

UNIT = "nfs-server"
SETTINGS = f"""{HEAD}[nfsd]
# Version 4 needs one TCP port and no rpcbind.
vers3=n
"""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The directories, their entries beside former ones, and the running server; empty where a host serves nothing."""
    files = export_files(plan_input, host, drops=False)
    if not files.directories:
        return ()
    service = (Service(UNIT), ExportsLoaded()) if files.exports else ()
    return (files, *service)


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of former entries, once no host mounts them any more."""
    if not has_some(plan_input, host):
        return ()
    return (export_files(plan_input, host, drops=True), ExportsLoaded())


def export_files(plan_input: PlanInput, host: str, *, drops: bool) -> ExportFiles:
    """The exports of a host with their files. `drops`: whether former entries go."""
    exports = exports_of(plan_input.cluster, host)
    entries = tuple(entry for export in exports for entry in entries_of(plan_input, export))
    settings = SETTINGS if is_ours(plan_input, host) else ""
    return ExportFiles(
        tuple(export.path for export in exports), entries, settings, drops, away(plan_input) if drops else ()
    )


def entries_of(plan_input: PlanInput, export: Export) -> tuple[tuple[str, str, str], ...]:
    """Directory, client and options of each entry of an export: one for each host that has ever answered."""
    members = set(plan_input.members)
    options = ",".join(export.options)
    known = (client for client in clients(plan_input.cluster, export) if client in members)
    return tuple((export.path, plan_input.address(client), options) for client in known)


def is_ours(plan_input: PlanInput, host: str) -> bool:
    """Whether the server is there for slurmfab's exports alone, so that they decide what else it does."""
    if host not in plan_input.facts:
        return False
    facts = plan_input.facts[host]
    return NFS_SERVER in facts.added_packages or NFS_SERVER not in facts.packages


def has_some(plan_input: PlanInput, host: str) -> bool:
    """Whether a host has exports of slurmfab's, or has not forgotten former ones."""
    return host in plan_input.facts and bool({OF, LOADED_OF} & set(plan_input.facts[host].owned))


@once
def away(plan_input: PlanInput) -> tuple[tuple[str, str], ...]:
    """Address and name of each host that has no part in the run, or has failed in it: it may not have unmounted."""
    return tuple(
        (plan_input.address(host), host)
        for host in plan_input.members
        if host not in plan_input.facts or host in plan_input.outside
    )


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The package of the server; it stays while a host that is away may need it."""
    serves = any(clients(plan_input.cluster, export) for export in exports_of(plan_input.cluster, host))
    is_held = has_some(plan_input, host) and bool(away(plan_input))
    return (NFS_SERVER,) if serves or is_held else ()
