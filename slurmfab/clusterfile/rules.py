"""What must hold between the fields of a cluster, and what to say where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from slurmfab import hostlist
from slurmfab.clusterfile import (
    accounting_rules,
    backup_rules,
    configless,
    database_rules,
    gpu_checks_rules,
    gres_rules,
    licenses,
    people_rules,
    preemption_rules,
    private_tmp,
    script_rules,
)
from slurmfab.clusterfile.addresses import is_address

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

# A line of names longer than this helps nobody who looks for a typing mistake.
_LONGEST_LIST = 120
# Slurm gives these names a meaning of their own (slurm.conf(5)).
_RESERVED_NAMES = ("ALL", "DEFAULT")
_MOST_CONTROLLERS = 2
_USERS_WITH_ID = ("slurm", "munge")
# 0 is root, 65534 nobody, 65535 "no such" in 16 bits, and the highest two mean "none" to the kernel.
_HIGHEST_ID = 2**31 - 2
_NOBODYS_IDS = (65534, 65535)


def broken(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Each broken rule: where in the cluster, with keys as in the file, and what is wrong."""
    for rule in RULES:
        yield from rule(cluster)


def two_controllers_share_their_state(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A backup goes on with the primary's state, so both have to see it (slurm.conf(5), StateSaveLocation)."""
    if len(cluster.controllers) > _MOST_CONTROLLERS:
        yield ("controllers",), f"these are {len(cluster.controllers)}; slurmfab sets up a primary and one backup"
    elif len(cluster.controllers) > 1 and "state_directory" not in cluster.model_fields_set:
        yield (
            ("controllers",),
            (
                "a second controller needs the key state_directory: a directory on a file system that "
                "both see, such as /shared/slurm/state"
            ),
        )


def each_node_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A node has one line in slurm.conf."""
    first: dict[str, int] = {}
    for number, group in enumerate(cluster.nodes):
        again = [host for host in group.hosts if host in first]
        for host in again:
            yield ("nodes", number, "hosts"), f'"{host}" is in nodes[{first[host]}] already; a node is in one group'
        first.update((host, number) for host in group.hosts if host not in first)


def login_hosts_are_nothing_else(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Users work on login hosts, so neither jobs nor slurmctld run there."""
    for others, role in ((cluster.controllers, "a controller"), (cluster.compute_nodes, "a compute node")):
        for host in _in_both(cluster.login, others):
            yield ("login",), f'"{host}" is {role} as well; a login host is nothing else'


def no_reserved_names(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A node called DEFAULT would set the defaults of those after it."""
    for number, group in enumerate(cluster.nodes):
        for host in group.hosts:
            if host.upper() in _RESERVED_NAMES:
                yield ("nodes", number, "hosts"), f'"{host}" has a meaning of its own in slurm.conf; rename the host'


def partitions_of_known_nodes(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmctld does not start with a partition of nodes that it does not know."""
    for number, partition in enumerate(cluster.partitions):
        if partition.nodes != "ALL":
            known = set(cluster.compute_nodes)
            unknown = [node for node in partition.nodes if node not in known]
            if unknown:
                words = "is no compute node" if len(unknown) == 1 else "are no compute nodes"
                yield (
                    ("partitions", number, "Nodes"),
                    f'"{hostlist.fold(unknown)}" {words} (known: {_known(cluster.compute_nodes)})',
                )


def partitions_differ(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Slurm would merge two partitions of one name, and take the last of two defaults."""
    names: dict[str, int] = {}
    default: str | None = None
    for number, partition in enumerate(cluster.partitions):
        earlier = names.setdefault(partition.name.casefold(), number)
        if earlier != number:
            yield ("partitions", number, "PartitionName"), f'"{partition.name}" is partitions[{earlier}] already'
        key = next((key for key, text in partition.settings.items() if _is_default(key, text)), None)
        if key and default is not None:
            yield ("partitions", number, "settings", key), f'"{default}" is the default already; only one can be'
        elif key:
            default = partition.name


def addresses_of_hosts(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Each address is one, and belongs to one host of the cluster."""
    hosts = set(cluster.hosts)
    owners: dict[str, str] = {}
    for host, address in cluster.addresses.items():
        if host not in hosts:
            yield ("addresses", host), f'"{host}" is no host of the cluster (known: {_known(cluster.hosts)})'
        elif not is_address(address):
            yield ("addresses", host), f'"{address}" is neither an IP address nor a DNS name'
        elif owners.setdefault(address, host) != host:
            yield ("addresses", host), f'"{address}" is the address of {owners[address]} already'
    for host in cluster.ssh.endpoints:
        if host not in hosts:
            yield ("ssh", "endpoints", host), f'"{host}" is no host of the cluster (known: {_known(cluster.hosts)})'


def ids_are_free_to_use(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """The two users have two numbers, and nobody's are not among them."""
    for user, number in cluster.ids.items():
        if user not in _USERS_WITH_ID:
            yield ("ids", user), f'only {" and ".join(_USERS_WITH_ID)} have an ID here, "{user}" has not'
        elif not 0 < number <= _HIGHEST_ID or number in _NOBODYS_IDS:
            yield ("ids", user), f"{number} cannot be a user's ID"
    if len(set(cluster.ids.values())) < len(cluster.ids):
        yield ("ids",), "two users cannot share one ID"


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (
    two_controllers_share_their_state,
    each_node_once,
    login_hosts_are_nothing_else,
    no_reserved_names,
    partitions_of_known_nodes,
    partitions_differ,
    addresses_of_hosts,
    ids_are_free_to_use,
    *database_rules.RULES,
    *accounting_rules.RULES,
    *people_rules.RULES,
    *backup_rules.RULES,
    *gpu_checks_rules.RULES,
    *private_tmp.RULES,
    *gres_rules.RULES,
    *licenses.RULES,
    *configless.RULES,
    *preemption_rules.RULES,
    *script_rules.RULES,
)


def _is_default(key: str, text: str) -> bool:
    return key.casefold() == "default" and text.casefold() == "yes"


def _in_both(some: Iterable[str], others: Iterable[str]) -> list[str]:
    others = set(others)
    return [host for host in some if host in others]


def _known(hosts: Iterable[str]) -> str:
    """The names to choose from, folded, and cut where there are too many."""
    folded = hostlist.fold(hosts)
    return folded if len(folded) <= _LONGEST_LIST else f"{folded[:_LONGEST_LIST].rpartition(',')[0]},…"
