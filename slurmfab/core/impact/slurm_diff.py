"""Differences between two versions of Slurm's files as Slurm reads them: settings, nodes, partitions, devices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import expand, fold, fold_in_order
from slurmfab.base.ip_addresses import is_loopback
from slurmfab.cluster.slurm.conf_text import ONE_EACH, ConfText, NodeLine, Settings, parse
from slurmfab.cluster.slurm.gres import gres_by_node, is_same_gres
from slurmfab.cluster.slurm.keys import CGROUP_CONF, NODE, PARTITION, SLURM_CONF
from slurmfab.cluster.slurm.meaning import (
    DEFAULTS,
    SameHost,
    is_same_place,
    is_same_setting,
    node_meanings,
    partition_meanings,
)
from slurmfab.cluster.slurm.versions import is_ignored

SETTING, NODE_LINE, PARTITION_LINE, DEVICES, TEXT = "setting", "node", "partition", "devices", "text"
FILE = "file"
"""The kinds of differences; `text` is comments, blanks and order only, `file` a whole file of the site's own."""

THERE = "there"  # the value of a node, partition or file that exists, where the other value is empty
TABLES = {"slurm.conf": SLURM_CONF, "cgroup.conf": CGROUP_CONF}  # the known keys with their spelling, by file

ADDRESS = "nodeaddr"
HOSTS = (ADDRESS, "nodehostname")
"""Keys of a node line with names of hosts; the node's own is their default (slurm.conf(5))."""

STATE = "State"  # the key of a difference in nodes that are not there yet; that of others is their present state
NO_KEYS: frozenset[str] = frozenset()
LONGEST_SHOWN = 4096  # how much of the lines about a node's devices a difference has: each of many nodes may have all
COMMENTS = "comments or order"  # the name of a difference that Slurm does not see


@dataclass(frozen=True)
class Difference:
    """One difference between the actual files and the wanted ones."""

    file: str  # `slurm.conf`, `gres.conf` or `cgroup.conf`
    kind: str  # `setting`, `node`, `partition`, `devices` (of nodes in gres.conf) or `text` (comments and order only)
    name: str  # a setting's key, a folded hostlist of nodes, a partition's name; always spelled as the manual does
    key: str = ""  # the key within a node or partition line; empty where the whole line is added or removed
    actual: str = ""  # its value now; empty for none
    wanted: str = ""  # its value afterwards; empty for none
    nodes: tuple[str, ...] = ()  # the compute nodes concerned; for a partition, the nodes that it had or has

    @property
    def is_added(self) -> bool:
        """Whether a node or partition is added."""
        return self.kind in (NODE_LINE, PARTITION_LINE) and not self.key and not self.actual

    @property
    def is_removed(self) -> bool:
        """Whether a node or partition is removed."""
        return self.kind in (NODE_LINE, PARTITION_LINE) and not self.key and not self.wanted

    @property
    def title(self) -> str:
        """What differs, in a few words: `SlurmdTimeout`, `nodes n[3-4]`, `node n1: RealMemory`, `partition debug`."""
        if self.kind in (SETTING, TEXT, FILE):
            return self.name
        kind = {NODE_LINE: "node", PARTITION_LINE: "partition", DEVICES: "devices of"}[self.kind]
        title = f"{kind}s {self.name}" if self.kind == NODE_LINE and len(self.nodes) > 1 else f"{kind} {self.name}"
        return f"{title}: {self.key}" if self.key else title

    @property
    def change(self) -> str:
        """The change: `300 -> 400`, `added`, `removed`, `changed`; `(default)` for a value that no file sets."""
        if self.kind == TEXT:
            return "changed"
        if self.kind == FILE:
            return "changed" if self.actual and self.wanted else "added" if self.wanted else "removed"
        if self.is_added:
            return "added"
        if self.is_removed:
            return "removed"
        nothing = "(none)" if self.kind == DEVICES or self.key == STATE else "(default)"
        return f"{self.shown_actual or nothing} -> {self.shown_wanted or nothing}"

    @property
    def shown_actual(self) -> str:
        """Its value now, without secrets; empty for none."""
        return self.without_secrets(self.actual)

    @property
    def shown_wanted(self) -> str:
        """Its value afterwards, without secrets; empty for none."""
        return self.without_secrets(self.wanted)

    def without_secrets(self, value: str) -> str:
        """A value of the difference for people and records."""
        if self.kind != SETTING:
            return value
        from slurmfab.on_hosts.agent.logs.secret_detectors import value_without_secrets  # few runs need it

        return value_without_secrets(self.name, value)

    def __str__(self) -> str:
        return f"{self.title}: {self.change}"


