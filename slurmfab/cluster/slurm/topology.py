"""The text of topology.conf, from the switches of the cluster file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from slurmfab.base.hostlist import fold
from slurmfab.cluster.slurm.formatting import assignment
from slurmfab.cluster.slurm.render import fill


class Switch(Protocol):
    """A switch, with the nodes or the switches that are connected to it (topology.conf(5))."""

    @property
    def name(self) -> str:
        """SwitchName."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The compute nodes at it."""

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches at it."""

    @property
    def speed(self) -> str:
        """LinkSpeed; empty for none."""


def topology_conf(switches: Iterable[Switch], nodes: frozenset[str]) -> str:
    """The text of topology.conf with known nodes, and switches that have some: slurmctld starts with no others."""
    members = {switch.name: tuple(node for node in switch.nodes if node in nodes) for switch in switches}
    below = {switch.name: switch.switches for switch in switches}
    used = {name for name, there in members.items() if there}
    while more := {name for name, inner in below.items() if name not in used and used.intersection(inner)}:
        used |= more
    lines = []
    for switch in switches:
        if switch.name in used:
            inner = tuple(name for name in switch.switches if name in used)
            values = {
                "SwitchName": switch.name,
                "Nodes": fold(members[switch.name]) if members[switch.name] else "",
                "Switches": fold(inner) if inner else "",
                "LinkSpeed": switch.speed,
            }
            lines.append(" ".join(assignment(key, value) for key, value in values.items() if value))
    return fill("topology.conf", {"lines": lines})
