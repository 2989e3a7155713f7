"""A compute node, as Slurm's files are made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from slurmfab.facts import Gpu, Hardware

Kind = tuple[Hardware, tuple[Gpu, ...], tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Node:
    """A compute node as slurm.conf describes it.

    Args:
        name: NodeName.
        address: where the daemons reach it (NodeAddr); best an IP address, because a name that does not resolve
            holds up every start of slurmctld.
        hostname: what the host calls itself; NodeHostname is written where it is not the name.
        hardware: what `slurmd -C` counts there, with all of its memory.
        gpus: in the order of their device files' numbers.
        settings: the user's own keys of the node line; they win over what was discovered, whatever their case.
    """

    name: str
    address: str
    hostname: str
    hardware: Hardware
    gpus: tuple[Gpu, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def kind(self) -> Kind:
        """All but its names and addresses: what most of Slurm's files say is the same for all nodes of a kind."""
        return self.hardware, self.gpus, tuple(self.settings.items())


def one_of_each(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The first node of each kind, in their order: ten thousand nodes are of a few kinds."""
    found: dict[Kind, Node] = {}
    for node in nodes:
        found.setdefault(node.kind, node)
    return tuple(found.values())
