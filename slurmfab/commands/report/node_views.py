"""Each host as a page shows it: what Slurm says of it, what it has told of itself, and what the lock knows."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from slurmfab.cluster.facts import Gpu, Hardware, HostFacts
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.commands.report.section import Missing, Sources
from slurmfab.core.status.snapshot import Node
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.nodes.awake import SLEEPS
from slurmfab.on_hosts.agent.nodes.states import parse_reason

KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")  # the types of host keys of which the first one is shown

BROKEN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "NOT_RESPONDING", "INVAL", "INVALID_REG"})
"""States and flags of a node that is shown as down."""


class Look(NamedTuple):
    """How a state is shown: a class of the style sheet, a sign, and a word; never the colour alone."""

    css: str
    sign: str
    word: str


IDLE = Look("idle", "○", "idle")
PARTLY = Look("partly", "◐", "partly in use")
FULL = Look("full", "●", "in use")
DRAINING = Look("draining", "▽", "draining")
DRAINED = Look("drained", "✕", "drained")
DOWN = Look("down", "!", "down")
ASLEEP = Look("asleep", "z", "asleep")
AWAY = Look("away", "↻", "restarting or in maintenance")
UNKNOWN = Look("unknown", "?", "unknown")
NO_NODE = Look("none", "–", "no compute node")

LOOKS = (IDLE, PARTLY, FULL, DRAINING, DRAINED, DOWN, ASLEEP, AWAY, UNKNOWN)
"""The states of compute nodes in the order of the legend."""


@dataclass(frozen=True)
class NodeView:
    """One host of the cluster."""

    name: str
    roles: tuple[str, ...]  # its roles, such as `compute`
    look: Look
    state: str = ""  # Slurm's words for it; empty if unknown
    reason: str = ""  # why it is out of service; empty for a node in service
    by: str = ""  # who set the reason
    since: str = ""  # when, such as `2026-11-21T09:00:00`
    silence: str = ""  # why it did not answer over SSH; empty if it answered, or was not asked
    node: Node | None = None  # as Slurm knows it; `None` for a host that is no node, and while Slurm is unknown
    hardware: Hardware | None = None  # CPUs and memory; `None` if unknown
    gpus: tuple[Gpu, ...] = ()
    facts: HostFacts | None = None  # what it told this time; `None` if it did not answer, or was not asked
    lock: HostLock | None = None
    address: str = ""  # its address in the cluster file, or the first of its own
    partitions: tuple[str, ...] = ()  # the names of its partitions

    @property
    def is_node(self) -> bool:
        """Whether it is a compute node."""
        return "compute" in self.roles

    @property
    def gpu_count(self) -> int:
        """The number of its GPUs: Slurm's, or where that is unknown the one in the lock."""
        return self.node.gpus if self.node else len(self.gpus)

    @property
    def gpus_used(self) -> int:
        """The number of GPUs that jobs have."""
        return self.node.gpus_used if self.node else 0

    @property
    def slurm(self) -> str:
        """Its version of Slurm; empty if unknown."""
        return (self.facts.slurm_version if self.facts else "") or (self.node.version if self.node else "")

    @property
    def tenths_used(self) -> int:
        """How many tenths of its GPUs, or of its CPUs where it has none, jobs have."""
        if self.node is None:
            return 0
        used, total = (self.gpus_used, self.gpu_count) if self.gpu_count else (self.node.cpus_used, self.node.cpus)
        return min(10, round(10 * used / total)) if total else 0

    @property
    def gpu_words(self) -> str:
        """Its GPUs by type, such as `8 × a100`; empty for none."""
        return gpu_words(self.gpus)

    @property
    def host_key(self) -> str:
        """The fingerprint of its SSH host key, as OpenSSH prints it; empty if unknown."""
        keys = (self.facts.ssh_host_keys if self.facts else {}) or (self.lock.host_keys if self.lock else {})
        name = next((name for name in KEY_TYPES if name in keys), "")
        return fingerprint(keys[name]) if name else ""

    @property
    def tip(self) -> str:
        """Everything about it in one text, for who points at it."""
        parts = [f"{self.name}: {self.state or self.look.word}"]
        if self.reason:
            parts.append(f"reason: {self.reason}" + (f" ({self.by}, {self.since})" if self.by else ""))
        if self.node:
            parts.append(f"{self.node.cpus_used} of {self.node.cpus} CPUs in use")
            parts += [f"{self.gpus_used} of {self.gpu_count} GPUs in use"] if self.gpu_count else []
        parts += [f"did not answer over SSH: {self.silence}"] if self.silence else []
        return "\n".join(parts)


