"""A compute node, as Slurm's files describe it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from slurmfab.cluster.facts import Gpu, Hardware

Kind = tuple[Hardware | None, tuple[Gpu, ...], tuple[tuple[str, str], ...], int, bool]


@dataclass(frozen=True)
class Node:
    """A compute node as slurm.conf describes it."""

    name: str  # NodeName
    # its address for the daemons (NodeAddr), preferably an IP address: a name that does not resolve delays every
    # start of slurmctld
    address: str
    hostname: str  # its own hostname; NodeHostname is written if it differs from the name
    # its hardware as in `slurmd -C`, with all of its memory; `None` for a node that is not there yet (State=FUTURE), of
    # which `settings` say everything
    hardware: Hardware | None
    gpus: tuple[Gpu, ...] = ()  # its GPUs, in the order of the numbers of their device files
    # the user's own keys of the node line, in any case; they have priority over discovered values
    settings: Mapping[str, str] = field(default_factory=dict)
    scratch: int = 0  # gigabytes of its disk that jobs reserve by the Gres `scratch`; 0 for no such Gres
    # whether shares of its GPUs (MPS, shards) get no type, because slurm.conf has them so already
    plain_shares: bool = False

    @cached_property
    def kind(self) -> Kind:
        """Everything except names and address: most lines are the same for all nodes of a kind."""
        return self.hardware, self.gpus, tuple(self.settings.items()), self.scratch, self.plain_shares


def one_of_each(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The first node of each kind, in their order; large clusters have few kinds."""
    found: dict[Kind, Node] = {}
    for node in nodes:
        found.setdefault(node.kind, node)
    return tuple(found.values())
