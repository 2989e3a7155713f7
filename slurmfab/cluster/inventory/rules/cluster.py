"""Rules between the fields of a cluster, with the complaint about each broken one."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from types import FunctionType

from slurmfab.base import hostlist
from slurmfab.base.ip_addresses import is_link_local
from slurmfab.cluster.inventory import hostnames
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.rules import (
    acceptance,
    accounting,
    directory,
    gpus,
    job_environment,
    jupyter,
    logins,
    people,
    power,
    services,
    slurm_conf,
    software,
    storage,
)
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place
from slurmfab.cluster.inventory.values import is_address
from slurmfab.on_hosts.agent.client.commands import PARTITION

_RANGE = re.compile(r"(?P<stem>[A-Za-z]+)(?P<low>\d{1,6})-(?P<again>(?P=stem))?(?P<high>\d{1,6})")

# A longer list of names does not help to find a typing mistake.
_LONGEST_LIST = 120
_MOST_CONTROLLERS = 2
_USERS_WITH_ID = ("slurm", "munge")
# 0 is root, 65534 nobody, 65535 "no such" in 16 bits, and the highest two mean "none" to the kernel.
_HIGHEST_ID = 2**31 - 2
_NOBODYS_IDS = (65534, 65535)


class NotKnown(Exception):
    """What a rule asks for is itself mistaken in the file."""


def broken(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Yield each broken rule: the place in the cluster, with keys as in the file, and the complaint."""
    for rule in rules():
        with suppress(NotKnown):
            yield from rule(cluster)


@cache
def rules() -> tuple[Callable[[Cluster], Complaints], ...]:
    """The rules: all functions of these modules that return `Complaints`, in their order."""
    modules = (
        sys.modules[__name__], directory, storage, software, services, jupyter, accounting, people, gpus, acceptance,
        power, logins, slurm_conf, job_environment,
    )  # fmt: skip
    own = [
        one for module in modules for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__
    ]
    return tuple(one for one in own if isinstance(one, FunctionType) and one.__annotations__["return"] == "Complaints")


def two_controllers_share_their_state(cluster: Cluster) -> Complaints:
    """A backup controller continues with the primary's state, so both need the directory (StateSaveLocation)."""
    if len(cluster.controllers) > _MOST_CONTROLLERS:
        yield (
            ("controllers",),
            f"there are {len(cluster.controllers)} controllers; slurmfab sets up a primary and one backup",
        )
    elif len(cluster.controllers) > 1 and "state_directory" not in cluster.model_fields_set:
        yield (
            ("controllers",),
            (
                "a second controller needs the key state_directory: a directory on a file system that "
                "both mount, such as /shared/slurm/state"
            ),
        )


def each_node_once(cluster: Cluster) -> Complaints:
    """A node has one line in slurm.conf."""
    first: dict[str, int] = {}
    for number, group in enumerate(cluster.nodes):
        again = [host for host in group.hosts if host in first]
        for host in again:
            yield (
                ("nodes", number, "hosts"),
                f'"{host}" is already in nodes[{first[host]}]; a node belongs to one group',
            )
        first.update((host, number) for host in group.hosts if host not in first)


def ranges_have_brackets(cluster: Cluster) -> Complaints:
    """`n1-n4` and `n1-4` are names of one host for Slurm, and those who write them mostly mean four."""
    every = cluster.hosts
    places = [(("nodes", number, "hosts"), group.hosts) for number, group in enumerate(cluster.nodes)]
    for place, hosts in places:
        for host in hosts:
            found = _RANGE.fullmatch(host)
            if not found or int(found["low"]) >= int(found["high"]):
                continue
            alike = f"{found['stem']}{found['low']}-"
            is_name = host in cluster.addresses or sum(one.startswith(alike) for one in every) > 1
            if found["again"] or not is_name:
                meant = f"{found['stem']}[{found['low']}-{found['high']}]"
                advice = "" if found["again"] else "; if a host has this name, give its address under addresses"
                yield place, f'"{host}" is one host; for a range write {meant}{advice}'


