"""The hosts that words name: hostlists, roles, partitions, `gpu`, states of nodes, and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.base.hostlist import entries, expand, fold
from slurmfab.cluster.host_files import selection
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.core.status import snapshot
from slurmfab.core.status.snapshot import Node
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.client.amounts import gpus_of as gpus_by_type

ALL, GPU = "all", "gpu"
ROLES = ("controller", "compute", "login", "database")

STATES = (
    "idle", "allocated", "mixed", "completing", "reserved", "planned", "drain", "drained", "draining", "down", "fail",
    "maint", "unknown", "future", "powered_down", "powering_up", "powering_down", "reboot_requested", "not_responding",
)  # fmt: skip
"""The states by which nodes are chosen, as sinfo(1) spells them."""

KINDS = ("role", "partition", "state")  # what may stand in front of a word, as in `partition:gpu`


def chosen(
    known: Inventory, words: str, without: str = "", *, nodes: Callable[[], Iterable[Node]], option: str = "--on"
) -> tuple[str, ...]:
    """The hosts that words name (all for none), less those that `without` names, in the order of the cluster.

    `nodes`: asks Slurm for its nodes, which only states need. `option`: how the words were given, for messages. Raises
    InputError for a word that names nothing, has two meanings, or where no host is left.
    """
    found = meant(known, words or ALL, nodes, option)
    left = found - (meant(known, without, nodes, "-x") if without else frozenset())
    if not left:
        less = f" without {without}" if without else ""
        raise InputError(f"{option} {words or ALL}{less}: there is no such host now.")
    return tuple(host for host in known.cluster.hosts if host in left)


def meant(known: Inventory, words: str, nodes: Callable[[], Iterable[Node]], option: str) -> frozenset[str]:
    """The members of the cluster that words name. Raises InputError as `chosen`."""
    found: set[str] = set()
    for word in entries(words):
        if word.startswith("@") or word == selection.STANDARD_INPUT:
            addresses = known.cluster.addresses
            members = {host: (addresses[host],) if host in addresses else () for host in known.cluster.hosts}
            found |= members_in(known, selection.resolved(word, members, newcomers=False), option)
            continue
        kind, _, name = word.partition(":") if word.partition(":")[0] in KINDS else ("", "", word)
        is_host = not kind and name in known.cluster.hosts
        meanings = {one: hosts for one, hosts in groups(known, name).items() if kind in ("", one) and not is_host}
        if not (meanings or is_host) and name.lower() in STATES and kind in ("", "state"):
            meanings = {"state": in_state(known, name, nodes())}
        if kind and not meanings:
            raise InputError(f"{option} {kind}:{name}: there is no such {kind}. {known_words(known)}")
        if len(set(meanings.values())) > 1:
            two = " and ".join(f"{one}:{name} ({fold(hosts) or 'no host'})" for one, hosts in meanings.items())
            raise InputError(f"{option} {word}: this means several things: {two}. Write one of these.")
        found |= next(iter(meanings.values())) if meanings else members_in(known, word, option)
    return frozenset(found)


def groups(known: Inventory, word: str) -> dict[str, frozenset[str]]:
    """The groups of hosts that a word is the name of, by kind."""
    cluster = known.cluster
    found: dict[str, frozenset[str]] = {}
    if word == ALL:
        found["role"] = frozenset(cluster.hosts)
    elif word in ROLES:
        found["role"] = frozenset(host for host in cluster.hosts if word in cluster.roles(host))
    for partition in cluster.partitions:
        if partition.name == word:
            found["partition"] = frozenset(cluster.nodes_in(partition))
    if word == GPU and not found:  # a partition of that name is what a site means by it
        found["role"] = frozenset(node for node in cluster.compute_nodes if gpus_of(cluster, known.lock, node))
    return found


def in_state(known: Inventory, state: str, nodes: Iterable[Node]) -> frozenset[str]:
    """The nodes that Slurm has in a state now, `drained` with its jobs over and `draining` with jobs left.

    `idle` and the like are nodes in service: an idle node that is drained gets no jobs.
    """
    word, found = state.upper(), set()
    for node in nodes:
        flags, is_busy = node.state.flags, bool(node.state.flags & {"ALLOCATED", "MIXED", "COMPLETING"})
        if word in ("DRAINED", "DRAINING"):
            fits = node.state.is_drained and is_busy == (word == "DRAINING")
        elif word == "DRAIN":
            fits = node.state.is_drained
        elif word in ("IDLE", "ALLOCATED", "MIXED"):
            fits = word in flags and node.state.is_in_service
        else:
            fits = word in flags or (word == "MAINT" and "MAINTENANCE" in flags)
        if fits:
            found.add(node.name)
    return frozenset(found & {*known.cluster.hosts})


def members_in(known: Inventory, hostlist: str, option: str) -> frozenset[str]:
    """The hosts of a hostlist. Raises InputError if one is no member of the cluster."""
    named = frozenset(expand(hostlist))
    unknown = named - {*known.cluster.hosts}
    if unknown:
        raise InputError(f"{option} {fold(unknown)}: not in {known.path}. {known_words(known)}")
    return named


def known_words(known: Inventory) -> str:
    """What words there are, as two sentences."""
    partitions = ", ".join(one.name for one in known.cluster.partitions)
    return (
        f"Hosts: {fold(known.cluster.hosts)}. Groups: {ALL}, {', '.join(ROLES)}, {GPU}, the partitions {partitions}, "
        "and states such as idle and drained."
    )


def ask_nodes(known: Inventory, transport: Transport) -> tuple[Node, ...]:
    """Slurm's nodes now, from the first controller that answers. Raises SlurmfabError if none does."""
    reasons = []
    for controller in known.cluster.controllers:
        try:
            return snapshot.ask_up(transport, controller, ("nodes",)).nodes
        except HostError as error:
            reasons.append(str(error))
    raise SlurmfabError("\n".join(reasons))


def gpus_of(cluster: Cluster, lock: Lock, node: str) -> int:
    """The number of a node's GPUs by `Gres` of the cluster file, or else those that the lock has."""
    settings = cluster.settings_of(node)
    if any(key.lower() == "gres" for key in settings):
        return sum(gpus_by_type(setting(settings, "Gres")).values())
    return len(lock.hosts[node].gpus) if node in lock.hosts else 0
