"""Slurm's files of a cluster made by hand, changed so that they are right for its twin; pure functions.

The twin's hosts keep their names. It lacks nodes, has other addresses and perhaps smaller hosts, and switches none off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from slurmfab.base.hostlist import fold_in_order
from slurmfab.cluster.facts import Hardware
from slurmfab.cluster.slurm.conf_text import ONE_EACH, SYNONYMS, dealt_out, joined_lines, logical_lines, names_in

Pairs = Sequence[tuple[str, str]]

HOSTLISTS = ("nodename", "nodes", "downnodes", "suspendexcnodes", "switches")  # keys whose value may name hosts
NAMED = ("nodeset", "switchname")  # kinds of lines that others name, and that go with the last of their hosts
OTHER_WORDS = ("ALL", "DEFAULT")  # values of these keys that name no host
TOPOLOGY = ("cpus", "boards", "socketsperboard", "corespersocket", "threadspercore")
WITH_HARDWARE = (*TOPOLOGY, "realmemory", "corespeccount", "cpuspeclist", "memspeclimit", "cores", "links")
"""Keys of node lines, of slurm.conf and gres.conf, that are about CPUs and memory."""

POWER = "suspendtime"  # after so many seconds an idle node would be switched off


@dataclass(frozen=True)
class Changes:
    """What is other on the twin."""

    gone: frozenset[str]  # the nodes that it lacks, and the switches and sets of nodes of these alone
    addresses: Mapping[str, str]  # of its hosts, by their addresses on the cluster
    room: Hardware | None = None  # what each of its hosts has; `None` if the cluster's lines are right for them


def without_sets(texts: Iterable[str], gone: frozenset[str]) -> frozenset[str]:
    """The nodes that are gone, and the names of the switches and sets that have no other nodes, in these files."""
    lines = [pairs for text in texts for pairs in logical_lines(text) if pairs[0][0].lower() in NAMED]
    while True:
        empty = {pairs[0][1] for pairs in lines if is_empty(pairs, gone)}
        if empty <= gone:
            return gone
        gone |= empty


def is_empty(pairs: Pairs, gone: frozenset[str]) -> bool:
    """Whether all hosts, switches or nodes that a line lists are gone; not for a set of a feature."""
    fields = {key.lower(): value for key, value in pairs}
    named = [name for key in HOSTLISTS for name in names_in(fields.get(key, ""))]
    return bool(named) and gone.issuperset(named) and "feature" not in fields


def room_for(lines: Iterable[str], hardware: Hardware) -> Hardware | None:
    """What the twin's hosts have, if a node line of slurm.conf says more; `None` otherwise."""
    for line in lines:
        for pairs in logical_lines(line):
            fields = {SYNONYMS.get(key.lower(), key.lower()): value for key, value in pairs}
            if "nodename" in fields and is_larger(fields, hardware):
                return hardware
    return None


def is_larger(fields: Mapping[str, str], hardware: Hardware) -> bool:
    """Whether a node line promises more CPUs or memory than a host has."""
    numbers = {key: int(value) for key, value in fields.items() if value.isdecimal()}
    parts = prod(numbers.get(key, 1) for key in TOPOLOGY[1:])
    return max(numbers.get("cpus", 1), parts) > hardware.CPUs or numbers.get("realmemory", 1) > hardware.RealMemory


def changed(text: str, changes: Changes) -> str:
    """A file as the twin has it; the same text, with its comments, if nothing in it is other there."""
    before = list(joined_lines(text))
    after = [line for one in before for line in changed_line(one, changes)]
    return at_addresses(text if after == before else "".join(f"{one}\n" for one in after), changes.addresses)


def changed_line(line: str, changes: Changes) -> Iterator[str]:
    """Yield a line as the twin has it; nothing if the line is about what the twin lacks."""
    pairs = next(logical_lines(line), ())
    left = {key.lower(): names_left(value, changes.gone) for key, value in pairs if key.lower() in HOSTLISTS}
    kind = pairs[0][0].lower() if pairs else ""
    if kind not in ("", "partitionname") and (is_empty(pairs, changes.gone) or left.get(kind) == ()):
        return
    lists = {key: fold_in_order(names) for key, names in left.items() if names is not None}
    lists |= dict(one_each(pairs, left.get("nodename"), changes.addresses))
    kept = [(key, lists.get(key.lower(), value)) for key, value in fitted(pairs, changes.room)]
    if kept == list(pairs):
        yield line
    elif kept:
        yield " ".join(f"{key}={quoted(value)}" for key, value in kept)


def names_left(value: str, gone: frozenset[str]) -> tuple[str, ...] | None:
    """The names of a hostlist that are not gone; `None` if all are left."""
    names = () if value.upper() in OTHER_WORDS else names_in(value)
    left = tuple(name for name in names if name not in gone)
    return None if left == names else left


def one_each(pairs: Pairs, left: tuple[str, ...] | None, addresses: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a node line with one value for each node, if they are other for those that are left."""
    nodes = next((value for key, value in pairs if key.lower() == "nodename"), "")
    for key, value in pairs:
        own = dealt_out(nodes, value) if key.lower() in ONE_EACH else {}
        values = [own[name] for name in (own if left is None else left) if own]
        if left is not None or any(one in addresses for one in values):
            yield from [(key.lower(), fold_in_order(addresses.get(one, one) for one in values))] if values else ()


def fitted(pairs: Pairs, room: Hardware | None) -> list[tuple[str, str]]:
    """The keys of a line for hosts with this hardware that are never switched off."""
    found = [(key, value) for key, value in pairs if key.lower() != POWER]
    words = [SYNONYMS.get(key.lower(), key.lower()) for key, _ in found]
    if room is None or ("nodename" not in words and "name" not in words):
        return found
    hardware = [("CPUs", str(room.CPUs))] if {*TOPOLOGY} & {*words} else []
    memory = [value for (_, value), word in zip(found, words, strict=True) if word == "realmemory"]
    hardware += [("RealMemory", str(min(int(one), room.RealMemory))) for one in memory if one.isdecimal()]
    others = [one for one, word in zip(found, words, strict=True) if word not in WITH_HARDWARE]
    return [*others, *hardware]


def quoted(value: str) -> str:
    """A value as a line has it."""
    return f'"{value}"' if re.search(r"\s", value) or not value else value


def at_addresses(text: str, addresses: Mapping[str, str]) -> str:
    """A text with the addresses of the twin's hosts."""
    if not addresses:
        return text
    known = "|".join(map(re.escape, sorted(addresses, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.])(?:{known})(?![\w.])", lambda found: addresses[found[0]], text)
