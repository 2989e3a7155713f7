"""Generic resources: the Gres of nodes, and the lines of gres.conf for their devices.

The lines list the device files that were found at first contact: so slurmd reports a GPU that disappears later, where
AutoDetect would reduce the node's Gres. AutoDetect is only for nodes whose group in the cluster file sets it, as nodes
without the plugin or the driver's library would have no GPUs with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

from slurmfab.base.errors import HostlistError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import expand, expand_files, fold_in_order, natural
from slurmfab.cluster.facts import CPU_RANGE, Gpu, are_cpus
from slurmfab.cluster.slurm.conf_text import MOST_NAMES, ConfText, Settings
from slurmfab.cluster.slurm.meaning import UNITS
from slurmfab.cluster.slurm.node import Node, one_of_each

SHARED = ("shard", "mps")  # shares of GPUs; Slurm needs GPUs on the same node (gres.conf(5), and gres.html, Sharding)

PLUGINS = ("gpu", "mps", "shard", "nic", "craynetwork")
"""Names for which Slurm has a plugin; others get Flags=CountOnly (gres.conf(5))."""

SCRATCH = "scratch"  # the name for gigabytes of a node's own disk, which are only counted
UNUSED = "none"  # the `Gres` of a node whose GPUs are not used

KEYS_OF_GRES_CONF = ("AutoDetect", "File")
"""Keys of gres.conf(5) that are allowed in a group of nodes in the cluster file, with those of a NodeName line."""

_LAYOUT = {"boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "cpus", "procs"}


@dataclass(frozen=True)
class Device:
    """Generic resources of one name and type on one node: one line of gres.conf."""

    name: str  # as in GresTypes, such as `gpu`
    type: str  # such as `a100`; empty for none
    count: str  # their number in Slurm's form (`4`, `20G`)
    files: tuple[str, ...] = ()  # their device files; empty for resources that are only counted
    cores: str = ""  # the cores near them, as gres.conf(5) counts them; empty for all cores
    is_one: bool = False  # whether all files belong to one GPU, as with a MIG instance (MultipleFiles)


def gres_lines(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The lines of gres.conf, each for all nodes with the same devices; empty if no node has devices.

    Nodes that are not there yet need none: slurmd reads them on the nodes.
    """
    every = tuple(node for node in nodes if node.hardware is not None)
    described = {node.kind: _described(node) for node in one_of_each(every)}
    alike: dict[tuple[Device, str], list[str]] = {}
    for node in every:
        for device in described[node.kind]:
            alike.setdefault((device, autodetect(node.settings)), []).append(node.name)
    return tuple(_gres_line(device, method, names) for (device, method), names in alike.items())


def devices(node: Node) -> tuple[Device, ...]:
    """The generic resources of a node.

    If the user sets `Gres`, the discovered GPUs are assigned to its entries: first those of the wanted type, then the
    others in order. Missing GPUs get no files. Shards and MPS have no files of their own: Slurm divides their count
    evenly among the node's GPUs.
    """
    own = gres_value(node.settings)
    if own is None:
        return (*_grouped(node.gpus), *counted(node))
    entries = tuple(filter(None, map(parsed, own.split(","))))
    if node.hardware is None:
        return entries
    dealt = _dealt(entries, node.gpus)
    found: list[Device] = []
    for number, device in enumerate(entries):
        if device.name == "gpu":
            found += _grouped(dealt[number], device.type)
        elif device.name not in SHARED or node.gpus:
            found.append(device)
    return (*found, *counted(node))


def counted(node: Node) -> tuple[Device, ...]:
    """What slurmfab itself adds to the Gres of a node: the gigabytes that jobs share, if they have directories."""
    return (Device(SCRATCH, "", str(node.scratch)),) if node.scratch else ()


def gres_value(settings: Mapping[str, str]) -> str | None:
    """The user's own `Gres` of a node, empty for `none`; `None` to use the discovered GPUs."""
    value = next((str(value) for key, value in settings.items() if key.lower() == "gres"), None)
    return "" if value and value.lower() == UNUSED else value


def typed_shares(value: str) -> str:
    """A `Gres` whose shares of GPUs (shards, MPS) have the types of these GPUs, if all GPUs have one.

    slurmd reports shares by type. A slurmctld of Slurm 24.11 that takes over, and finds them configured without one,
    refuses the node.

    >>> typed_shares("gpu:pascal:2,shard:8"), typed_shares("gpu:2,shard:8")
    ('gpu:pascal:2,shard:pascal:8', 'gpu:2,shard:8')
    """
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    found = [one for one in map(parsed, entries) if one]
    gpus = {one.type: int(re.sub(r"\D", "", one.count)) for one in found if one.name == "gpu"}
    if not gpus or "" in gpus:
        return value
    return ",".join(chain.from_iterable(_shares(entry, gpus) for entry in entries))


