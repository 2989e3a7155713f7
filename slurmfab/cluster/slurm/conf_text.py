"""Parse the text of a slurm.conf, gres.conf or cgroup.conf as Slurm does, whoever wrote it.

Case of keys is ignored, `#` begins a comment, a backslash at the end of a line continues it, the last of repeated keys
counts, and a `DEFAULT` line is for all following lines of its kind (slurm.conf(5), parse_config.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import MOST_HOSTS, count_names, expand, zip_hostlists
from slurmfab.cluster.slurm.meaning import ONE

Settings = Mapping[str, str]  # values by key in lower case

# A key begins where a word begins: otherwise a long word without a value takes time by its length squared.
ASSIGNMENT = re.compile(r"(?<![A-Za-z0-9_.])([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"(?!\S)|(\S+))")
QUOTED_PARTS = re.compile(r'"[^"]*"(?:,"[^"]*")+')
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

MOST_MEMBERS = 16 * MOST_HOSTS
"""The most nodes that partitions have in sum, and node sets: those of 100 partitions of 10,000 nodes are no more."""


ENDLESS_NUMBER = re.compile(r"(?<!\d)\d{1000}")  # Python makes no numbers of thousands of digits

MOST_SIZE = 1 << 26  # the characters of all keys and values of node and partition lines, with those of DEFAULT lines
EACH_KEY = 32  # what a key and its value cost beside their characters

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
    passed_over: int = 0  # how many lines were too much, by `MOST_NAMES` or `MOST_SIZE`

    @cached_property
    def nodes(self) -> Mapping[str, NodeLine]:
        """The line of each compute node, without those that are not there yet."""
        return {name: line for line in self.node_lines if not line.is_future for name in line.names}

    @cached_property
    def future(self) -> Mapping[str, NodeLine]:
        """The line of each node that is not there yet (State=FUTURE)."""
        return {name: line for line in self.node_lines if line.is_future for name in line.names}

    @cached_property
    def every_node(self) -> Mapping[str, NodeLine]:
        """The line of each node, whether it is there or not."""
        return {**self.nodes, **self.future}

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the file is too much to be read."""
        return not self.passed_over and self._members[1]

    @property
    def partition_nodes(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes of each partition, with node sets resolved; a text that is no hostlist counts as one name."""
        return self._members[0]

    @cached_property
    def _members(self) -> tuple[Mapping[str, tuple[str, ...]], bool]:
        """The nodes of each partition, and whether that are all; from the one on that exceeds `MOST_MEMBERS`, none."""
        sets, left = self.node_sets, MOST_MEMBERS
        made: dict[str, tuple[str, ...]] = {"ALL": tuple(self.nodes)}
        found: dict[str, tuple[str, ...]] = {}
        for name, settings in self.partitions.items():
            value = settings.get("nodes", "")
            value = "ALL" if value.upper() == "ALL" else value
            if value not in made and count_names(value) <= left:
                each = (one for word in names_in(value) for one in sets.get(word, (word,)))
                listed = tuple(islice(each, left + 1))
                left -= 0 if len(listed) <= left else len(listed)
                made[value] = tuple(dict.fromkeys(listed))
            found[name] = made[value] if value in made and len(made[value]) <= left else ()
            left = left - len(made[value]) if value in made else -1
        are_all = len(sets) == len(self.node_set_lines) and sum(map(len, sets.values())) <= MOST_MEMBERS
        return found, left >= 0 and are_all

    @cached_property
    def node_sets(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes of each NodeSet: those that it lists, and those with one of its features; `MOST_MEMBERS` in sum."""
        by_feature: dict[str, list[int]] = {}
        for number, line in enumerate(self.node_lines):
            for feature in split_commas(line.settings.get("feature", "")):
                by_feature.setdefault(feature, []).append(number)
        found: dict[str, tuple[str, ...]] = {}
        left = MOST_MEMBERS
        for name, settings in self.node_set_lines.items():
            value = settings.get("nodes", "")
            numbers = [by_feature.get(feature, []) for feature in split_commas(settings.get("feature", ""))]
            left -= sum(map(len, numbers))
            if left < 0:
                break
            with_feature = (self.node_lines[number].names for number in sorted({*chain.from_iterable(numbers)}))
            listed = self.nodes if value.upper() == "ALL" else names_in(value)
            found[name] = tuple(dict.fromkeys(islice(chain(listed, *with_feature), left + 1)))
            left -= len(found[name])
        return found


def parse(text: str) -> ConfText:
    """Parse a file. Mistakes are not reported, as Slurm itself checks the file; they are read as far as possible.

    Lines with endless numbers, and those with which a file exceeds `MOST_NAMES` or `MOST_SIZE`, are passed over: it may
    be a host's that is hostile.
    """
    settings: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    spelled: dict[str, str] = {}
    node_lines: list[NodeLine] = []
    partitions: dict[str, Settings] = {}
    node_sets: dict[str, Settings] = {}
    defaults: dict[str, Settings] = {"nodename": {}, "partitionname": {}}
    sizes = {"nodename": 0, "partitionname": 0}  # of the defaults
    lines: list[Settings] = []
    names_left, size_left, passed_over = MOST_NAMES, MOST_SIZE, 0
    for line in logical_lines(text):
        kind = line[0][0].lower()
        # What partitions name is counted where it is expanded: they name the same nodes over and over.
        names = 0 if kind == "partitionname" else sum(count_names(value) for _, value in line if "[" in value)
        size = sum(EACH_KEY + len(key) + len(value) for key, value in line) + sizes.get(kind, 0)
        if names > names_left or size > size_left or any(ENDLESS_NUMBER.search(value) for _, value in line):
            passed_over += 1
            continue
        names_left -= names
        size_left -= size
        spelled.update({key.lower(): key for key, _ in line})
        lines.append({key.lower(): value for key, value in line})
        fields = {SYNONYMS.get(key.lower(), key.lower()): value for key, value in line}
        if kind == "nodeset":
            node_sets[fields[kind]] = without(fields, kind)
        elif kind not in defaults:
            for key, value in whole_lines(line):
                settings[key] = value
                if key in REPEATED:
                    repeated.setdefault(key, []).append(value)
        elif fields[kind].upper() == "DEFAULT":
            defaults[kind] = without({**defaults[kind], **fields}, kind)
            sizes[kind] = sum(EACH_KEY + len(key) + len(value) for key, value in defaults[kind].items())
        elif kind == "nodename":
            node_lines.append(node_line(fields[kind], {**defaults[kind], **without(fields, kind)}))
        else:
            partitions[fields[kind]] = {**defaults[kind], **without(fields, kind)}
    settings |= {key: ",".join(values) for key, values in repeated.items()}
    partitions = with_one_default(partitions)
    return ConfText(
        with_controllers(settings), spelled, tuple(node_lines), partitions, tuple(lines), node_sets, passed_over
    )


def with_one_default(partitions: dict[str, Settings]) -> dict[str, Settings]:
    """Partitions of which the last with Default=YES has it: slurmctld takes it from the others (`_parse_part_spec`)."""
    asking = [name for name, line in partitions.items() if line.get("default", "").lower() in ONE]
    return {**partitions, **{name: {**partitions[name], "default": "NO"} for name in asking[:-1]}}


def logical_lines(text: str) -> Iterator[Sequence[tuple[str, str]]]:
    """Yield the keys and values of each line that has any."""
    for line in joined_lines(text):
        bare = line.replace("\\#", "#")
        included = INCLUDE.match(bare)
        if included:
            yield (("Include", included[1].strip()),)
            continue
        found = [(key, quoted or without_quotes(plain)) for key, quoted, plain in ASSIGNMENT.findall(bare)]
        if found:
            yield found


def without_quotes(value: str) -> str:
    """A list whose parts have quotes each, without them: Slurm keeps them, and looks for the words in it.

    >>> without_quotes('"cred_expire=1200","ttl=1500"')
    'cred_expire=1200,ttl=1500'
    """
    return value.replace('"', "") if QUOTED_PARTS.fullmatch(value) else value


def joined_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments, each with those that continue it; a comment is never continued."""
    beginning: list[str] = []
    for line in text.splitlines():
        bare = COMMENT.sub("", line)
        continued = CONTINUED.search(bare)
        beginning.append(bare[: continued.start()] if continued else bare)
        if not continued:
            yield "".join(beginning)
            beginning = []
    if beginning:
        yield "".join(beginning)


def whole_lines(line: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a line in lower case with their values; further keys that belong to the first as part of it."""
    first = line[0][0].lower()
    if first in WHOLE_LINES:
        line = ((first, line[0][1] + "".join(f" {key}={value}" for key, value in line[1:])),)
    yield from ((key.lower(), value) for key, value in line)


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
    lists = {key: settings[key] for key in ONE_EACH if key in settings and (len(names) > 1 or "[" in settings[key])}
    own = {key: dealt for key, value in lists.items() if (dealt := dealt_out(hostlist, value))}
    return NodeLine(names, {key: value for key, value in settings.items() if key not in own}, own)


def dealt_out(hostlist: str, values: str) -> Mapping[str, str]:
    """The values of a hostlist by node; empty if it is one value for all nodes, or has another length."""
    try:
        return zip_hostlists(hostlist, values)
    except HostlistError:
        return {}
