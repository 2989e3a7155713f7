"""Members of a cluster: writes a new cluster file, and adds compute nodes to an existing one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import expand_endpoints, fold
from slurmfab.base.ip_addresses import canonical
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading, people_ids, schema_file, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.slurm.platform import DEBIAN, SOURCE, installed
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.nodes.discovery import DiscoveredHost
from slurmfab.core.plan.preflight.hosts import unfit_newcomers

if TYPE_CHECKING:
    from slurmfab.cluster.facts import HostFacts
    from slurmfab.cluster.inventory.cluster import Cluster, Ssh
    from slurmfab.cluster.inventory.connection_options import ConnectionOptions


def first_ssh(hostlist: str, connection: ConnectionOptions) -> Ssh:
    """The `ssh` section of a new file, with the SSH user that all hosts name; InputError of wrong options."""
    connection.refuse_unknown_become()
    from pydantic import ValidationError  # slow to import, and most runs have a cluster file

    from slurmfab.cluster.inventory.cluster import Ssh  # as slow

    users = {endpoint.user for endpoint in expand_endpoints(hostlist)}
    common = connection.user or (users.pop() if len(users) == 1 else "")
    sudo = common != "root" if connection.uses_sudo is None else connection.uses_sudo
    try:
        return Ssh(
            user=common or None,
            key=connection.key or None,
            port=connection.port,
            become="sudo" if sudo else None,
            gateway=connection.gateway or None,
        )
    except ValidationError as error:
        found = [
            f"--{detail['loc'][0]} {detail['input']}: {detail['msg'].removeprefix('Value error, ')}."
            for detail in error.errors()
        ]
        raise InputError("\n".join(found)) from None


def new_cluster(
    path: Path, name: str, ssh: Ssh, discovered_hosts: Sequence[DiscoveredHost], *, controller_computes: bool = False
) -> tuple[Inventory, str]:
    """A new cluster and its file's text: the first host is its controller, the others compute nodes.

    Nothing is written. Raises InputError if it is invalid, or the lock beside the path cannot be read.
    """
    controller, *compute = (discovered.name for discovered in discovered_hosts)
    if controller_computes or not compute:
        compute = [controller, *compute]
    endpoints = {discovered.name: discovered.endpoint for discovered in discovered_hosts if discovered.endpoint}
    addresses = {discovered.name: discovered.address for discovered in discovered_hosts}
    text = schema_file.modeline(path)
    text += writing.new_text(name, ssh.model_copy(update={"endpoints": endpoints}), addresses, controller, compute)
    text += packages_there(discovered_hosts[0].facts)
    lock = with_newcomers(locks.load(loading.lock_path(path)), discovered_hosts)
    return Inventory(loading.parse(text, str(path)), lock, path), text


def packages_there(facts: HostFacts) -> str:
    """The key `slurm` for the packages of Slurm that a host has; empty for the distribution's, and without any."""
    found = installed(facts)
    if not found or found in (DEBIAN, SOURCE) or not facts.slurm_version:
        return ""
    series = SlurmVersion.parse(facts.slurm_version)
    return f"\n# Slurm's packages, as these hosts have them.\n{found.key(str(series))}\n"


def write_new_cluster(known: Inventory, text: str) -> Inventory:
    """Write a new cluster's file, lock and schema, and read it back; InputError if there is a file, or it fails."""
    path = known.path
    with shared_files.exclusively(path):
        if path.exists():
            raise InputError(f"{path}: somebody else has made this file meanwhile, so nothing was written or changed.")
        locks.save(known.lock, loading.lock_path(path))
        schema_file.provide(path, known.lock)
        writing.write(path, text)
    return loading.load(path)


def joined(
    known: Inventory,
    discovered_hosts: Sequence[DiscoveredHost],
    like: str | None = None,
    partitions: Sequence[str] = (),
) -> tuple[Inventory, str]:
    """The cluster with compute nodes added, and its file's new text; a test job has to run before they serve.

    Nothing is written. Raises InputError if a host is in the cluster already.
    """
    names = tuple(discovered.name for discovered in discovered_hosts)
    taken = {known.cluster.addresses.get(host, host): host for host in known.cluster.hosts}
    for discovered in discovered_hosts:
        owner = discovered.name if discovered.name in known.cluster.hosts else taken.get(discovered.address)
        if owner:
            raise InputError(f"{discovered.name} ({discovered.address}) is in the cluster already, as {owner}.")
    addresses = {discovered.name: discovered.address for discovered in discovered_hosts}
    endpoints = {discovered.name: discovered.endpoint for discovered in discovered_hosts if discovered.endpoint}
    text = writing.with_nodes(
        loading.read_text(known.path), names, addresses, {}, like, endpoints=endpoints, partitions=partitions
    )
    lock = with_newcomers(locks.without_hosts(known.lock, names), discovered_hosts)
    for name in names:
        lock = locks.with_host(lock, name, replace(lock.hosts[name], on_trial=True))
    return replace(known, cluster=loading.parse(text, str(known.path)), lock=lock), text


def with_newcomers(lock: Lock, discovered_hosts: Sequence[DiscoveredHost]) -> Lock:
    """The lock with the host keys of new hosts; a deployment adds the other values."""
    for discovered in discovered_hosts:
        old = lock.hosts.get(discovered.name, HostLock())
        kind, key = discovered.host_key
        lock = locks.with_host(lock, discovered.name, replace(old, host_keys={**old.host_keys, kind: key}))
    return lock


def refuse_unfit(known: Inventory, grown: Cluster, discovered_hosts: Sequence[DiscoveredHost]) -> None:
    """Refuse hosts that cannot be nodes of this cluster, before any file is written; `grown`: the cluster with them.

    Raises SlurmfabError with the reasons; IdConflict if another user or group has the UID or GID of slurm or munge
    there.
    """
    facts = {discovered.name: discovered.facts for discovered in discovered_hosts}
    reasons = unfit_newcomers(grown, facts, known.lock.slurm)
    if reasons:
        raise SlurmfabError(
            "\n".join([*(f"{host}: {reason}" for host, reason in reasons.items()), "Nothing was changed."])
        )
    people_ids.decide(known.cluster, known.lock.ids, facts)


def refuse_known(known: Inventory, hostlist: str) -> None:
    """Refuse, before any host is contacted, hosts that are in the cluster by name or address, by InputError."""
    named = {canonical(endpoint.address) for endpoint in expand_endpoints(hostlist)}
    addresses = {known.cluster.addresses.get(host, host): host for host in known.cluster.hosts}
    if future := [host for host in known.cluster.future_settings if host in named]:
        raise InputError(
            f"{fold(future)}: in future_nodes of {known.path}, as not there yet. Move them to nodes there, then run "
            f"{FAB} deploy. Nothing was changed."
        )
    members = {host for host in known.cluster.hosts if host in named} | {
        addresses[address] for address in named & set(addresses)
    }
    if members:
        raise InputError(
            f"{fold(members)}: already in the cluster {known.cluster.name}; {FAB} deploy brings it up to date."
        )
