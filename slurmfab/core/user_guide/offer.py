"""What a cluster offers its users: partitions with their limits and nodes, GPUs, accounts and QOS."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.accounting import ROOT, Account
from slurmfab.cluster.inventory.cluster import Cluster, Partition
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.inventory.rules.slurm_conf import whole_number
from slurmfab.cluster.slurm.gres import SCRATCH, parsed
from slurmfab.cluster.slurm.limits import NORMAL
from slurmfab.cluster.slurm.node import Kind, Node
from slurmfab.cluster.slurm.node_lines import node_settings
from slurmfab.core.user_guide.amounts import exactly
from slurmfab.core.user_guide.limits import Cap, caps
from slurmfab.on_hosts.agent.client.amounts import seconds_of

EVERYBODY = ("", "ALL")  # values of AllowAccounts and the like that exclude nobody (slurm.conf(5))

_DEFAULT_MEMORY = {"defmempercpu": "for each CPU", "defmempernode": "on each node", "defmempergpu": "for each GPU"}
"""Keys of slurm.conf(5) and of its partitions, of which each may have one."""

_ALL_MEMORY = "all memory of its nodes"  # what a job gets by Slurm's own defaults

_LAYOUT = ("sockets", "corespersocket", "threadspercore")
_PARTS_OF_A_SOCKET_COUNT = ("boards", "socketsperboard")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


@dataclass(frozen=True)
class OfferedPartition:
    """A partition, as users see it."""

    name: str
    is_default: bool  # whether jobs that name none go there
    is_open: bool  # whether it takes and starts jobs (its State)
    hosts: str  # its nodes as a hostlist
    shapes: tuple[tuple[Shape, int], ...]  # how many of its nodes are alike; the most frequent first
    max_minutes: int | None  # time limit of jobs; `None` for none
    default_minutes: int | None  # time limit of jobs that name none; `None` for `max_minutes`
    default_memory: str  # what jobs get that ask for no memory, in words; empty where that is not known
    most_memory: int  # MiB that jobs may ask for on a node, by MaxMemPerNode; 0 for all that it has
    min_nodes: int
    max_nodes: int | None  # the most nodes of a job; `None` for no such limit
    is_exclusive: bool
    accounts: tuple[str, ...]  # which alone may use it; empty for all
    denied_accounts: tuple[str, ...]  # which may not
    groups: tuple[str, ...]  # UNIX groups which alone may use it; empty for all
    allowed_qos: tuple[str, ...]  # QOS with which alone jobs run there; empty for all
    denied_qos: tuple[str, ...]  # QOS with which they do not
    preempt_mode: str  # its PreemptMode; empty for that of the cluster
    qos: str  # its own QOS; empty for none
    caps: tuple[Cap, ...]  # what that QOS limits

    @property
    def count(self) -> int:
        """The number of its nodes."""
        return sum(count for _, count in self.shapes)

    @property
    def gpus(self) -> dict[str, int]:
        """The most GPUs of a node by type, the empty type for GPUs without one."""
        most: dict[str, int] = {}
        for shape, _ in self.shapes:
            for kind, count in shape.gpus:
                most[kind] = max(count, most.get(kind, 0))
        return most

    @property
    def features(self) -> tuple[str, ...]:
        """The features of its nodes, each once."""
        return tuple(dict.fromkeys(feature for shape, _ in self.shapes for feature in shape.features))


@dataclass(frozen=True)
class OfferedGpus:
    """The GPUs of one type."""

    type: str  # as in `--gres=gpu:TYPE:1`; empty for GPUs without a type
    total: int
    per_node: str  # how many a node has, such as `4` or `2 to 8`
    partitions: tuple[str, ...]  # in which jobs find them


@dataclass(frozen=True)
class Offer:
    """What a cluster offers its users."""

    cluster: Cluster
    partitions: tuple[OfferedPartition, ...]  # without hidden ones
    shapes: tuple[tuple[Shape, int], ...]  # how many of all nodes are alike; in the order of the cluster file
    gpus: tuple[OfferedGpus, ...]  # by type
    accounts: tuple[str, ...]  # in which users can be; empty where jobs need no account
    qos: tuple[str, ...]  # names of the QOS that jobs can ask for

    @property
    def default(self) -> OfferedPartition | None:
        """The partition of jobs that name none; `None` if there is none."""
        return next((one for one in self.partitions if one.is_default), None)

    @property
    def first(self) -> OfferedPartition | None:
        """The partition of examples: that of jobs that name none, or else the first one; `None` if all are hidden."""
        return self.default or next(iter(self.partitions), None)

    @property
    def first_with_gpus(self) -> OfferedPartition | None:
        """The partition of examples with GPUs; `None` without any."""
        return next((one for one in (self.default, *self.partitions) if one and one.gpus), None)


def offer(cluster: Cluster, lock: Lock) -> Offer:
    """What a cluster offers; nodes whose hardware the lock does not know have what the file says."""
    by_node = shapes(cluster, lock)
    memory = _default_memory(cluster, by_node.values())
    partitions = tuple(
        _partition(cluster, one, by_node, memory)
        for one in cluster.partitions
        if _values(one).get("hidden", "") != "YES"
    )
    return Offer(
        cluster,
        partitions,
        tuple(Counter(by_node.values()).items()),
        tuple(_gpus(partitions, by_node)),
        tuple(one.name for one in cluster.accounts if one.name != ROOT) if cluster.has_accounts else (),
        _qos(cluster) if cluster.has_accounts else (),
    )


def _values(partition: Partition) -> dict[str, str]:
    """The settings of a partition by key in lower case, words such as YES in upper case."""
    return {
        key.lower(): value.upper() if value.upper() in ("YES", "NO", "ALL", "UNLIMITED", "EXCLUSIVE") else value
        for key, value in partition.settings.items()
    }


def _partition(
    cluster: Cluster, partition: Partition, by_node: Mapping[str, Shape], default_memory: str
) -> OfferedPartition:
    """A partition, as users see it, with the memory of jobs that ask for none where it says nothing of it."""
    values = _values(partition)
    own = {key.lower(): value or "" for key, value in cluster.slurm_conf.items()}
    nodes = cluster.nodes_in(partition)
    qos = values.get("qos", "")
    limits = {one.name: one.settings for one in cluster.qos}.get(qos.lower(), {})
    return OfferedPartition(
        partition.name,
        values.get("default") == "YES",
        values.get("state", "UP").upper() == "UP",
        fold(nodes),
        tuple(Counter(by_node[node] for node in nodes).most_common()),
        _minutes(values.get("maxtime", "")),
        _minutes(values.get("defaulttime", "")),
        _memory_in_words(values) or default_memory,
        whole_number(values.get("maxmempernode", own.get("maxmempernode", ""))) or 0,
        whole_number(values.get("minnodes", "")) or 1,
        whole_number(values.get("maxnodes", "")),
        values.get("oversubscribe", values.get("shared", "")).partition(":")[0] == "EXCLUSIVE",
        _names(values, "allowaccounts"),
        _names(values, "denyaccounts"),
        _names(values, "allowgroups"),
        _names(values, "allowqos"),
        _names(values, "denyqos"),
        values.get("preemptmode", ""),
        qos,
        tuple(caps(limits, f"partition {partition.name}", is_qos=True)),
    )


def _minutes(text: str) -> int | None:
    """A time of slurm.conf in minutes, which Slurm rounds up; `None` for none."""
    found = seconds_of(text) if text else None
    return None if found is None else -(-found // 60)


def _names(values: Mapping[str, str], key: str) -> tuple[str, ...]:
    """The names in a list of a partition; empty where it is for everybody."""
    text = values.get(key, "")
    return () if text in EVERYBODY else tuple(name.strip() for name in text.split(",") if name.strip())


def _gpus(partitions: Iterable[OfferedPartition], by_node: Mapping[str, Shape]) -> Iterator[OfferedGpus]:
    """Yield the GPUs by type, in the order of the cluster file."""
    counts: dict[str, Counter[int]] = {}
    for shape, nodes in Counter(by_node.values()).items():
        for kind, count in shape.gpus:
            counts.setdefault(kind, Counter())[count] += nodes
    for kind, by_count in counts.items():
        least, most = min(by_count), max(by_count)
        yield OfferedGpus(
            kind,
            sum(count * nodes for count, nodes in by_count.items()),
            str(most) if least == most else f"{least} to {most}",
            tuple(one.name for one in partitions if kind in one.gpus),
        )


def _qos(cluster: Cluster) -> tuple[str, ...]:
    """The QOS that some user can ask for: `normal`, and those that an account or a user lists (`QOS`, `DefaultQOS`)."""
    of_users = (settings for user in cluster.users for settings in (user.settings, *user.associations.values()))
    lists = [
        value
        for settings in (*(account.settings for account in cluster.accounts), *of_users)
        for key, value in settings.items()
        if key.lower() in ("qos", "qoslevel", "defaultqos")
    ]
    listed = {name.strip().lstrip("+").lower() for text in lists for name in text.split(",")}
    return tuple(dict.fromkeys((NORMAL, *(one.name for one in cluster.qos if one.name in listed))))


def _default_memory(cluster: Cluster, found: Iterable[Shape]) -> str:
    """What a job gets that asks for no memory, by the cluster file, or else by the line that slurmfab writes."""
    own = {key.lower(): value or "" for key, value in cluster.slurm_conf.items()}
    if told := _memory_in_words(own):
        return told
    least = min((one.memory // one.cpus for one in set(found) if one.memory and one.cpus), default=0)
    return f"{exactly(least)} for each CPU" if least else ""


def _memory_in_words(settings: Mapping[str, str]) -> str:
    """What settings, keys in lower case, give a job that asks for no memory; empty if they say nothing of it."""
    for key, words in _DEFAULT_MEMORY.items():
        if key in settings:
            number = whole_number(settings[key])
            return f"{exactly(number)} {words}" if number else _ALL_MEMORY
    return ""


def caps_of_accounts(accounts: Iterable[Account]) -> dict[str, tuple[Cap, ...]]:
    """What no job of an account can exceed, by account; the limits of the accounts above it hold as well."""
    by_name = {one.name: one for one in accounts}
    found: dict[str, tuple[Cap, ...]] = {}
    for name, account in by_name.items():
        mine: list[Cap] = []
        above: Account | None = account
        seen: set[str] = set()
        while above is not None and above.name not in seen:
            seen.add(above.name)
            mine += caps(above.settings, f"account {above.name}", is_qos=False)
            above = by_name.get(above.parent)
        found[name] = tuple(mine)
    return found


@dataclass(frozen=True)
class Shape:
    """What a job can have of one node; 0 and empty for what is not known."""

    cpus: int = 0  # the CPUs that Slurm counts
    memory: int = 0  # MiB for jobs
    gpus: tuple[tuple[str, int], ...] = ()  # number of GPUs by type, the empty type for GPUs without one
    features: tuple[str, ...] = ()  # for `--constraint`
    scratch: int = 0  # gigabytes that jobs can reserve
    others: tuple[tuple[str, str], ...] = ()  # other generic resources by name, with their number in Slurm's form

    @property
    def gpu_count(self) -> int:
        """The number of GPUs of all types."""
        return sum(count for _, count in self.gpus)


def shapes(cluster: Cluster, lock: Lock) -> dict[str, Shape]:
    """The shape of each compute node of the cluster file. `lock`: what is known of the nodes' hardware."""
    by_kind: dict[Kind, Shape] = {}
    return {host: _shape(cluster, host, lock.hosts.get(host), by_kind) for host in cluster.compute_nodes}


