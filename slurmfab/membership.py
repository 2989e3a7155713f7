"""Who belongs to a cluster: its file at first contact, and new compute nodes in it later on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab import inventory
from slurmfab import lock as locks
from slurmfab.clusterfile import writing
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.fitness.hosts import unfit_newcomers
from slurmfab.hostlist import expand_endpoints, fold
from slurmfab.inventory import Inventory
from slurmfab.lock import HostLock, Lock
from slurmfab.newcomers import Newcomer
from slurmfab.people import numbers
from slurmfab.slurm.versions import SlurmVersion

if TYPE_CHECKING:
    from slurmfab.cluster import Ssh


def first_ssh(hostlist: str, *, user: str, key: str, port: int | None, become: bool | None, gateway: str) -> Ssh:
    """The `ssh` section of a new cluster file, from what was said at first contact.

    Args:
        hostlist: what the user typed; a user that all of it names is the section's.
        user: the login name, empty for ssh_config's or one's own.
        key: the private key file, empty for the agent's and the default ones.
        port: of all sshds.
        become: whether to use sudo; `None` for "unless it is root who logs in".
        gateway: the jump host.

    Raises:
        InputError: one of these is no user, port or jump host.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import, and most runs have a cluster file

    from slurmfab.cluster import Ssh  # noqa: PLC0415 - as slow

    users = {endpoint.user for endpoint in expand_endpoints(hostlist)}
    common = user or (users.pop() if len(users) == 1 else "")
    sudo = common != "root" if become is None else become
    try:
        return Ssh(
            user=common or None, key=key or None, port=port, become="sudo" if sudo else None, gateway=gateway or None
        )
    except ValidationError as error:
        found = [
            f"--{detail['loc'][0]} {detail['input']}: {detail['msg'].removeprefix('Value error, ')}."
            for detail in error.errors()
        ]
        raise InputError("\n".join(found)) from None


def found(path: Path, name: str, ssh: Ssh, newcomers: Sequence[Newcomer]) -> Inventory:
    """Write the cluster file and the lock of a new cluster; the first newcomer is its controller, the others compute.

    Args:
        path: where the cluster file goes; there is none yet.
        name: the ClusterName.
        ssh: how to reach the hosts.
        newcomers: in the order in which the user named them.

    Raises:
        InputError: there are no compute nodes, or the file cannot be written.
    """
    controller, *compute = (newcomer.name for newcomer in newcomers)
    if not compute:
        raise InputError(
            f"{controller} would be the controller, and there is no host left for jobs. Name at least two hosts, "
            "or list one host as both controller and node in a cluster file of your own."
        )
    endpoints = {newcomer.name: newcomer.endpoint for newcomer in newcomers if newcomer.endpoint}
    addresses = {newcomer.name: newcomer.address for newcomer in newcomers}
    text = writing.new_text(name, ssh.model_copy(update={"endpoints": endpoints}), addresses, controller, compute)
    inventory.parse(text, str(path))
    lock = with_newcomers(locks.load(inventory.lock_path(path)), newcomers)
    locks.save(lock, inventory.lock_path(path))
    writing.write(path, text)
    return inventory.load(path)


def joined(
    known: Inventory, newcomers: Sequence[Newcomer], like: str | None = None, partitions: Sequence[str] = ()
) -> tuple[Inventory, str]:
    """The cluster with new compute nodes, which have to show first that jobs run there; nothing is written.

    Args:
        known: the cluster as it is.
        newcomers: the new nodes.
        like: a node whose group and partitions they join.
        partitions: names of partitions that get them.

    Returns:
        The cluster, and the text of its file with everything else as it was.

    Raises:
        InputError: a host is in the cluster already.
    """
    names = tuple(newcomer.name for newcomer in newcomers)
    taken = {known.cluster.addresses.get(host, host): host for host in known.cluster.hosts}
    for newcomer in newcomers:
        owner = newcomer.name if newcomer.name in known.cluster.hosts else taken.get(newcomer.address)
        if owner:
            raise InputError(f"{newcomer.name} ({newcomer.address}) is in the cluster already, as {owner}.")
    addresses = {newcomer.name: newcomer.address for newcomer in newcomers}
    endpoints = {newcomer.name: newcomer.endpoint for newcomer in newcomers if newcomer.endpoint}
    text = writing.with_nodes(
        inventory.read_text(known.path), names, addresses, {}, like, endpoints=endpoints, partitions=partitions
    )
    lock = with_newcomers(locks.without_hosts(known.lock, names), newcomers)
    for name in names:
        lock = locks.with_host(lock, name, replace(lock.hosts[name], on_trial=True))
    return Inventory(inventory.parse(text, str(known.path)), lock, known.path), text


def with_newcomers(lock: Lock, newcomers: Sequence[Newcomer]) -> Lock:
    """The lock with the host keys that newcomers showed; a deployment adds the rest."""
    for newcomer in newcomers:
        old = lock.hosts.get(newcomer.name, HostLock())
        kind, key = newcomer.host_key
        lock = locks.with_host(lock, newcomer.name, replace(old, host_keys={**old.host_keys, kind: key}))
    return lock


def refuse_unfit(known: Inventory, newcomers: Sequence[Newcomer]) -> None:
    """Refuse hosts that could not be nodes of this cluster, before any file says that they are.

    Raises:
        SlurmfabError: with what is wrong with each.
        IdConflict: somebody there has the cluster's UIDs or GIDs.
    """
    facts = {newcomer.name: newcomer.facts for newcomer in newcomers}
    expected = SlurmVersion.parse(known.lock.slurm) if known.lock.slurm else None
    reasons = unfit_newcomers(facts, expected)
    if reasons:
        raise SlurmfabError(
            "\n".join([*(f"{host}: {reason}" for host, reason in reasons.items()), "Nothing was changed."])
        )
    numbers.decide(known.cluster, known.lock.ids, facts)


def refuse_known(known: Inventory, hostlist: str) -> None:
    """Refuse hosts that are in the cluster already, before anybody is asked.

    Raises:
        InputError: with their names.
    """
    named = {endpoint.address for endpoint in expand_endpoints(hostlist)}
    addresses = {known.cluster.addresses.get(host, host): host for host in known.cluster.hosts}
    members = {host for host in known.cluster.hosts if host in named} | {
        addresses[address] for address in named & set(addresses)
    }
    if members:
        raise InputError(
            f"{fold(members)}: in the cluster {known.cluster.name} already; fab deploy brings it up to date."
        )
