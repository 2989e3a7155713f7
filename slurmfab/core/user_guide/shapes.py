"""What jobs find on compute nodes: CPUs, memory, GPUs, features; nodes that are alike for jobs have one shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.slurm.gres import SCRATCH, parsed
from slurmfab.cluster.slurm.node import Kind, Node
from slurmfab.cluster.slurm.node_lines import node_settings

_LAYOUT = ("sockets", "corespersocket", "threadspercore")
_PARTS_OF_A_SOCKET_COUNT = ("boards", "socketsperboard")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


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
        int(values["realmemory"]) if values.get("realmemory", "").isdigit() else 0,
        tuple(gpus.items()),
        tuple(filter(None, named.split(","))),
        scratch,
        tuple(others.items()),
    )


def cpus_of(values: Mapping[str, str]) -> int:
    """The CPUs of a node line, keys in lower case: `CPUs`, or what the layout has; 0 if neither is there."""
    for key in ("cpus", "procs"):
        if values.get(key, "").isdigit():
            return int(values[key])
    if not any(key in values for key in (*_LAYOUT, *_PARTS_OF_A_SOCKET_COUNT)):
        return 0
    return product(values.get(key, "1") for key in (*_LAYOUT, *_PARTS_OF_A_SOCKET_COUNT))


def product(numbers: Iterable[str]) -> int:
    """The product of numbers; 0 if one of them is none."""
    found = 1
    for number in numbers:
        found *= int(number) if number.isdigit() else 0
    return found


def whole(count: str) -> int:
    """A number of generic resources; Slurm's letters are powers of 1024 (slurm.conf(5), Gres).

    >>> whole("4"), whole("2K")
    (4, 2048)
    """
    found = re.fullmatch(r"(\d+)([KMGTP]?)", count.upper())
    return int(found[1]) * 1024 ** _POWERS[found[2]] if found else 0