def _shape(cluster: Cluster, host: str, known: HostLock | None, by_kind: dict[Kind, Shape]) -> Shape:
    """The shape of a node by the lock's entry, if it answered once; `by_kind` has those found before."""
    own = cluster.settings_of(host)
    scratch = cluster.scratch.of_node(host) if cluster.scratch else 0
    if known is None or known.hardware is None:
        return replace(shape_of(own), scratch=scratch)
    node = Node(host, host, host, known.hardware, known.gpus, own, scratch)
    if node.kind not in by_kind:
        by_kind[node.kind] = shape_of(node_settings(node, cluster.memory_margin))
    return by_kind[node.kind]


def shape_of(settings: Mapping[str, str]) -> Shape:
    """The shape of a node by the keys of its NodeName line (slurm.conf(5)). `settings`: values by key, in any case."""
    values = {key.lower(): str(value) for key, value in settings.items()}
    gpus: dict[str, int] = {}
    others: dict[str, str] = {}
    scratch = 0
    for device in filter(None, map(parsed, values.get("gres", "").split(","))):
        if device.name == "gpu":
            gpus[device.type] = gpus.get(device.type, 0) + whole(device.count)
        elif device.name == SCRATCH:
            scratch = whole(device.count)
        else:
            earlier = others.get(device.name)
            others[device.name] = str(whole(earlier) + whole(device.count)) if earlier else device.count
    named = values.get("features", values.get("feature", ""))
    return Shape(
        cpus_of(values),
        int(values["realmemory"]) if values.get("realmemory", "").isdecimal() else 0,
        tuple(gpus.items()),
        tuple(filter(None, named.split(","))),
        scratch,
        tuple(others.items()),
    )


def cpus_of(values: Mapping[str, str]) -> int:
    """The CPUs of a node line, keys in lower case: `CPUs`, or what the layout has; 0 if neither is there."""
    for key in ("cpus", "procs"):
        if values.get(key, "").isdecimal():
            return int(values[key])
    if not any(key in values for key in (*_LAYOUT, *_PARTS_OF_A_SOCKET_COUNT)):
        return 0
    return product(values.get(key, "1") for key in (*_LAYOUT, *_PARTS_OF_A_SOCKET_COUNT))


def product(numbers: Iterable[str]) -> int:
    """The product of numbers; 0 if one of them is none."""
    found = 1
    for number in numbers:
        found *= int(number) if number.isdecimal() else 0
    return found


def whole(count: str) -> int:
    """A number of generic resources; Slurm's letters are powers of 1024 (slurm.conf(5), Gres).

    >>> whole("4"), whole("2K")
    (4, 2048)
    """
    found = re.fullmatch(r"(\d+)([KMGTP]?)", count.upper())
    return int(found[1]) * 1024 ** _POWERS[found[2]] if found else 0