def views(sources: Sources) -> tuple[NodeView, ...]:
    """All hosts of the cluster, in the order of its file."""
    cluster = sources.inventory.cluster
    nodes = {} if isinstance(sources.status, Missing) else sources.status.seen.by_name
    facts = {} if isinstance(sources.facts, Missing) else sources.facts
    partitions = partitions_by_node(sources)
    return tuple(view(host, sources, nodes.get(host), facts.get(host), partitions) for host in cluster.hosts)


def view(
    host: str, sources: Sources, node: Node | None, facts: HostFacts | None, partitions: Mapping[str, tuple[str, ...]]
) -> NodeView:
    """One host. `node`: as Slurm knows it. `partitions`: names of partitions by node, from the cluster file."""
    cluster, lock = sources.inventory.cluster, sources.inventory.lock.hosts.get(host)
    roles = cluster.roles(host)
    is_out = node is not None and not node.state.is_in_service
    addresses = (facts.addresses if facts else ()) or (lock.addresses if lock else ())
    return NodeView(
        name=host,
        roles=roles,
        look=look_of(node) if "compute" in roles else NO_NODE,
        state=node.state.description if node else "",
        reason=parse_reason(node.state.reason).text if node and is_out else "",
        by=node.state.by if node and is_out and node.state.reason else "",
        since=node.state.since.replace("T", " ") if node and is_out and node.state.reason else "",
        silence=sources.silent.get(host, ""),
        node=node,
        hardware=(facts.hardware if facts else None) or (lock.hardware if lock else None),
        gpus=(facts.gpus if facts else ()) or (lock.gpus if lock else ()),
        facts=facts,
        lock=lock,
        address=cluster.addresses.get(host, "") or next(iter(addresses), ""),
        partitions=tuple(name for name in (node.partitions if node else ()) if name != commands.PARTITION)
        or partitions.get(host, ()),
    )


def look_of(node: Node | None) -> Look:
    """How the state of a compute node is shown."""
    if node is None:
        return UNKNOWN
    flags = node.state.flags
    if flags & SLEEPS and "DOWN" not in flags:
        return ASLEEP
    if flags & BROKEN:
        return DOWN
    if node.state.is_drained:
        return DRAINED if node.is_empty else DRAINING
    return use_of(node) if node.state.is_in_service else UNKNOWN if "UNKNOWN" in flags else AWAY


def use_of(node: Node) -> Look:
    """How a node in service is shown, by what jobs have of it."""
    if "ALLOCATED" in node.state.flags or (node.gpus and node.gpus_used == node.gpus):
        return FULL
    return PARTLY if "MIXED" in node.state.flags or node.cpus_used else IDLE


def partitions_by_node(sources: Sources) -> dict[str, tuple[str, ...]]:
    """The names of the partitions of each node, from the cluster file."""
    cluster = sources.inventory.cluster
    found: dict[str, tuple[str, ...]] = {}
    for partition in cluster.partitions:
        for node in cluster.nodes_in(partition):
            found[node] = (*found.get(node, ()), partition.name)
    return found


def gpu_words(gpus: Iterable[Gpu]) -> str:
    """GPUs by type, such as `8 × a100`; empty for none."""
    return ", ".join(f"{count} × {name or 'GPU'}" for name, count in Counter(gpu.type for gpu in gpus).items())


def fingerprint(key: str) -> str:
    """The fingerprint of a public key, as OpenSSH prints it; the key itself if it is not base64. `key`: in base64."""
    try:
        digest = hashlib.sha256(base64.b64decode(key, validate=True)).digest()
    except binascii.Error:
        return key
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def gib(mib: int) -> str:
    """An amount of memory for people, such as `503 GiB`."""
    return f"{mib / 1024:.0f} GiB" if mib >= 10 * 1024 else f"{mib / 1024:.1f} GiB"
