"""Compute nodes and partitions of an old cluster, as groups and entries of a cluster file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from slurmfab.base.hostlist import fold
from slurmfab.cluster.facts import Hardware
from slurmfab.cluster.slurm import keys, meaning
from slurmfab.cluster.slurm.meaning import ONE
from slurmfab.cluster.slurm.versions import SlurmVersion, complaints
from slurmfab.commands.import_cluster.draft import Comments, PartitionDraft, old_lines
from slurmfab.commands.import_cluster.old_cluster import OldCluster

LAYOUT = ("boards", "socketsperboard", "corespersocket", "threadspercore", "cpus")
"""Keys of a node's cores, of which Slurm completes the missing ones."""

DISCOVERED = (*LAYOUT, "realmemory", "gres")
"""Keys that slurmfab writes from a node's hardware; they are given only where slurm.conf says otherwise."""

ELSEWHERE = ("nodeaddr", "nodehostname", "state")  # keys that a group of nodes cannot have

OWN_PARTITION = "slurmfab"

Settings = Mapping[str, str]


def spelled(table: Mapping[str, keys.Key], key: str) -> str:
    """A key as the manual spells it."""
    return table[key].name if key in table else key


@cache
def unknown(kind: str, key: str, version: SlurmVersion) -> str:
    """Why a version has no such key in the lines of one kind; empty if it has. `kind`: `node` or `partition`."""
    names = {"node": ((key,), ()), "partition": ((), (key,))}[kind]
    return next((found.partition(": ")[2] for found in complaints(version, {}, {}, *names)), "")


def unknown_keys(old: OldCluster) -> Iterator[tuple[str, str, str]]:
    """Yield kind of line, key and reason of each key of nodes and partitions that the installed Slurm has not."""
    of_nodes = dict.fromkeys(key for line in old.conf.node_lines for key in (*line.settings, *line.own))
    of_partitions = dict.fromkeys(key for line in old.conf.partitions.values() for key in line)
    for kind, found, table in (("node", of_nodes, keys.NODE), ("partition", of_partitions, keys.PARTITION)):
        for key in found:
            if why := unknown(kind, key, old.version):
                yield kind, spelled(table, key), why


def node_settings(old: OldCluster) -> dict[str, Settings]:
    """By compute node, the keys of its line that its hardware does not give, without Slurm's defaults."""
    found: dict[str, Settings] = {}
    for line in old.conf.node_lines:
        if line.is_future:
            continue
        shared = {
            spelled(keys.NODE, key): value
            for key, value in line.settings.items()
            if key not in (*DISCOVERED, *ELSEWHERE)
            and meaning.meaning(key, value, meaning.NODE) != meaning.NODE.get(key)
        }
        own = [key for key in line.own if key not in ELSEWHERE]
        for name in line.names:
            mine = {spelled(keys.NODE, key): line.of(name, key) for key in own}
            found[name] = {**shared, **mine} if mine else shared
            if name not in old.found.facts:
                found[name] = {**found[name], **whole_line(line.settings)}
    return found


def future_settings(old: OldCluster) -> dict[str, Settings]:
    """By node that is not there yet, the keys of its line."""
    return {
        name: {
            spelled(keys.NODE, key): value
            for key, value in line.settings.items()
            if key not in ELSEWHERE and not (key in LAYOUT and meaning.too_many_cpus(line.settings))
        }
        for name, line in old.conf.future.items()
    }


def whole_line(line: Settings) -> Settings:
    """What a line says of a node that was never seen: all of it, because no hardware is known that would give it."""
    whole = meaning.node_meanings(line)
    gres = {"Gres": line["gres"]} if line.get("gres") else {}
    told = ("realmemory",) if meaning.too_many_cpus(line) else (*LAYOUT, "realmemory")
    return {spelled(keys.NODE, key): whole[key] for key in told if key in whole} | gres


def corrected(old: OldCluster, settings: Settings, node: str, key: str, actual: str) -> Settings:
    """A node's settings with what a key of slurm.conf needs to have this value there."""
    low = key.lower()
    if low in LAYOUT:
        facts = old.found.facts.get(node)
        return {**settings, **layout(old.conf.nodes[node].settings, settings, facts.hardware if facts else None)}
    value = actual or meaning.NODE.get(low, "")
    is_possible = value and low not in ELSEWHERE and not unknown("node", key, old.version)
    return {**settings, key: value} if is_possible else settings