def differences(
    before: Mapping[str, str],
    after: Mapping[str, str],
    is_same_host: SameHost = operator.eq,
    ignored: frozenset[str] = NO_KEYS,
) -> tuple[Difference, ...]:
    """The differences as Slurm sees them, for each file in the order of its lines.

    A file that says the same to Slurm in another text has one difference of kind `text`. A default that is written out,
    and a name in place of an address of the same host, say the same.

    >>> [str(one) for one in differences({"slurm.conf": "KillWait=30"}, {"slurm.conf": "killwait=60"})]
    ['KillWait: 30 -> 60']

    Args:
        before: actual texts by file name; a file that is missing here is not compared, and without a slurm.conf there
            are no differences, because nothing is in effect yet.
        after: wanted texts by file name; a file that is missing here will be removed.
        ignored: what the installed Slurm ignores, of `versions.ignored_keys`.
    """
    if not before.get("slurm.conf"):
        return ()
    return tuple(
        one
        for file, text in before.items()
        for one in of_file(file, text, after.get(file, ""), is_same_host, after.get("slurm.conf", ""), ignored)
    )


def says_the_same(file: str, before: str, after: str, ignored: frozenset[str] = NO_KEYS) -> bool:
    """Whether two texts of one file say the same to Slurm, which ignores some keys."""
    return all(one.kind == TEXT for one in of_file(file, before, after, ignored=ignored))


def of_file(  # noqa: PLR0917 - all that gives a text its meaning
    file: str,
    before: str,
    after: str,
    is_same_host: SameHost = operator.eq,
    slurm_conf: str = "",
    ignored: frozenset[str] = NO_KEYS,
) -> Iterator[Difference]:
    """The differences between two texts of one file.

    `slurm_conf`: the wanted slurm.conf, whose nodes lines of gres.conf without NodeName are about. `ignored`: see
    `differences`.
    """
    if before == after:
        return
    old, new = parse(before), parse(after)
    if file == "gres.conf":
        found = tuple(of_devices(old, new, slurm_conf))
    else:
        settings = of_settings(file, old, new, is_same_host)
        found = (
            *(one for one in settings if not is_ignored(one.name, one.actual, ignored)),
            *of_nodes(old, new, is_same_host),
            *of_future_nodes(old, new),
            *of_partitions(old, new),
        )
    yield from found or (Difference(file, TEXT, COMMENTS),)


def of_settings(file: str, old: ConfText, new: ConfText, is_same_host: SameHost) -> Iterator[Difference]:
    """Keys with other values, in the order of the new text, then removed keys."""
    table = TABLES.get(file, {})
    for key in dict.fromkeys((*new.settings, *old.settings)):
        actual, wanted = old.settings.get(key, ""), new.settings.get(key, "")
        if not is_same_setting(key, actual, wanted, is_same_host, DEFAULTS.get(file, {})):
            name = table[key].name if key in table else new.spelled.get(key) or old.spelled[key]
            yield Difference(file, SETTING, name, actual=actual, wanted=wanted)


def of_nodes(old: ConfText, new: ConfText, is_same_host: SameHost) -> Iterator[Difference]:
    """Nodes that are added, removed or changed; nodes with equal differences together."""
    before, after = old.nodes, new.nodes
    if gone := tuple(name for name in before if name not in after):
        yield Difference("slurm.conf", NODE_LINE, fold(gone), actual="there", nodes=gone)
    if fresh := tuple(name for name in after if name not in before):
        yield Difference("slurm.conf", NODE_LINE, fold(fresh), wanted="there", nodes=fresh)
    kept = [(name, before[name], line) for name, line in after.items() if name in before]
    for (key, actual, wanted), names in alike(kept).items():
        yield Difference("slurm.conf", NODE_LINE, fold(names), spelled(NODE, key), actual, wanted, tuple(names))
    for key in ONE_EACH:
        pairs = ((name, was.of(name, key), line.of(name, key)) for name, was, line in kept)
        if names := [name for name, *values in pairs if not is_same_value(key, name, values, is_same_host)]:
            actual, wanted = (listed(lines, names, key) for lines in (before, after))
            yield Difference("slurm.conf", NODE_LINE, fold(names), spelled(NODE, key), actual, wanted, tuple(names))


def of_future_nodes(old: ConfText, new: ConfText) -> Iterator[Difference]:
    """Nodes that are not there yet with other settings than before, and those that were such and are gone."""
    before, after = future_texts(old), future_texts(new)
    groups: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys((*before, *after)):
        actual, wanted = before.get(name, ""), after.get(name, "")
        if actual != wanted and name not in new.nodes:
            groups.setdefault((actual, wanted), []).append(name)
    for (actual, wanted), names in groups.items():
        yield Difference("slurm.conf", NODE_LINE, fold(names), STATE, actual, wanted, tuple(names))


