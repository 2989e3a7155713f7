"""From what hosts see to switches for topology.conf: which nodes are at which switch, and what joins the switches.

Slurm's tree needs one switch above all others, or no job could have nodes of two of them. A fabric with several core
switches is no tree, so they are one switch in it, as they are for the distance between nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from slurmfab.base.answers import STRICT, Phrase
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import natural
from slurmfab.cluster.inventory.cluster import Switch

TOP = "fabric"  # the name of the switch that joins all others
NAME_LENGTH = 64

_UNNAMED = re.compile(r"[A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Neighbours:
    """What a host sees; see `slurmfab.on_hosts.agent.facts.neighbours`."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    has_tool: bool = False
    lldp: Annotated[tuple[tuple[Phrase, Phrase], ...], Field(max_length=4096)] = ()
    switches: Annotated[tuple[tuple[Phrase, Phrase], ...], Field(max_length=1 << 16)] = ()
    links: Annotated[tuple[tuple[Phrase, Phrase, Phrase], ...], Field(max_length=1 << 20)] = ()


def by_lldp(
    seen: Mapping[str, Neighbours], nodes: Collection[str], hostnames: Collection[str], interface: str = ""
) -> dict[str, tuple[str, ...]]:
    """The names of each node's switches, by LLDP; of several, as of two that carry one bond, all.

    Args:
        hostnames: of the cluster's hosts, whose own LLDP daemons are no switches.
        interface: the only one that counts; empty for all.
    """
    own = {name.lower() for name in hostnames}
    found = {}
    for node in nodes:
        pairs = seen[node].lldp if node in seen else ()
        names = {name for at, name in pairs if interface in ("", at) and name.split(".")[0].lower() not in own}
        found[node] = tuple(sorted(map(short_name, names), key=natural))
    return {node: names for node, names in found.items() if names}


def by_fabric(seen: Neighbours, nodes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The names of each node's switches in an InfiniBand fabric.

    `nodes`: NodeName by hostname, which is the first word of an adapter's description.
    """
    names = {switch: short_name(name, switch) for switch, name in seen.switches}
    found: dict[str, set[str]] = {}
    for switch, peer, description in seen.links:
        node = (
            nodes.get(description.split()[0].split(".")[0].lower()) if peer.startswith("H-") and description else None
        )
        if node is not None and switch in names:
            found.setdefault(node, set()).add(names[switch])
    return {node: tuple(sorted(there, key=natural)) for node, there in found.items()}


def short_name(name: str, otherwise: str = "") -> str:
    """A switch's name as SwitchName: of `MF0;leaf01:SX6036/U1` and `leaf01.example.org` it is `leaf01`.

    `otherwise`: the ID of a switch that nobody has named; managed ones alone have names.
    """
    inner = re.match(r"\w+;([^:;]+):", name)
    short = (inner[1] if inner else name).split(".")[0]
    if otherwise and not inner and not _UNNAMED.fullmatch(short):
        short = otherwise
    return re.sub(r"[^A-Za-z0-9_-]+", "-", short).strip("-")[:NAME_LENGTH] or "switch"


def tree(connected: Mapping[str, Sequence[str]]) -> tuple[Switch, ...]:
    """The switches of nodes, in order, and the one above them if there are several.

    `connected`: the names of each node's switches. Nodes with the same ones are at one switch here.
    """
    leaves = grouped(("-".join(names)[:NAME_LENGTH], node) for node, names in connected.items())
    order = sorted(leaves, key=natural)
    found = tuple(Switch(name=name, nodes=tuple(sorted(leaves[name], key=natural))) for name in order)
    if len(found) == 1:
        return found
    top = TOP if TOP not in leaves else f"{TOP}-top"
    return (*found, Switch(name=top, switches=tuple(order)))
