"""The text of a slurm.conf, gres.conf or cgroup.conf as plain values, read as Slurm reads it, whoever wrote it.

Keys have no case, a `#` begins a comment, a backslash at the end of a line continues it, of a key given twice the last
counts, and a line for `DEFAULT` is about all lines of its kind that follow (slurm.conf(5), parse_config.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slurmfab.errors import HostlistError
from slurmfab.hostlist import expand, zip_hostlists

Settings = Mapping[str, str]
"""Values by key, the keys in small letters."""

ASSIGNMENT = re.compile(r"([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"|(\S+))")
COMMENT = re.compile(r"(?<!\\)#.*")
INCLUDE = re.compile(r"\s*include\s+(\S.*)", re.IGNORECASE)

REPEATED = ("slurmctldhost", "include", "prolog", "epilog", "nodeset", "downnodes")
"""Keys that may be there several times, and of which each counts (slurm.conf(5))."""

ONE_EACH = ("nodeaddr", "nodehostname", "bcastaddr", "port")
"""Keys of a node line with a hostlist that Slurm deals out to its nodes by position (slurm.conf(5), NodeAddr)."""

SYNONYMS = {"features": "feature", "procs": "cpus", "sockets": "socketsperboard", "shared": "oversubscribe"}
"""Keys of node and partition lines with two names (slurm.conf(5))."""


@dataclass(frozen=True)
class NodeLine:
    """One line of a slurm.conf about compute nodes.

    Args:
        names: the nodes, in its order.
        settings: what it says of them all.
        own: by key, what it says of each, where that is a list of its own.
    """

    names: tuple[str, ...]
    settings: Settings
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, name: str, key: str) -> str:
        """The value of a key for one of its nodes, empty where it says nothing."""
        return self.own[key].get(name, "") if key in self.own else self.settings.get(key, "")


@dataclass(frozen=True)
class ConfText:
    """What one file says.

    Args:
        settings: values by key; those of a key that may be repeated are joined by commas.
        spelled: the keys of all settings, node and partition lines as the file spells them.
        node_lines: in the file's order.
        partitions: what each partition's line says, by its name.
        lines: every line as its keys and values, for files such as gres.conf that are nothing but lines.
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
    """What a file says; what Slurm would refuse is read as far as it goes, since that is for Slurm to judge."""
    settings: dict[str, str] = {}
    spelled: dict[str, str] = {}
    node_lines: list[NodeLine] = []
    partitions: dict[str, Settings] = {}
    defaults: dict[str, Settings] = {"nodename": {}, "partitionname": {}}
    lines = tuple(logical_lines(text))
    for line in lines:
        spelled.update({key.lower(): key for key, _ in line})
        said = {SYNONYMS.get(key.lower(), key.lower()): value for key, value in line}
        kind = line[0][0].lower()
        if kind not in defaults:
            take(settings, line)
        elif said[kind].upper() == "DEFAULT":
            defaults[kind] = without({**defaults[kind], **said}, kind)
        elif kind == "nodename":
            node_lines.append(node_line(said[kind], {**defaults[kind], **without(said, kind)}))
        else:
            partitions[said[kind]] = {**defaults[kind], **without(said, kind)}
    plain = tuple({key.lower(): value for key, value in line} for line in lines)
    return ConfText(settings, spelled, tuple(node_lines), partitions, plain)


def logical_lines(text: str) -> Iterator[Sequence[tuple[str, str]]]:
    """The keys and values of each line that has any."""
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
    """Add a line of settings; one that may be repeated is a single value with all that the line says."""
    first = line[0][0].lower()
    if first in REPEATED:
        value = line[0][1] + "".join(f" {key}={value}" for key, value in line[1:])
        settings[first] = f"{settings[first]},{value}" if first in settings else value
        return
    settings.update({key.lower(): value for key, value in line})


def without(settings: Settings, key: str) -> Settings:
    """Settings but for one key."""
    return {name: value for name, value in settings.items() if name != key}


def node_line(hostlist: str, settings: Settings) -> NodeLine:
    """A line about the nodes of a hostlist; one that is none counts as one name."""
    try:
        names = expand(hostlist)
    except HostlistError:
        return NodeLine((hostlist,), settings)
    lists = {key: settings[key] for key in ONE_EACH if len(names) > 1 and key in settings}
    own = {key: dealt for key, value in lists.items() if (dealt := dealt_out(hostlist, value))}
    return NodeLine(names, {key: value for key, value in settings.items() if key not in own}, own)


def dealt_out(hostlist: str, values: str) -> Mapping[str, str]:
    """The values of a list by node; empty where it is one value for all of them, or is not as long."""
    try:
        return zip_hostlists(hostlist, values)
    except HostlistError:
        return {}
