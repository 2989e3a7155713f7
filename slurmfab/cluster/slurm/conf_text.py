"""Parse the text of a slurm.conf, gres.conf or cgroup.conf as Slurm does, whoever wrote it.

Case of keys is ignored, `#` begins a comment, a backslash at the end of a line continues it, the last of repeated keys
counts, and a `DEFAULT` line is for all following lines of its kind (slurm.conf(5), parse_config.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import MOST_HOSTS, count_names, expand, zip_hostlists

Settings = Mapping[str, str]  # values by key in lower case

ASSIGNMENT = re.compile(r"([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"|(\S+))")
COMMENT = re.compile(r"(?<!\\)#.*")
CONTINUED = re.compile(r"(?<!\\)\\\s*$")
INCLUDE = re.compile(r"\s*include\s+(\S.*)", re.IGNORECASE)

REPEATED = ("slurmctldhost", "include", "prolog", "epilog", "downnodes")
"""Keys that may be repeated, where each value counts (slurm.conf(5))."""

WHOLE_LINES = ("downnodes",)  # keys of `REPEATED` whose line has further keys that belong to them

FORMER_CONTROLLERS = (("controlmachine", "controladdr"), ("backupcontroller", "backupaddr"))
"""Name and address of the primary controller and of the backup before SlurmctldHost, which Slurm still reads."""

ONE_EACH = ("nodeaddr", "nodehostname", "bcastaddr", "port")
"""Keys of a node line whose hostlist Slurm assigns to its nodes by position (slurm.conf(5), NodeAddr)."""

MOST_NAMES = 4 * MOST_HOSTS
"""The most nodes and device files that the lines of a file list in brackets, in sum.

All nodes that Slurm can have, with names, addresses and devices, are no more.
"""

SYNONYMS = {"features": "feature", "procs": "cpus", "sockets": "socketsperboard", "shared": "oversubscribe"}
"""Keys of node and partition lines with two names (slurm.conf(5))."""


@dataclass(frozen=True)
class NodeLine:
    """One line of a slurm.conf about compute nodes."""

    names: tuple[str, ...]  # the nodes, in its order
    settings: Settings  # settings of all its nodes
    # by key and node, settings that differ between its nodes
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def is_future(self) -> bool:
        """Whether its nodes are not there yet: Slurm knows them, and neither shows nor contacts them."""
        return self.settings.get("state", "").upper() == "FUTURE"

    def of(self, name: str, key: str) -> str:
        """The value of a key for one of its nodes; empty if the line does not set it."""
        return self.own[key].get(name, "") if key in self.own else self.settings.get(key, "")


@dataclass(frozen=True)
class ConfText:
    """The contents of one file."""

    settings: Settings  # values by key; the values of a key in `REPEATED` are joined by commas
    spelled: Mapping[str, str]  # by key in lower case, its spelling in the file, for all keys
    node_lines: tuple[NodeLine, ...]  # the node lines, in the file's order
    partitions: Mapping[str, Settings]  # the settings of each partition, by its name
    # keys and values of each line, for files such as gres.conf that consist of lines
    lines: tuple[Settings, ...] = field(default=(), repr=False)
    # `nodes` and `feature` of each NodeSet; only partitions may name one (slurm.conf(5), NodeSet)
    node_set_lines: Mapping[str, Settings] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> Mapping[str, NodeLine]:
        """The line of each compute node, without those that are not there yet."""
        return {name: line for line in self.node_lines if not line.is_future for name in line.names}

    @cached_property
    def future(self) -> Mapping[str, NodeLine]:
        """The line of each node that is not there yet (State=FUTURE)."""
        return {name: line for line in self.node_lines if line.is_future for name in line.names}

    @property
    def every_node(self) -> Mapping[str, NodeLine]:
        """The line of each node, whether it is there or not."""
        return {**self.nodes, **self.future}

    def partition_nodes(self, partition: Settings) -> tuple[str, ...]:
        """The nodes of a partition, with node sets resolved; a text that is no hostlist counts as one name."""
        value = partition.get("nodes", "")
        if value.upper() == "ALL":
            return tuple(self.nodes)
        names = names_in(value)
        return tuple(dict.fromkeys(one for name in names for one in self.node_sets.get(name, (name,))))

    @cached_property
    def node_sets(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes of each NodeSet: those that it lists, and those with one of its features."""
        return {name: tuple(self.nodes_of_set(settings)) for name, settings in self.node_set_lines.items()}

    def nodes_of_set(self, settings: Settings) -> Iterator[str]:
        """Yield the nodes of a NodeSet line, some perhaps twice."""
        yield from self.nodes if settings.get("nodes", "").upper() == "ALL" else names_in(settings.get("nodes", ""))
        features = split_commas(settings.get("feature", ""))
        for line in self.node_lines:
            if features & split_commas(line.settings.get("feature", "")):
                yield from line.names