def future_texts(conf: ConfText) -> Mapping[str, str]:
    """State and settings of each node that is not there yet, as in `FUTURE CPUs=64 Gres=gpu:4`."""
    found: dict[str, str] = {}
    for line in conf.node_lines:
        if line.is_future:
            settings = node_meanings({key: value for key, value in line.settings.items() if key not in ONE_EACH})
            shown = (f"{spelled(NODE, key)}={value}" for key, value in settings.items() if key in line.settings)
            text = " ".join(("FUTURE", *sorted(one for one in shown if not one.startswith("State="))))
            found.update(dict.fromkeys(line.names, text))
    return found


def is_same_value(key: str, node: str, values: Sequence[str], is_same_host: SameHost) -> bool:
    """Whether two values of a key in `ONE_EACH` are the same for a node; its own name is the default of its names."""
    actual, wanted = values
    if actual == wanted or key not in HOSTS:
        return actual == wanted
    one, other = actual or node, wanted or node
    if key == ADDRESS or is_loopback(one):
        return is_same_place(one, other, is_same_host)
    return one == other


def alike(kept: Iterable[tuple[str, NodeLine, NodeLine]]) -> Mapping[tuple[str, str, str], list[str]]:
    """Nodes by key, old value and new value; each pair of lines is compared once, however many nodes it names."""
    compared: dict[tuple[int, int], list[tuple[str, str, str]]] = {}
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, was, line in kept:
        pair = (id(was), id(line))
        if pair not in compared:
            compared[pair] = [
                change for change in unlike(was.settings, line.settings, node_meanings) if change[0] not in ONE_EACH
            ]
        for change in compared[pair]:
            groups.setdefault(change, []).append(name)
    return groups


def listed(lines: Mapping[str, NodeLine], names: Iterable[str], key: str) -> str:
    """The values of a key for these nodes, as a hostlist in their order; a node without a value gives its own name."""
    return fold_in_order([lines[name].of(name, key) or name for name in names])


def unlike(old: Settings, new: Settings, meanings: Callable[[Settings], Settings]) -> Iterator[tuple[str, str, str]]:
    """The differences between two lines: key, old value, new value."""
    if old == new:
        return
    was, will = meanings(old), meanings(new)
    for key in dict.fromkeys((*new, *old)):
        if was.get(key, "") != will.get(key, ""):
            yield key, old.get(key, ""), new.get(key, "")


def of_partitions(old: ConfText, new: ConfText) -> Iterator[Difference]:
    """Partitions that are added, removed or changed."""
    for name in dict.fromkeys((*old.partitions, *new.partitions)):
        was, will = old.partitions.get(name), new.partitions.get(name)
        if was is None or will is None:
            actual, wanted = ("", "there") if was is None else ("there", "")
            nodes = (new if was is None else old).partition_nodes[name]
            yield Difference("slurm.conf", PARTITION_LINE, name, actual=actual, wanted=wanted, nodes=nodes)
            continue
        nodes = old.partition_nodes[name]
        for key, actual, wanted in unlike(was, will, partition_meanings):
            if key != "nodes" or {*nodes} != {*new.partition_nodes[name]}:
                yield Difference("slurm.conf", PARTITION_LINE, name, spelled(PARTITION, key), actual, wanted, nodes)


def of_devices(old: ConfText, new: ConfText, slurm_conf: str = "") -> Iterator[Difference]:
    """Nodes whose devices change in gres.conf, as `of_file`; those without a line of their own are `all nodes`."""
    before, after = devices(old), devices(new)
    named = dict.fromkeys((*before, *after))
    if "" in named:
        nodes = parse(slurm_conf).nodes
        if nodes and all(name in named for name in nodes):
            del named[""]
    old_gres, new_gres = gres_by_node(old, named), gres_by_node(new, named)
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name in named:
        if before.get(name) != after.get(name) and not is_same_gres(old_gres[name], new_gres[name]):
            groups.setdefault((before.get(name, ()), after.get(name, ())), []).append(name)
    for (actual, wanted), names in groups.items():
        everywhere = "" in names
        name = "all nodes" if everywhere else fold(names)
        was, will = (", ".join(one)[:LONGEST_SHOWN] for one in (actual, wanted))
        yield Difference("gres.conf", DEVICES, name, "", was, will, () if everywhere else tuple(names))


def devices(conf: ConfText) -> Mapping[str, tuple[str, ...]]:
    """The devices in gres.conf by node name, a text for each line; under the empty name those of all nodes."""
    found: dict[str, list[str]] = {}
    for line in conf.lines:
        settings = " ".join(f"{conf.spelled[key]}={value}" for key, value in line.items() if key != "nodename")
        try:
            names = expand(line["nodename"]) if "nodename" in line else ("",)
        except HostlistError:
            names = (line["nodename"],)
        for name in names:
            found.setdefault(name, []).append(settings)
    return {name: tuple(sorted(settings)) for name, settings in found.items()}


def spelled(table: Mapping[str, object], key: str) -> str:
    """A key as the manual spells it."""
    return getattr(table.get(key), "name", key)
