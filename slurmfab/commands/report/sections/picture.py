"""The cluster as a picture: a tile for each node, by switch or group, and the partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slurmfab.base.hostlist import fold
from slurmfab.base.markup import fill
from slurmfab.commands.report.node_views import IDLE, LOOKS, NodeView, views
from slurmfab.commands.report.section import Missing, Section, Sources
from slurmfab.core.status import cluster_state
from slurmfab.core.status.cluster_state import Usage

MOST_LARGE = 64
"""In a group of up to this number of nodes, each tile shows the node's name; in a larger one its sign alone."""

MOST_SQUARES = 16  # up to this number of GPUs of a node, each is a square; more are a bar, as in dense groups


@dataclass(frozen=True)
class Group:
    """Nodes that are shown together."""

    title: str  # such as `Switch leaf1`, or the nodes as a hostlist
    about: str  # their hardware in a few words
    nodes: tuple[NodeView, ...]

    @property
    def is_large(self) -> bool:
        """Whether the tiles are large enough for names."""
        return len(self.nodes) <= MOST_LARGE


class Row(NamedTuple):
    """A partition with its figures."""

    name: str
    is_default: bool
    state: str
    nodes: str
    serving: str
    gpus: Usage
    cpus: Usage
    running: int
    pending: int
    max_time: str


class Out(NamedTuple):
    """Nodes out of service for the same reason."""

    sign: str
    css: str
    nodes: str
    state: str
    reason: str
    by: str
    since: str


def section(sources: Sources) -> Section | None:
    """The picture; `None` for a page that is about checks alone."""
    if isinstance(sources.status, Missing):
        return None
    nodes = tuple(view for view in views(sources) if view.is_node)
    shown = Counter(view.look.css for view in nodes)
    out = out_of_service(sources)
    used = sorted({(view.gpus_used, view.gpu_count) for view in nodes if view.gpu_count})
    return Section(
        "cluster",
        "The cluster",
        fill(
            "picture.html.j2",
            groups=groups(sources, nodes),
            looks=[(look, shown[look.css]) for look in LOOKS if look.css in shown],
            rows=partitions(sources),
            out=out,
            used=used,
            silent=any(view.silence for view in nodes),
            most_squares=MOST_SQUARES,
            controllers=sources.status.seen.controllers,
        ),
        badge=f"{sum(shown.get(look.css, 0) for look in LOOKS[3:6])} out" if out else "",
        tone="watch",
    )


def groups(sources: Sources, nodes: Sequence[NodeView]) -> list[Group]:
    """The nodes by switch, where the cluster file has a topology, and else by its groups of nodes."""
    by_name = {node.name: node for node in nodes}
    cluster = sources.inventory.cluster
    racks = [(f"Switch {switch.name}", switch.nodes) for switch in cluster.topology if switch.nodes]
    placed = {name for _, names in racks for name in names}
    racks += [("", left) for group in cluster.nodes if (left := tuple(n for n in group.hosts if n not in placed))]
    found = []
    for title, names in racks:
        members = tuple(by_name[name] for name in names if name in by_name)
        if members:
            found.append(Group(title or fold(names), about(members), members))
    return found


def about(nodes: Iterable[NodeView]) -> str:
    """The hardware of nodes in a few words, such as `12 nodes, 64 CPUs, 8 × a100`."""
    members = tuple(nodes)
    words = [f"{len(members)} node{'' if len(members) == 1 else 's'}"]
    cpus = {view.hardware.CPUs for view in members if view.hardware}
    words += [f"{min(cpus)} CPUs" if len(cpus) == 1 else f"{min(cpus)} to {max(cpus)} CPUs"] if cpus else []
    gpus = {view.gpu_words for view in members}
    words += ["different GPUs" if len(gpus) > 1 else gpus.pop()] if gpus != {""} else []
    return ", ".join(words)


def partitions(sources: Sources) -> list[Row]:
    """The partitions with their figures; empty while Slurm does not answer."""
    status = sources.status
    if isinstance(status, Missing):
        return []
    rows = []
    for one in status.seen.partitions:
        nodes = status.nodes_of(one.name)
        count = status.by_partition.get(one.name)
        serving = sum(node.state.is_in_service for node in nodes)
        rows.append(
            Row(
                one.name,
                one.is_default,
                one.state.lower(),
                fold(node.name for node in nodes),
                f"{serving} of {len(nodes)}",
                cluster_state.gpus(nodes),
                cluster_state.cpus(nodes),
                count.running if count else 0,
                count.pending if count else 0,
                one.max_time.lower(),
            )
        )
    return rows


def out_of_service(sources: Sources) -> list[Out]:
    """The nodes out of service, those with the same state and reason together."""
    status = sources.status
    if isinstance(status, Missing):
        return []
    looks = {view.name: view.look for view in views(sources)}
    found = []
    for group in status.groups:
        look = looks.get(group.nodes[0], IDLE)
        by_name = status.seen.by_name
        if not by_name[group.nodes[0]].state.is_in_service:
            since = group.since.replace("T", " ")
            found.append(Out(look.sign, look.css, fold(group.nodes), group.state, group.reason, group.by, since))
    return found
