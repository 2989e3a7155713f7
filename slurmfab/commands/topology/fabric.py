"""From what hosts see to switches for topology.conf: which nodes are at which switch, and what joins the switches.

Slurm's tree needs one switch above all others, or no job could have nodes of two of them. A fabric with several core
switches is no tree, so they are one switch in it, as they are for the distance between nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from slurmfab.base.answers import STRICT, pattern
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold, natural
from slurmfab.base.objections import outweighs
from slurmfab.cluster.inventory.cluster import Switch

TOP = "fabric"  # the name of the switch that joins all others
NAME_LENGTH = 64
LLDP: Final = "lldp"
FABRIC: Final = "ibnetdiscover"

Told = Annotated[str, pattern(r"[^\pC\p{Zl}\p{Zp}]*", 255)]  # LLDP's longest name; one of InfiniBand has 64 bytes
Id = Annotated[str, pattern(r"[HS]-[0-9A-Fa-f]{1,16}", 18)]  # of an adapter or a switch of InfiniBand

_UNNAMED = re.compile(r"[A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Neighbours:
    """What a host sees; see `slurmfab.on_hosts.agent.facts.neighbours`."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    has_tool: bool = False
    lldp: Annotated[tuple[tuple[Told, Told], ...], Field(max_length=4096)] = ()
    switches: Annotated[tuple[tuple[Id, Told], ...], Field(max_length=1 << 16)] = ()
    links: Annotated[tuple[tuple[Id, Id, Told], ...], Field(max_length=1 << 20)] = ()


@dataclass(frozen=True)
class Place:
    """Where a node is, and who says so."""

    node: str  # its NodeName
    switches: tuple[str, ...]  # the names of its switches; several are one in the cluster file
    source: Literal["lldp", "ibnetdiscover"]  # the program that told it: of the node itself, or of a whole fabric
    by: tuple[str, ...]  # the hosts whose word it is


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
        found[node] = tuple(sorted({*map(short_name, names)}, key=natural))
    return {node: names for node, names in found.items() if names}


def by_fabric(seen: Neighbours, nodes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The names of each node's switches in an InfiniBand fabric.

    `nodes`: NodeName by hostname, which is the first word of an adapter's description.
    """
    names = {switch: short_name(name, switch) for switch, name in seen.switches}
    found: dict[str, set[str]] = {}
    for switch, peer, description in seen.links:
        # A host sets the description of its adapter itself, also to blanks.
        hostname = description.strip().partition(" ")[0].partition(".")[0].lower()
        if peer.startswith("H-") and hostname in nodes and switch in names:
            found.setdefault(nodes[hostname], set()).add(names[switch])
    return {node: tuple(sorted(there, key=natural)) for node, there in found.items()}


def placed(
    nodes: Iterable[str],
    lldp: Mapping[str, tuple[str, ...]],
    maps: Mapping[str, Mapping[str, tuple[str, ...]]],
    controller: str,
) -> tuple[dict[str, Place], dict[str, str]]:
    """The place of each node, and why that of others is not known.

    A map of the fabric counts for all nodes if it is the controller's, or where most of several hosts tell the same.
    Where none counts so, each node is where it says itself; and only if it says nothing, where another host sees it.

    Args:
        lldp: the switches that nodes tell of themselves.
        maps: by host, what it sees of the fabric: the switches of nodes.
    """
    agreed, own, single, unknown = {}, {}, {}, {}
    for node in nodes:
        told = grouped((there[node], host) for host, there in maps.items() if node in there)
        for names, hosts in told.items():
            place = Place(node, names, FABRIC, tuple(hosts))
            if outweighs(hosts, controller, max(2, len(maps))):
                agreed[node] = place
            elif len(told) == 1:
                single[node] = place
            if node in hosts:
                own[node] = Place(node, names, FABRIC, (node,))
        if len(told) > 1:
            unlike = "; ".join(f"{'-'.join(names)} by {fold(hosts)}" for names, hosts in told.items())
            unknown[node] = f"hosts with ibnetdiscover do not agree where it is ({unlike})"
    by_themselves = {node: Place(node, names, LLDP, (node,)) for node, names in lldp.items()}
    found = {**own, **agreed} if agreed else {**single, **own, **by_themselves}
    return {node: found[node] for node in nodes if node in found}, unknown


def short_name(name: str, otherwise: str = "") -> str:
    """A switch's name as SwitchName: of `MF0;leaf01:SX6036/U1` and `leaf01.example.org` it is `leaf01`.

    `otherwise`: the ID of a switch that nobody has named; managed ones alone have names.
    """
    inner = re.match(r"\w+;([^:;]+):", name)
    short = (inner[1] if inner else name).split(".")[0]
    if otherwise and not inner and not _UNNAMED.fullmatch(short):
        short = otherwise
    return re.sub(r"[^A-Za-z0-9_-]+", "-", short).strip("-_")[:NAME_LENGTH] or "switch"


def tree(connected: Mapping[str, Sequence[str]]) -> tuple[Switch, ...]:
    """The switches of nodes, in order, and the one above them if there are several.

    `connected`: the names of each node's switches. Nodes with the same ones are at one switch here.
    """
    leaves = grouped(("-".join(names)[:NAME_LENGTH], node) for node, names in connected.items())
    order = sorted(leaves, key=natural)
    found = tuple(Switch(name=name, nodes=tuple(sorted(leaves[name], key=natural))) for name in order)
    if len(found) == 1:
        return found
    top = next(name for name in (TOP, *(f"{TOP}-{number}" for number in range(len(leaves)))) if name not in leaves)
    return (*found, Switch(name=top, switches=tuple(order)))