def layout(line: Settings, settings: Settings, hardware: Hardware | None) -> Settings:
    """A node's cores as its line, or with the same settings Slurm's layout, has them; less what hardware tells."""
    if meaning.too_many_cpus(line):
        return settings
    given = {spelled(keys.NODE, key): line[key] for key in LAYOUT if key in line}
    if not given.items() <= settings.items():
        return given
    whole = meaning.node_meanings(line)
    completed = {spelled(keys.NODE, key): whole[key] for key in LAYOUT if key in whole and key != "cpus"}
    return {key: value for key, value in completed.items() if str(getattr(hardware, key, "")) != value}


def partitions(old: OldCluster) -> Iterator[PartitionDraft]:
    """Yield the partitions, with node sets resolved and without Slurm's defaults and slurmfab's own partition."""
    comments = dict(line_comments(old, "partitionname"))
    for name, line in old.conf.partitions.items():
        if name.lower() == OWN_PARTITION:
            continue
        settings = {
            spelled(keys.PARTITION, key): value
            for key, value in line.items()
            if key != "nodes"
            and meaning.meaning(key, value, meaning.PARTITION) != meaning.PARTITION.get(key)
            and not unknown("partition", key, old.version)
        }
        every = line.get("nodes", "").upper() == "ALL"
        known = tuple(node for node in old.conf.partition_nodes[name] if node in old.conf.every_node)
        yield PartitionDraft(name, "ALL" if every else known, settings, comments.get(name, ()))


def line_comments(old: OldCluster, kind: str) -> Iterator[tuple[str, Comments]]:
    """Yield the name in each `nodename` or `partitionname` line with comments above it and above its defaults."""
    before: Comments = ()
    for line in old_lines(old.text):
        if line.kind == kind:
            before = (*before, *line.comments)
            if line.pairs[0][1].upper() != "DEFAULT":
                yield line.pairs[0][1], before
                before = ()


def node_comments(old: OldCluster) -> dict[str, Comments]:
    """The comments above the line of each compute node that has any."""
    above = [comments for _, comments in line_comments(old, "nodename")]
    return {
        name: comments
        for line, comments in zip(old.conf.node_lines, above, strict=False)
        for name in line.names
        if comments
    }


def other_defaults(old: OldCluster) -> Iterator[str]:
    """Yield which partitions want to be the default and are not."""
    lines = ({key.lower(): value for key, value in line.pairs} for line in old_lines(old.text))
    asking = [one["partitionname"] for one in lines if "partitionname" in one and one.get("default", "").lower() in ONE]
    if asking[:-1]:
        yield f"Default=YES of {', '.join(asking[:-1])} is not in the cluster file: Slurm takes the last, {asking[-1]}."


def remarks(old: OldCluster) -> Iterator[str]:
    """Yield what of the nodes' and partitions' lines is not kept, and what people should know of them."""
    for kind, key, why in unknown_keys(old):
        yield f"{key} of a {kind} is left out: {why}."
    for node_set, settings in old.conf.node_set_lines.items():
        if settings.get("feature"):
            yield (
                f"NodeSet {node_set} has all nodes with Feature={settings['feature']}; the partitions list these nodes "
                "by name now, so a node that is added later joins them by name as well."
            )
    for line in old.conf.node_lines:
        if reason := meaning.too_many_cpus(line.settings):
            yield f"CPUs, sockets, cores and threads of {fold(line.names)} are not in the cluster file: {reason}."
    yield from other_defaults(old)
    states: dict[str, list[str]] = {}
    for node in old.nodes:
        state = old.node_setting(node, "state")
        if state.lower() not in ("", "unknown"):
            states.setdefault(state, []).append(node)
    for state, names in states.items():
        yield (
            f"State={state} of {', '.join(names)} is not in the cluster file: slurmctld keeps the states of nodes in "
            "its own files. The line stays as long as slurm.conf does."
        )
    if down := old.setting("DownNodes"):
        yield (
            f"DownNodes is not in the cluster file ({down}): slurmctld keeps the states of nodes in its own files. The "
            "line stays as long as slurm.conf does."
        )
