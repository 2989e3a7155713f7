"""A compute node, as Slurm's files are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurmfab.facts import Gpu, Hardware


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
