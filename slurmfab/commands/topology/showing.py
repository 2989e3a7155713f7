"""`fab topology`: asks hosts for their switches, and shows or writes what the cluster file would say."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import unified_diff

from pydantic import TypeAdapter

from slurmfab.base.answers import checked
from slurmfab.base.errors import SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, SOMETHING_TO_DO
from slurmfab.base.folding import fold_lines
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster, Switch
from slurmfab.cluster.inventory.edits.topology import with_topology
from slurmfab.commands.topology import fabric
from slurmfab.commands.topology.fabric import Neighbours
from slurmfab.core.engine import file_writing, session
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.engine.summary import command_for
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value

NO_SWITCH = (
    "no switch is seen from here: neither lldpctl nor networkctl names one, and no host has ibnetdiscover that shows "
    "this node. LLDP needs lldpd on the node, and a switch that sends it"
)


def show(cluster: str, interface: str, output: Output, *, writes: bool) -> int:
    """Show the switches as the cluster file would have them, or write them into it.

    `interface`: the only one on which LLDP counts; empty for all. Returns the exit code: 4 if the file would change, 1
    if the switch of a node is not known. Raises SlurmfabError if the file could not be written.
    """
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("topology"))
    with session.ending(run, tells=False):
        return proposed(run, interface, output, writes=writes)


def proposed(run: Run, interface: str, output: Output, *, writes: bool) -> int:
    """Ask, and show or write; see `show`."""
    known, nodes = run.inventory, run.inventory.cluster.compute_nodes
    hostnames = {one.hostname.lower(): name for name, one in known.lock.hosts.items() if one.hostname}
    seen, lost = gather(run, run.hosts)
    connected = fabric.by_lldp(seen, nodes, hostnames, interface)
    for host in (host for host, found in seen.items() if found.has_tool and not interface):
        answer = gather(run, (host,), asks_fabric=True)[0].get(host, Neighbours())
        if there := fabric.by_fabric(answer, {one: name for one, name in hostnames.items() if name in nodes}):
            connected = there
            break
    missing = [(node, lost.get(node, NO_SWITCH)) for node in nodes if node not in connected]
    if missing:
        write("\n".join(f"{line}." for line in fold_lines(missing)), output.stream)
        return FAILURE
    return told(run, fabric.tree({**connected, **of_future_nodes(known.cluster)}), output, writes=writes)


def of_future_nodes(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """The switch of each node that is not there yet, by the cluster file, since nobody can ask it."""
    return {node: (one.name,) for one in cluster.topology for node in one.nodes if node in cluster.future_settings}


def gather(
    run: Run, hosts: Iterable[str], *, asks_fabric: bool = False
) -> tuple[dict[str, Neighbours], dict[str, str]]:
    """What hosts see, and why others do not say."""
    model, request = TypeAdapter(Neighbours), {"op": "neighbours", "fabric": asks_fabric}

    def ask(host: str) -> Neighbours:
        value = answer_value(host, run.transport.call(host, request), "neighbours")
        return checked(host, model, value, "neighbours")

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
    if {*run.inventory.cluster.topology} == {*switches}:
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
