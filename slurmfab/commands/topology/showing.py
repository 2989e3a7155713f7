"""`fab topology`: asks hosts for their switches, and shows or writes what the cluster file would say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import TypeVar

from pydantic import TypeAdapter

from slurmfab.base.answers import checked
from slurmfab.base.errors import SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, SOMETHING_TO_DO
from slurmfab.base.folding import fold_lines
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster, Switch
from slurmfab.cluster.inventory.edits.topology import with_topology
from slurmfab.commands.topology import fabric
from slurmfab.commands.topology.fabric import Neighbours, Place
from slurmfab.core.engine import file_writing, session
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.engine.summary import command_for
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value

WITNESSES = 3  # so many hosts tell of a fabric, if the controller does not: one that lies is one of them

Seen = TypeVar("Seen")

NO_SWITCH = (
    "no switch is seen from here: neither lldpctl nor networkctl names one, and no host has ibnetdiscover that shows "
    "this node. LLDP needs lldpd on the node, and a switch that sends it"
)


@dataclass(frozen=True)
class Proposed:
    """The switches that the cluster file would have."""

    version: int  # of this format: 1
    cluster: str  # the cluster's name
    places: tuple[Place, ...]  # the place of each node that is known
    unknown: Mapping[str, str]  # the other nodes, each with the reason; nothing is written then
    remarks: tuple[str, ...]  # what does not count, and why; for people
    exit_code: int  # of the task


def show(cluster: str, interface: str, output: Output, *, writes: bool) -> int:
    """Show the switches as the cluster file would have them, or write them into it.

    `interface`: the only one on which LLDP counts; empty for all. Returns the exit code: 4 if the file would change, 1
    if the switch of a node is not known. Raises SlurmfabError if the file could not be written.
    """
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("topology"))
    with session.ending(run, tells=False):
        found = proposed(run, interface, output, writes=writes)
    output.write_json(found)
    return found.exit_code


def proposed(run: Run, interface: str, output: Output, *, writes: bool) -> Proposed:
    """Ask, and show or write; see `show`."""
    known, nodes = run.inventory, run.inventory.cluster.compute_nodes
    hostnames = {one.hostname.lower(): name for name, one in known.lock.hosts.items() if one.hostname}
    seen, lost = gather(run, run.hosts, lambda one: one)
    lldp = fabric.by_lldp(seen, nodes, hostnames, interface)
    tools = [host for host, found in seen.items() if found.has_tool and not interface]
    maps, without_map = maps_of(run, tools, {one: name for one, name in hostnames.items() if name in nodes})
    places, unknown = fabric.placed(nodes, lldp, maps, run.controller)
    missing = {node: lost.get(node, unknown.get(node, NO_SWITCH)) for node in nodes if node not in places}
    remarks = (
        *(f"{host}: {why}. So its ibnetdiscover does not count" for host, why in without_map.items()),
        *uncounted(places, maps, run.controller),
    )
    if missing:
        write("\n".join(f"{line}." for line in (*fold_lines(missing.items()), *remarks)), output.stream)
        code = FAILURE
    else:
        words = grouped((whose(place, run.controller), node) for node, place in places.items())
        told_by = (f"  {fold(there)}: {word}" for word, there in words.items())
        write("\n".join(("Who says so:", *told_by, *(f"{one}." for one in remarks), "")), output.stream)
        connected = {node: place.switches for node, place in places.items()}
        switches = fabric.tree({**connected, **of_future_nodes(known.cluster)})
        code = told(run, switches, output, writes=writes)
    return Proposed(1, known.cluster.name, tuple(places.values()), missing, tuple(f"{one}." for one in remarks), code)


def whose(place: Place, controller: str) -> str:
    """Whose word the place of a node is."""
    program = "LLDP" if place.source == fabric.LLDP else "ibnetdiscover"
    if place.by == (place.node,):
        return f"{program} there"
    is_alone = len(place.by) == 1 and controller not in place.by
    return f"{program} of {fold(place.by)}{' alone, as nothing is seen from there' if is_alone else ''}"


def uncounted(
    places: Mapping[str, Place], maps: Mapping[str, Mapping[str, tuple[str, ...]]], controller: str
) -> Iterator[str]:
    """Yield the hosts whose map of the fabric does not count for the others."""
    for host, there in maps.items():
        unlike = [node for node, names in there.items() if node in places and places[node].switches != names]
        if unlike:
            yield (
                f"{host}: where its ibnetdiscover sees {fold(unlike)} does not count, because it is not what the "
                "controller or most of several hosts see. If it is right, have ibnetdiscover (infiniband-diags) on "
                f"{controller}, or on {WITNESSES} hosts in the fabric"
            )


def maps_of(
    run: Run, tools: Iterable[str], nodes: Mapping[str, str]
) -> tuple[dict[str, dict[str, tuple[str, ...]]], dict[str, str]]:
    """What hosts see of the InfiniBand fabric, and why others do not say: the controller alone if it sees any node.

    `nodes`: see `fabric.by_fabric`. Of many hosts a few are asked, as each asks every switch.
    """
    maps: dict[str, dict[str, tuple[str, ...]]] = {}
    without: dict[str, str] = {}
    for host in sorted(tools, key=lambda host: host != run.controller):
        found, lost = gather(run, (host,), lambda one: fabric.by_fabric(one, nodes), asks_fabric=True)
        without |= lost
        maps |= {one: there for one, there in found.items() if there}
        if run.controller in maps or len(maps) == WITNESSES:
            break
    return maps, without


def of_future_nodes(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """The switch of each node that is not there yet, by the cluster file, since nobody can ask it."""
    return {node: (one.name,) for one in cluster.topology for node in one.nodes if node in cluster.future_settings}


def gather(
    run: Run, hosts: Iterable[str], read: Callable[[Neighbours], Seen], *, asks_fabric: bool = False
) -> tuple[dict[str, Seen], dict[str, str]]:
    """What is read of what hosts see, and why others do not say."""
    model, request = TypeAdapter(Neighbours), {"op": "neighbours", "fabric": asks_fabric}

    def ask(host: str) -> Seen:
        value = answer_value(host, run.transport.call(host, request), "neighbours")
        return read(checked(host, model, value, "neighbours"))

    seen, lost = {}, {}
    for host, found in on_each(tuple(hosts), ask):
        if isinstance(found, SlurmfabError):
            lost[host] = str(found).removeprefix(f"{host}: ").removesuffix(".")
        else:
            seen[host] = found
    return {host: seen[host] for host in run.hosts if host in seen}, lost


def told(run: Run, switches: tuple[Switch, ...], output: Output, *, writes: bool) -> int:
    """Show how the cluster file would change, or write it."""
    path = run.inventory.path
    if as_sets(run.inventory.cluster.topology) == as_sets(switches):
        write(f"{path} has these switches already.", output.stream)
        return DONE
    before = loading.read_text(path)
    text = with_topology(before, switches)
    lines = unified_diff(before.splitlines(), text.splitlines(), str(path), "as hosts see it", lineterm="", n=1)
    write("\n".join(lines), output.stream)
    if not writes:
        write(f"\nTo write that: {command_for('topology --write', path)}", output.stream)
        return SOMETHING_TO_DO
    file_writing.write(run, text)
    write(f"\nWritten to {path}. Next: {command_for('plan', path)}", output.stream)
    return DONE


def as_sets(switches: Iterable[Switch]) -> set[tuple[str, frozenset[str], frozenset[str]]]:
    """Switches without any order: a cluster file has that of hostlists."""
    return {(one.name, frozenset(one.nodes), frozenset(one.switches)) for one in switches}
