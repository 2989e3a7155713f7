"""What a gres.conf says about the devices of a node, in one form for all texts that say the same to Slurm.

Not compared is what makes no difference to jobs: the order of lines and files, how many lines have the same devices,
Flags=CountOnly, and the cores near a device where only one of two texts knows them (gres.conf(5)).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import expand, expand_files
from slurmfab.cluster.slurm.conf_text import ConfText, Settings
from slurmfab.cluster.slurm.meaning import UNITS

COUNTED = "countonly"
OFF = "off"


@dataclass(frozen=True, order=True)
class GresLine:
    """Devices of one name, type and place: one line of gres.conf, or several that say the same about more devices."""

    name: str = ""  # such as `gpu`, in lower case; empty in a line that has only AutoDetect
    type: str = ""  # such as `a100`, in lower case as Slurm compares it
    count: int = 0  # their number; 0 for as many as there are files
    files: tuple[str, ...] = ()  # their device files, sorted
    multiple: tuple[str, ...] = ()  # the files of a device that has several (MultipleFiles), in their order
    cores: tuple[str, ...] = ()  # numbers of the cores near them, sorted; empty if the line does not tell
    links: str = ""  # connections to other devices
    flags: tuple[str, ...] = ()  # in lower case, sorted
    autodetect: str = ""  # how slurmd finds the devices, in lower case; empty for not at all


def gres_by_node(conf: ConfText, nodes: Iterable[str] = ()) -> Mapping[str, tuple[GresLine, ...]]:
    """The devices of each node that a gres.conf names; lines without NodeName are for all of them.

    `nodes`: further nodes, which have what the lines without NodeName give. Returns devices by node name; under the
    empty name what the lines without NodeName give to any node.
    """
    lines: dict[str, list[int]] = {name: [] for name in ("", *nodes)}
    for number, line in enumerate(conf.lines):
        for name in names_of(line) if "nodename" in line else ("",):
            lines.setdefault(name, []).append(number)
    everywhere = tuple(lines[""])
    parsed = tuple(gres_line(line) for line in conf.lines)
    merged: dict[tuple[int, ...], tuple[GresLine, ...]] = {}
    found: dict[str, tuple[GresLine, ...]] = {}
    for name, numbers in lines.items():
        mine = everywhere if name == "" else tuple(sorted({*everywhere, *numbers}))
        if mine not in merged:
            merged[mine] = merge([parsed[number] for number in mine])
        found[name] = merged[mine]
    return found


def names_of(line: Settings) -> tuple[str, ...]:
    """The nodes of a line; an invalid hostlist counts as one name."""
    try:
        return expand(line["nodename"])
    except HostlistError:
        return (line["nodename"],)


def gres_line(line: Settings) -> GresLine:
    """One line as values. `line`: values by key in lower case."""
    count = re.fullmatch(r"(\d+)([KMGTP]?)", line.get("count", "").upper())
    flags = {flag.strip().lower() for flag in line.get("flags", "").split(",")} - {"", COUNTED}
    autodetect = line.get("autodetect", "").lower()
    return GresLine(
        name=line.get("name", "").lower(),
        type=line.get("type", "").lower(),
        count=int(count[1]) * UNITS[count[2]] if count else 0,
        files=tuple(sorted(expand_files(line.get("file", "")))),
        multiple=expand_files(line.get("multiplefiles", "")),
        cores=numbers(line.get("cores", line.get("cpus", ""))),
        links=line.get("links", ""),
        flags=tuple(sorted(flags)),
        autodetect="" if autodetect == OFF else autodetect,
    )


@lru_cache(maxsize=64)
def numbers(text: str) -> tuple[str, ...]:
    """The numbers in a list such as `0-3,8`, sorted; another text as it is."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return (text,)
        found.update(range(int(first), min(int(last or first), int(first) + (1 << 20)) + 1))
    return tuple(map(str, sorted(found)))


def merge(lines: Sequence[GresLine]) -> tuple[GresLine, ...]:
    """The lines of one node, sorted, with devices that differ only in their files together."""
    found: dict[GresLine, GresLine] = {}
    method = next((line.autodetect for line in lines if line.autodetect), "")
    for line in lines:
        if not line.name:
            continue
        one = replace(line, autodetect=method if line.name == "gpu" else "")
        if one.count in (0, len(one.files)) and one.files:
            one = replace(one, count=0)
        elif not one.count:
            one = replace(one, count=1)
        alike = replace(one, files=(), count=0) if one.files else replace(one, count=0)
        other = found.get(alike)
        if other and other.files and other.count == one.count == 0:
            one = replace(one, files=tuple(sorted({*other.files, *one.files})))
        elif other:
            one = replace(one, count=other.count + one.count)
        found[alike] = one
    alone = (GresLine(autodetect=method),) if method and not any(one.name == "gpu" for one in found.values()) else ()
    return tuple(sorted((*found.values(), *alone)))


def is_same_gres(one: Sequence[GresLine], other: Sequence[GresLine]) -> bool:
    """Whether two texts give a node the same devices."""
    if not all(line.cores for line in (*one, *other)):
        one, other = (merge([replace(line, cores=()) for line in lines]) for lines in (one, other))
    return tuple(one) == tuple(other)