def parse(text: str) -> ConfText:
    """Parse a file. Mistakes are not reported, as Slurm itself checks the file; they are read as far as possible.

    Lines that list more than `MOST_NAMES` are passed over: the file may be a host's that is hostile.
    """
    settings: dict[str, str] = {}
    spelled: dict[str, str] = {}
    node_lines: list[NodeLine] = []
    partitions: dict[str, Settings] = {}
    node_sets: dict[str, Settings] = {}
    defaults: dict[str, Settings] = {"nodename": {}, "partitionname": {}}
    lines = tuple(bounded(logical_lines(text)))
    for line in lines:
        spelled.update({key.lower(): key for key, _ in line})
        fields = {SYNONYMS.get(key.lower(), key.lower()): value for key, value in line}
        kind = line[0][0].lower()
        if kind == "nodeset":
            node_sets[fields[kind]] = without(fields, kind)
        elif kind not in defaults:
            take(settings, line)
        elif fields[kind].upper() == "DEFAULT":
            defaults[kind] = without({**defaults[kind], **fields}, kind)
        elif kind == "nodename":
            node_lines.append(node_line(fields[kind], {**defaults[kind], **without(fields, kind)}))
        else:
            partitions[fields[kind]] = {**defaults[kind], **without(fields, kind)}
    plain = tuple({key.lower(): value for key, value in line} for line in lines)
    return ConfText(with_controllers(settings), spelled, tuple(node_lines), partitions, plain, node_sets)


def logical_lines(text: str) -> Iterator[Sequence[tuple[str, str]]]:
    """Yield the keys and values of each line that has any."""
    for line in joined_lines(text):
        bare = line.replace("\\#", "#")
        included = INCLUDE.match(bare)
        if included:
            yield (("Include", included[1].strip()),)
            continue
        found = [(key, quoted or plain) for key, quoted, plain in ASSIGNMENT.findall(bare)]
        if found:
            yield found


def bounded(lines: Iterable[Sequence[tuple[str, str]]]) -> Iterator[Sequence[tuple[str, str]]]:
    """Yield the lines with at most `MOST_NAMES` in brackets; partitions name the same nodes over and over."""
    left = MOST_NAMES
    for line in lines:
        is_partition = line[0][0].lower() == "partitionname"
        count = 0 if is_partition else sum(count_names(value) for _, value in line if "[" in value)
        if count <= left:
            left -= count
            yield line


def joined_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments, each with those that continue it; a comment is never continued."""
    beginning = ""
    for line in text.splitlines():
        bare = beginning + COMMENT.sub("", line)
        continued = CONTINUED.search(bare)
        beginning = bare[: continued.start()] if continued else ""
        if not continued:
            yield bare
    if beginning:
        yield beginning


def take(settings: dict[str, str], line: Sequence[tuple[str, str]]) -> None:
    """Add a line to settings; a key in `REPEATED` collects its values."""
    first = line[0][0].lower()
    if first in WHOLE_LINES:
        line = ((first, line[0][1] + "".join(f" {key}={value}" for key, value in line[1:])),)
    for key, value in line:
        name = key.lower()
        settings[name] = f"{settings[name]},{value}" if name in REPEATED and name in settings else value


def with_controllers(settings: Settings) -> Settings:
    """Settings with SlurmctldHost instead of the keys that it replaced."""
    found = [
        f"{settings[name]}({settings[address]})" if address in settings else settings[name]
        for name, address in FORMER_CONTROLLERS
        if name in settings
    ]
    if not found or "slurmctldhost" in settings:
        return settings
    former = {key for pair in FORMER_CONTROLLERS for key in pair}
    return {**{key: value for key, value in settings.items() if key not in former}, "slurmctldhost": ",".join(found)}


def names_in(hostlist: str) -> tuple[str, ...]:
    """The names of a hostlist; none for an empty text, and a text that is no hostlist as one name."""
    try:
        return expand(hostlist) if hostlist else ()
    except HostlistError:
        return (hostlist,)


def split_commas(value: str) -> frozenset[str]:
    """The words of a value, between its commas."""
    return frozenset(filter(None, map(str.strip, value.split(","))))


def without(settings: Settings, key: str) -> Settings:
    """Settings without one key."""
    return {name: value for name, value in settings.items() if name != key}


def node_line(hostlist: str, settings: Settings) -> NodeLine:
    """A line about the nodes of a hostlist; an invalid hostlist counts as one name."""
    names = names_in(hostlist)
    lists = {key: settings[key] for key in ONE_EACH if len(names) > 1 and key in settings}
    own = {key: dealt for key, value in lists.items() if (dealt := dealt_out(hostlist, value))}
    return NodeLine(names, {key: value for key, value in settings.items() if key not in own}, own)


def dealt_out(hostlist: str, values: str) -> Mapping[str, str]:
    """The values of a hostlist by node; empty if it is one value for all nodes, or has another length."""
    try:
        return zip_hostlists(hostlist, values)
    except HostlistError:
        return {}