def future_nodes_are_no_hosts(cluster: Cluster) -> Complaints:
    """A node that is not there yet is in one group, and has no role."""
    first: dict[str, int] = {}
    for number, group in enumerate(cluster.future_nodes):
        place: Place = ("future_nodes", number, "hosts")
        for host in group.hosts:
            if host in cluster.hosts:
                roles = " and ".join(cluster.roles(host))
                yield place, f'"{host}" is a host of the cluster ({roles}); once it is there, take it out here'
            elif first.setdefault(host, number) != number:
                yield place, f'"{host}" is already in future_nodes[{first[host]}]; a node belongs to one group'
            elif reason := hostnames.unfit(host):
                yield place, f'"{host}" {reason}; rename the host'


def login_hosts_run_no_jobs(cluster: Cluster) -> Complaints:
    """The processes of users who log in would take what Slurm promises to jobs."""
    for host in _in_both(cluster.login, cluster.compute_nodes):
        yield ("login",), f'"{host}" is also a compute node; a login host runs no jobs'


def no_reserved_names(cluster: Cluster) -> Complaints:
    """A node called DEFAULT would set the defaults of those after it, and other names mean something else as well.

    A single machine's NodeName may be localhost, as guides have it: another one would end its jobs.
    """
    places: list[tuple[Place, Iterable[str]]] = [(("controllers",), cluster.controllers), (("login",), cluster.login)]
    places += [(("nodes", number, "hosts"), group.hosts) for number, group in enumerate(cluster.nodes)]
    seen: set[str] = set()
    for place, hosts in (*places, (("nodes",), cluster.hosts)):
        for host in hosts:
            is_all = host == "localhost" and len(cluster.hosts) == 1 and host in cluster.addresses
            if host not in seen and not is_all and (reason := hostnames.unfit(host)):
                more = "; only a cluster of one host, with its address, has it" if host == "localhost" else ""
                yield place, f'"{host}" {reason}{more}; rename the host'
            seen.add(host)


def slurmfabs_own_partition_is_not_the_users(cluster: Cluster) -> Complaints:
    """slurmfab writes a hidden partition for its own jobs; Slurm would merge another one of its name into it."""
    for number, partition in enumerate(cluster.partitions):
        if partition.name.casefold() == PARTITION:
            yield (
                ("partitions", number, "PartitionName"),
                f'"{partition.name}" is the name of the hidden partition of slurmfab\'s own jobs; use another name',
            )


def partitions_of_known_nodes(cluster: Cluster) -> Complaints:
    """slurmctld does not start if a partition has unknown nodes."""
    known = set(cluster.named_nodes)
    for number, partition in enumerate(cluster.partitions):
        if partition.nodes != "ALL":
            unknown = [node for node in partition.nodes if node not in known]
            if unknown:
                problem = "is not a compute node" if len(unknown) == 1 else "are not compute nodes"
                yield (
                    ("partitions", number, "Nodes"),
                    f'"{hostlist.fold(unknown)}" {problem} (known: {_known(cluster.named_nodes)})',
                )


def partitions_differ(cluster: Cluster) -> Complaints:
    """Slurm would merge two partitions with the same name, and use the last of two defaults."""
    names: dict[str, int] = {}
    default: str | None = None
    for number, partition in enumerate(cluster.partitions):
        earlier = names.setdefault(partition.name.casefold(), number)
        if earlier != number:
            yield (
                ("partitions", number, "PartitionName"),
                f'"{partition.name}" is already the name of partitions[{earlier}]',
            )
        key = next((key for key, text in partition.settings.items() if _is_default(key, text)), None)
        if key and default is not None:
            yield ("partitions", number, "settings", key), f'"{default}" is already the default; there can be only one'
        elif key:
            default = partition.name


LINK_LOCAL = (
    "is an IPv6 address of one link: it needs the name of an interface (%eth0), which differs from host to host, while "
    "slurm.conf and /etc/hosts are the same on all. Write a global or unique local address (fd00::/8) of the host; "
    "where only SSH goes to this one, write it under ssh.endpoints"
)


