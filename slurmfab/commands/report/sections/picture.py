"""The cluster as a picture: a tile for each node, by switch or group, and the partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurmfab.base.hostlist import fold
from slurmfab.base.markup import fill
from slurmfab.commands.report.node_views import IDLE, LOOKS, Look, NodeView, views
from slurmfab.commands.report.section import Missing, Section, Sources
from slurmfab.core.status.cluster_state import Partition, StateGroup

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


def partitions(sources: Sources) -> list[tuple[Partition, str]]:
    """Each partition, and how many of its nodes are in service; empty while Slurm does not answer."""
    status = sources.status
    if isinstance(status, Missing):
        return []
    nodes = ((one, status.nodes_of(one.name)) for one in status.partitions)
    return [(one, f"{sum(node.state.is_in_service for node in some)} of {len(some)}") for one, some in nodes]


def out_of_service(sources: Sources) -> list[tuple[Look, str, StateGroup]]:
    """The nodes out of service with the same state and reason: their look, their names as a hostlist, and these."""
    status = sources.status
    if isinstance(status, Missing):
        return []
    looks = {view.name: view.look for view in views(sources)}
    seen = status.seen.by_name
    return [
        (looks.get(group.nodes[0], IDLE), fold(group.nodes), group)
        for group in status.groups
        if not seen[group.nodes[0]].state.is_in_service
    ]