def _shares(entry: str, gpus: Mapping[str, int]) -> tuple[str, ...]:
    """An entry of Gres such as `shard:8`, divided among these types of GPUs if it is a share of GPUs without type."""
    name, _, count = entry.partition(":")
    if name not in SHARED or not count.isdecimal() or int(count) % sum(gpus.values()):
        return (entry,)
    each = int(count) // sum(gpus.values())
    return tuple(f"{name}:{kind}:{each * number}" for kind, number in gpus.items())


def autodetect(settings: Mapping[str, str]) -> str:
    """The AutoDetect of a node in lower case, such as `nvml` or `off`; empty if it is not set."""
    return next((str(value).lower() for key, value in settings.items() if key.lower() == "autodetect"), "")


def named_files(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The device files that the cluster file lists as GPUs of a node (`File`), in addition to discovered ones."""
    return next((expand_files(str(value)) for key, value in settings.items() if key.lower() == "file"), ())


def finds_itself(settings: Mapping[str, str]) -> bool:
    """Whether slurmd finds a node's GPUs itself (AutoDetect)."""
    return autodetect(settings) not in ("", "off")


def gres_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The names for GresTypes, sorted."""
    names = {device.name for node in nodes for device in devices(node)}
    for node in nodes:
        own = gres_value(node.settings) or ""
        names |= {entry.split(":")[0].strip() for entry in own.split(",") if entry.strip()}
    return tuple(sorted(names))


def tracked_gres(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The nodes' generic resources for AccountingStorageTRES, each name and each type, sorted."""
    found = {(device.name, device.type) for node in nodes for device in devices(node)}
    names = {f"gres/{name}" for name, _ in found} | {f"gres/{name}:{kind}" for name, kind in found if kind}
    return tuple(sorted(names))


def discovered(node: Node) -> tuple[Device, ...]:
    """The node's discovered GPUs by type, in the order of their first file."""
    by_type = grouped((gpu.type, gpu.file) for gpu in node.gpus)
    return tuple(Device("gpu", type_, str(len(files)), tuple(files)) for type_, files in by_type.items())


def written(device: Device) -> str:
    """A device as an entry of Gres in a node line."""
    return ":".join(filter(None, (device.name, device.type, device.count)))


def parsed(entry: str) -> Device | None:
    """Parse an entry of Gres: `name[:type][:no_consume][:count]` (slurm.conf(5)); `None` if it has no name."""
    name, *rest = entry.strip().split(":")
    count = rest.pop() if rest and re.fullmatch(r"\d+[KMGTP]?", rest[-1], re.IGNORECASE) else "1"
    kinds = [word for word in rest if word and word != "no_consume"]
    return Device(name, kinds[0] if kinds else "", count) if name else None


def is_of_type(found: str, wanted: str) -> bool:
    """Whether a GPU's model matches a type in the cluster file: all words of the type are in the model.

    >>> is_of_type("a100-sxm4-80gb", "a100_80gb"), is_of_type("rtx_2080_ti", "2080ti"), is_of_type("a100", "h100")
    (True, True, False)
    """
    model = re.sub("[^a-z0-9]", "", found.lower())
    words = re.findall("[a-z0-9]+", wanted.lower())
    return bool(words) and all(word in model for word in words)


def _dealt(entries: tuple[Device, ...], gpus: tuple[Gpu, ...]) -> dict[int, tuple[Gpu, ...]]:
    """The GPUs of each entry of a Gres value, by its index."""
    left = list(gpus)
    mine: dict[int, list[Gpu]] = {number: [] for number, device in enumerate(entries) if device.name == "gpu"}
    for any_type in (False, True):
        for number, taken in mine.items():
            wanted = entries[number]
            missing = int(re.sub(r"\D", "", wanted.count)) - len(taken)
            fitting = [gpu for gpu in left if any_type or is_of_type(gpu.type, wanted.type)]
            # A type without a MIG profile gets whole GPUs first.
            whole_first = "g." not in wanted.type
            fitting = sorted(fitting, key=lambda gpu: whole_first and bool(gpu.with_files))
            mine[number] = [*taken, *fitting[:missing]]
            left = [gpu for gpu in left if gpu not in mine[number]]
    return {number: tuple(gpu for gpu in gpus if gpu in taken) for number, taken in mine.items()}


def _grouped(gpus: Iterable[Gpu], kind: str | None = None) -> list[Device]:
    """GPUs in file order as gres.conf lines, one for each type (`kind`, or their own), near cores and MIG instance."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for gpu in gpus:
        alone = (gpu.file, *gpu.with_files) if gpu.with_files else ()
        cores = gpu.cores if are_cpus(gpu.cores) else ""  # of a lock that another slurmfab wrote
        alike.setdefault((gpu.type if kind is None else kind, cores, alone), []).append(gpu.file)
    return [
        Device("gpu", type_, str(len(files)), alone or tuple(files), cores, is_one=bool(alone))
        for (type_, cores, alone), files in alike.items()
    ]


def _described(node: Node) -> tuple[Device, ...]:
    """A node's devices for gres.conf; GPUs with AutoDetect are one device `gpu` without a count.

    If the user sets the CPU layout, the discovered core numbers do not apply.
    """
    found = devices(node)
    if finds_itself(node.settings) and any(device.name == "gpu" for device in found):
        return (Device("gpu", "", ""), *(device for device in found if device.name != "gpu"))
    if {key.lower() for key in node.settings} & _LAYOUT:
        return tuple(_merged(replace(device, cores="") for device in found))
    return found


def _merged(found: Iterable[Device]) -> list[Device]:
    """The same devices, GPUs in one line again that only their cores have kept apart."""
    lines: list[Device] = []
    for device in found:
        last = lines[-1] if lines else None
        if last and device.files and not (device.is_one or last.is_one) and last.type == device.type:
            files = (*last.files, *device.files)
            lines[-1] = replace(last, count=str(len(files)), files=files)
        else:
            lines.append(device)
    return lines


def _gres_line(device: Device, method: str, names: Iterable[str]) -> str:
    """One line of gres.conf."""
    parts = [f"NodeName={fold_in_order(sorted(names, key=natural))}"]
    if method and device.name == "gpu":
        parts.append(f"AutoDetect={method}")
    if device.count:
        parts += [f"Name={device.name}", *([f"Type={device.type}"] if device.type else [])]
        key = "MultipleFiles" if device.is_one else "File"
        files = ",".join(device.files) if device.is_one else fold_in_order(device.files)
        parts.append(f"{key}={files}" if device.files else f"Count={device.count}")
        if device.name not in PLUGINS:
            parts.append("Flags=CountOnly")
    return " ".join([*parts, *([f"Cores={device.cores}"] if device.cores else [])])


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
    cores: tuple[str, ...] = ()  # the cores near them, see `ranges`; empty if the line does not tell
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
    left = MOST_NAMES  # what is above it counts no lines: it is the text of a hostile host
    for name, numbers in lines.items():
        mine = tuple(numbers) if name else ()
        if mine not in merged:
            left -= len(everywhere) + len(mine)
            merged[mine] = () if left < 0 else merge([parsed[number] for number in sorted({*everywhere, *mine})])
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
        cores=ranges(line.get("cores", line.get("cpus", ""))),
        links=line.get("links", ""),
        flags=tuple(sorted(flags)),
        autodetect="" if autodetect == OFF else autodetect,
    )


def ranges(text: str) -> tuple[str, ...]:
    """The numbers in a list as ranges, sorted and joined, never one by one; another text as it is.

    >>> ranges("8,0-1,2-3"), ranges("all")
    (('0-3', '8-8'), ('all',))
    """
    matches = [CPU_RANGE.fullmatch(part) for part in text.split(",") if part]
    if not all(matches):
        return (text,)
    found: list[list[int]] = []
    for first, last in sorted((int(match[1]), int(match[2] or match[1])) for match in matches if match):
        if found and first <= found[-1][1] + 1:
            found[-1][1] = max(found[-1][1], last)
        elif first <= last:
            found.append([first, last])
    return tuple(f"{first}-{last}" for first, last in found)


def merge(lines: Sequence[GresLine]) -> tuple[GresLine, ...]:
    """The lines of one node, sorted, with devices that differ only in their files together."""
    found: dict[GresLine, tuple[int, set[str]]] = {}
    method = next((line.autodetect for line in lines if line.autodetect), "")
    for line in evenly(lines):
        if not line.name:
            continue
        count = 0 if line.files and line.count in (0, len(line.files)) else line.count or 1
        alike = replace(line, autodetect=method if line.name == "gpu" else "", files=(), count=0)
        others, files = found.get(alike, (0, set()))
        if alike not in found or others == count == 0:
            files.update(line.files)
            found[alike] = count, files
        else:
            found[alike] = others + count, {*line.files}
    whole = [replace(one, count=count, files=tuple(sorted(files))) for one, (count, files) in found.items()]
    alone = (GresLine(autodetect=method),) if method and not any(one.name == "gpu" for one in whole) else ()
    return tuple(sorted((*whole, *alone)))


def evenly(lines: Sequence[GresLine]) -> Iterator[GresLine]:
    """Yield lines without the files of shares that are as many for each GPU, as Slurm divides a count itself."""
    gpus = sorted(file for line in lines if line.name == "gpu" for file in line.files)
    even = set()
    for name in SHARED:
        mine = [line for line in lines if line.name == name and line.files]
        each = {Fraction(line.count, len(line.files)) for line in mine}
        if len(each) == 1 and 0 not in each and sorted(file for line in mine for file in line.files) == gpus:
            even.add(name)
    yield from (replace(line, files=()) if line.name in even else line for line in lines)


def is_same_gres(one: Sequence[GresLine], other: Sequence[GresLine]) -> bool:
    """Whether two texts give a node the same devices."""
    if not all(line.cores for line in (*one, *other)):
        one, other = (merge([replace(line, cores=()) for line in lines]) for lines in (one, other))
    return tuple(one) == tuple(other)