def addresses_of_hosts(cluster: Cluster) -> Complaints:
    """Each address is valid, and belongs to one host of the cluster."""
    hosts = {*cluster.hosts, *cluster.future_settings}
    owners: dict[str, str] = {}
    for host, address in cluster.addresses.items():
        if host not in hosts:
            yield ("addresses", host), f'"{host}" is not a host of the cluster (known: {_known(cluster.hosts)})'
        elif not is_address(address):
            plain, mask, _ = address.partition("/")
            advice = f"; write it without its mask: {plain}" if mask and is_address(plain) else ""
            name, colon, port = address.rpartition(":")
            if colon and port.isdecimal() and is_address(name):
                advice = f"; write {name}, and a port of SSH under ssh.endpoints: {{{host}: {address}}}"
            yield ("addresses", host), f'"{address}" is neither an IP address nor a DNS name{advice}'
        elif is_link_local(address):
            yield ("addresses", host), f'"{address}" {LINK_LOCAL}'
        elif owners.setdefault(address, host) != host:
            yield ("addresses", host), f'"{address}" is already the address of {owners[address]}'
    for host in cluster.ssh.endpoints:
        if host not in hosts:
            yield ("ssh", "endpoints", host), f'"{host}" is not a host of the cluster (known: {_known(cluster.hosts)})'


def relays_of_known_hosts(cluster: Cluster) -> Complaints:
    """A relay is a host of the cluster, whose key is pinned; hosts behind it may join later, but not all of them."""
    hosts = set(cluster.hosts)
    for relays, near in cluster.ssh.relays.items():
        unknown = [relay for relay in hostlist.expand(relays) if relay not in hosts]
        if unknown:
            problem = "is not a host" if len(unknown) == 1 else "are not hosts"
            yield (
                ("ssh", "relays", relays),
                f'"{hostlist.fold(unknown)}" {problem} of the cluster (known: {_known(cluster.hosts)}); a host outside '
                "of it that leads to all others is a jump host: ssh.gateway",
            )
        elif near != "ALL" and hosts.isdisjoint(near):
            yield (
                ("ssh", "relays", relays),
                f'"{hostlist.fold(near)}" has no host of the cluster (known: {_known(cluster.hosts)})',
            )


def ids_are_free_to_use(cluster: Cluster) -> Complaints:
    """slurm and munge have different IDs, and not those of root or nobody."""
    for user, number in cluster.ids.items():
        if user not in _USERS_WITH_ID:
            advice = f"people have theirs under users: {{name: {user}, uid: {number}}}"
            yield ("ids", user), f'only {" and ".join(_USERS_WITH_ID)} have an ID here, not "{user}"; {advice}'
        elif not 0 < number <= _HIGHEST_ID or number in _NOBODYS_IDS:
            yield ("ids", user), f"{number} cannot be a user's ID"
    if len(set(cluster.ids.values())) < len(cluster.ids):
        yield ("ids",), "two users cannot share one ID"


def backups_are_outside_saved_directories(cluster: Cluster) -> Complaints:
    """A backup inside a directory that backups contain would be saved again, and lost together with it."""
    if cluster.backup is None:
        return
    place = cluster.backup.directory
    for saved in (cluster.state_directory, "/etc/slurm"):
        if storage.overlap(place, saved):
            yield ("backup", "directory"), f'"{place}" contains or is inside {saved}, which is backed up'


def private_tmp_is_outside_its_directories(cluster: Cluster) -> Complaints:
    """A base directory inside a directory that is private to each job would be hidden from the jobs."""
    private = cluster.private_tmp
    for path in private.directories if private else ():
        if private and f"{private.base}/".startswith(f"{path}/"):
            yield ("private_tmp", "BasePath"), f'"{private.base}" lies in {path}, which is private to each job'


def _is_default(key: str, text: str) -> bool:
    return key.casefold() == "default" and text.casefold() == "yes"


def _in_both(some: Iterable[str], others: Iterable[str]) -> list[str]:
    others = set(others)
    return [host for host in some if host in others]


def _known(hosts: Iterable[str]) -> str:
    """The known names, folded, and shortened if there are many."""
    folded = hostlist.fold(hosts)
    return folded if len(folded) <= _LONGEST_LIST else f"{folded[:_LONGEST_LIST].rpartition(',')[0]},…"
