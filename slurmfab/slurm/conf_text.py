"""Parse the text of a slurm.conf, gres.conf or cgroup.conf as Slurm does, whoever wrote it.

Case of keys is ignored, `#` begins a comment, a backslash at the end of a line continues it, the last of repeated keys
counts, and a `DEFAULT` line is for all following lines of its kind (slurm.conf(5), parse_config.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slurmfab.errors import HostlistError
from slurmfab.hostlist import expand, zip_hostlists

Settings = Mapping[str, str]
"""Values by key in lower case."""

ASSIGNMENT = re.compile(r"([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"|(\S+))")
COMMENT = re.compile(r"(?<!\\)#.*")
INCLUDE = re.compile(r"\s*include\s+(\S.*)", re.IGNORECASE)

REPEATED = ("slurmctldhost", "include", "prolog", "epilog", "nodeset", "downnodes")
"""Keys that may be repeated, where each value counts (slurm.conf(5))."""

ONE_EACH = ("nodeaddr", "nodehostname", "bcastaddr", "port")
"""Keys of a node line whose hostlist Slurm assigns to its nodes by position (slurm.conf(5), NodeAddr)."""

SYNONYMS = {"features": "feature", "procs": "cpus", "sockets": "socketsperboard", "shared": "oversubscribe"}
"""Keys of node and partition lines with two names (slurm.conf(5))."""


@dataclass(frozen=True)
class NodeLine:
    """One line of a slurm.conf about compute nodes.

    Args:
        names: the nodes, in its order.
        settings: settings of all its nodes.
        own: by key and node, settings that differ between its nodes.
    """

    names: tuple[str, ...]
    settings: Settings
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, name: str, key: str) -> str:
        """The value of a key for one of its nodes; empty if the line does not set it."""
        return self.own[key].get(name, "") if key in self.own else self.settings.get(key, "")


@dataclass(frozen=True)
class ConfText:
    """The contents of one file.

    Args:
        settings: values by key; the values of a key in `REPEATED` are joined by commas.
        spelled: by key in lower case, its spelling in the file, for all keys.
        node_lines: the node lines, in the file's order.
        partitions: the settings of each partition, by its name.
        lines: keys and values of each line, for files such as gres.conf that consist of lines.
    """

    settings: Settings
    spelled: Mapping[str, str]
    node_lines: tuple[NodeLine, ...]
    partitions: Mapping[str, Settings]
    lines: tuple[Settings, ...] = field(default=(), repr=False)

    @property
    def nodes(self) -> Mapping[str, NodeLine]:
        """The line of each compute node."""
        return {name: line for line in self.node_lines for name in line.names}


def parse(text: str) -> ConfText:
    """Parse a file. Mistakes are not reported, as Slurm itself checks the file; they are read as far as possible."""
    settings: dict[str, str] = {}
    spelled: dict[str, str] = {}
    node_lines: list[NodeLine] = []
    partitions: dict[str, Settings] = {}
    defaults: dict[str, Settings] = {"nodename": {}, "partitionname": {}}
    lines = tuple(logical_lines(text))
    for line in lines:
        spelled.update({key.lower(): key for key, _ in line})
        fields = {SYNONYMS.get(key.lower(), key.lower()): value for key, value in line}
        kind = line[0][0].lower()
        if kind not in defaults:
            take(settings, line)
        elif fields[kind].upper() == "DEFAULT":
            defaults[kind] = without({**defaults[kind], **fields}, kind)
        elif kind == "nodename":
            node_lines.append(node_line(fields[kind], {**defaults[kind], **without(fields, kind)}))
        else:
            partitions[fields[kind]] = {**defaults[kind], **without(fields, kind)}
    plain = tuple({key.lower(): value for key, value in line} for line in lines)
    return ConfText(settings, spelled, tuple(node_lines), partitions, plain)


def logical_lines(text: str) -> Iterator[Sequence[tuple[str, str]]]:
    """Yield the keys and values of each line that has any."""
    for line in text.replace("\\\n", "").splitlines():
        bare = COMMENT.sub("", line).replace("\\#", "#")
        included = INCLUDE.match(bare)
        if included:
            yield (("Include", included[1].strip()),)
            continue
        found = [(key, quoted or plain) for key, quoted, plain in ASSIGNMENT.findall(bare)]
        if found:
            yield found


def take(settings: dict[str, str], line: Sequence[tuple[str, str]]) -> None:
    """Add a line to settings; for a key in `REPEATED` the whole line is one value."""
    first = line[0][0].lower()
    if first in REPEATED:
        value = line[0][1] + "".join(f" {key}={value}" for key, value in line[1:])
        settings[first] = f"{settings[first]},{value}" if first in settings else value
        return
    settings.update({key.lower(): value for key, value in line})


def without(settings: Settings, key: str) -> Settings:
    """Settings without one key."""
    return {name: value for name, value in settings.items() if name != key}


def node_line(hostlist: str, settings: Settings) -> NodeLine:
    """A line about the nodes of a hostlist; an invalid hostlist counts as one name."""
    try:
        names = expand(hostlist)
    except HostlistError:
        return NodeLine((hostlist,), settings)
    lists = {key: settings[key] for key in ONE_EACH if len(names) > 1 and key in settings}
    own = {key: dealt for key, value in lists.items() if (dealt := dealt_out(hostlist, value))}
    return NodeLine(names, {key: value for key, value in settings.items() if key not in own}, own)


def dealt_out(hostlist: str, values: str) -> Mapping[str, str]:
    """The values of a hostlist by node; empty if it is one value for all nodes, or has another length."""
    try:
        return zip_hostlists(hostlist, values)
    except HostlistError:
        return {}
