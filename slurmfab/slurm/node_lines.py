"""The lines of slurm.conf and gres.conf that describe compute nodes: equal ones in one line, however many there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, groupby

from slurmfab.errors import InputError
from slurmfab.facts import Gpu, Hardware

SYSTEM_MEMORY = 256
"""MiB that a margin in percent leaves to the system at least: a small node has a kernel, slurmd and sshd as well."""

_LAYOUT = ("Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")


@dataclass(frozen=True)
class Node:
    """A compute node as slurm.conf describes it.

    Args:
        name: NodeName.
        address: where the daemons reach it (NodeAddr); best an IP address, because a name that does not resolve
            holds up every start of slurmctld.
        hostname: what the host calls itself; NodeHostname is written where it is not the name.
        hardware: what `slurmd -C` counts there, with all of its memory.
        gpus: in the order of their device files' numbers.
        settings: the user's own keys of the node line; they win over what was discovered, whatever their case.
    """

    name: str
    address: str
    hostname: str
    hardware: Hardware
    gpus: tuple[Gpu, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Device:
    """Generic resources of one name and type on one node.

    Args:
        name: as in GresTypes, such as `gpu`.
        type: such as `a100`, empty when untyped.
        count: how many, as Slurm writes numbers (`4`, `20G`).
        files: their device files; empty for what is only counted.
    """

    name: str
    type: str
    count: str
    files: tuple[str, ...] = ()


def node_lines(nodes: Iterable[Node], memory_margin: str) -> tuple[str, ...]:
    """The NodeName lines of slurm.conf, one for all nodes that differ in names and addresses only.

    Within a line the nodes are in natural order, lines in the order in which their first node appears. Names and
    addresses are folded side by side: Slurm pairs the two lists by position.

    Args:
        nodes: the compute nodes.
        memory_margin: see `real_memory`.

    Raises:
        InputError: the margin is none, or a value cannot be written in slurm.conf.
    """
    alike: dict[tuple[object, ...], list[Node]] = {}
    for node in nodes:
        settings = tuple(node_settings(node, memory_margin).items())
        alike.setdefault((node.address == node.name, node.hostname == node.name, settings), []).append(node)
    return tuple(_node_line(group, memory_margin) for group in alike.values())


def gres_lines(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The lines of gres.conf, each for all nodes with the same devices; none when no node has any."""
    alike: dict[Device, list[str]] = {}
    for node in nodes:
        for device in devices(node):
            alike.setdefault(device, []).append(node.name)
    return tuple(_gres_line(device, names) for device, names in alike.items())


def node_settings(node: Node, memory_margin: str) -> dict[str, str]:
    """What a node line says after NodeName, NodeAddr and NodeHostname, in the order in which it is written.

    A user's CPUs that fit no layer of the discovered layout stand alone, and a user's layout stands without the
    discovered CPUs: Slurm resets CPUs that contradict the layout.
    """
    own = {key.lower(): value for key, value in node.settings.items()}
    found = {key: str(value) for key, value in asdict(node.hardware).items()}
    found["RealMemory"] = str(real_memory(node.hardware.RealMemory, memory_margin))
    replaced = set(own)
    if "procs" in own or "cpus" in own:
        replaced |= {"cpus"}
        if not _fits(own.get("cpus", own.get("procs", "")), node.hardware):
            replaced |= {key.lower() for key in _LAYOUT}
    if "sockets" in own:
        replaced |= {"boards", "socketsperboard"}
    if own.keys() & {"sockets", *(key.lower() for key in _LAYOUT)}:
        replaced |= {"cpus"}
    gres = ",".join(_gres(device) for device in _discovered(node))
    if gres:
        found["Gres"] = gres
    found["State"] = "UNKNOWN"
    kept = {key: value for key, value in found.items() if key.lower() not in replaced}
    state = {"State": kept.pop("State")} if "State" in kept else {}
    return {**kept, **{key: str(value) for key, value in node.settings.items()}, **state}


def real_memory(total: int, margin: str) -> int:
    """The RealMemory of a node in MiB: all that the kernel has, without a margin.

    Slurm takes a node out of service when it has less memory than slurm.conf says, and a kernel update can take some
    away; and the system needs memory of its own that jobs must not be promised. A margin in percent is at least
    `SYSTEM_MEMORY` and at most half of the memory; an amount is taken as it is, and so is 0%.

    >>> real_memory(515000, "3%")
    499550

    Args:
        total: MiB.
        margin: `3%`, or an amount in K, M, G or T (MiB without a letter), such as `512M`.

    Raises:
        InputError: the margin is neither, or takes all the memory.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([%KMGT]?)(?:i?B)?", str(margin).strip(), re.IGNORECASE)
    if not found:
        raise InputError(
            f"memory_margin: “{margin}” is no margin; write a percentage as in 3%, or an amount as in 512M."
        )
    amount, unit = float(found[1]), found[2].upper()
    if unit == "%":
        wanted = max(total * amount / 100, SYSTEM_MEMORY if amount else 0)
        return total - min(int(wanted), total // 2)
    kept = total - int(amount * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}[unit])
    if kept < 1:
        raise InputError(f"memory_margin: {margin} leaves nothing of the {total} MiB of a node; write a smaller one.")
    return kept


def devices(node: Node) -> tuple[Device, ...]:
    """The generic resources of a node, as gres.conf needs them.

    A user's `Gres` says what there is, and the discovered files are dealt out to its GPUs in order. Files that are
    missing are not made up: slurmd then reports fewer GPUs than configured, and Slurm takes that node out of service.
    """
    own = next((value for key, value in node.settings.items() if key.lower() == "gres"), None)
    if own is None:
        return _discovered(node)
    files = [gpu.file for gpu in node.gpus]
    dealt = []
    for device in filter(None, map(_parsed, str(own).split(","))):
        if device.name != "gpu":
            dealt.append(device)
        elif files:
            count = int(re.sub(r"\D", "", device.count))
            mine, files = files[:count], files[count:]
            dealt.append(Device(device.name, device.type, str(len(mine)), tuple(mine)))
    return tuple(dealt)


def gres_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The names that GresTypes has to list, sorted."""
    names = {device.name for node in nodes for device in devices(node)}
    for node in nodes:
        own = (value for key, value in node.settings.items() if key.lower() == "gres")
        names |= {entry.split(":")[0].strip() for value in own for entry in str(value).split(",") if entry.strip()}
    return tuple(sorted(names))


def tracked_gres(nodes: Iterable[Node]) -> tuple[str, ...]:
    """What AccountingStorageTRES names of the nodes' generic resources, each name and each type of it, sorted."""
    found = {(device.name, device.type) for node in nodes for device in devices(node)}
    names = {f"gres/{name}" for name, _ in found} | {f"gres/{name}:{kind}" for name, kind in found if kind}
    return tuple(sorted(names))


def assignment(key: str, value: str) -> str:
    """A key and its value as Slurm's files want them.

    >>> assignment("Reason", "new board")
    'Reason="new board"'

    Args:
        key: as slurm.conf(5) spells it.
        value: what stands right of the `=`; quotes are added where a blank needs them.

    Raises:
        InputError: the value holds a line break, which would begin another setting.
    """
    text = str(value)
    if "\n" in text or "\r" in text:
        raise InputError(f"{key}: its value holds a line break, and a line is all that Slurm's files give it.")
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return f'{key}="{text}"' if re.search(r"\s", text) and not is_quoted else f"{key}={text}"


def fold_in_order(names: Sequence[str]) -> str:
    """Names as a hostlist that Slurm expands to the same names in the same order.

    Unlike `hostlist.fold` it never reorders, because Slurm pairs NodeName and NodeAddr by position. Only numbers at the
    end are folded: Slurm 22.05 takes no text behind a bracket.

    >>> fold_in_order(("n1", "n2", "n4", "gate"))
    'n[1-2,4],gate'
    """
    families = groupby(map(_split, names), lambda part: part[0])
    return ",".join(_bracket(prefix, [digits for _, digits in family]) for prefix, family in families)


def _node_line(nodes: Sequence[Node], memory_margin: str) -> str:
    """One line for nodes that are alike."""
    ordered = sorted(nodes, key=lambda node: _natural(node.name))
    first = ordered[0]
    words = [assignment("NodeName", fold_in_order([node.name for node in ordered]))]
    if first.address != first.name:
        words.append(assignment("NodeAddr", fold_in_order([node.address for node in ordered])))
    if first.hostname != first.name:
        words.append(assignment("NodeHostname", fold_in_order([node.hostname for node in ordered])))
    return " ".join(chain(words, (assignment(*item) for item in node_settings(first, memory_margin).items())))


def _gres_line(device: Device, names: Iterable[str]) -> str:
    """One line of gres.conf."""
    words = [f"NodeName={fold_in_order(sorted(names, key=_natural))}", f"Name={device.name}"]
    if device.type:
        words.append(f"Type={device.type}")
    words.append(f"File={fold_in_order(device.files)}" if device.files else f"Count={device.count}")
    return " ".join(words)


def _discovered(node: Node) -> tuple[Device, ...]:
    """The node's GPUs by type, types in the order of their first file."""
    by_type: dict[str, list[str]] = {}
    for gpu in node.gpus:
        by_type.setdefault(gpu.type, []).append(gpu.file)
    return tuple(Device("gpu", type_, str(len(files)), tuple(files)) for type_, files in by_type.items())


def _gres(device: Device) -> str:
    """A device as the Gres key of a node line has it."""
    return ":".join(filter(None, (device.name, device.type, device.count)))


def _parsed(entry: str) -> Device | None:
    """One entry of a Gres value: `name[:type][:no_consume][:count]` (slurm.conf(5), Gres)."""
    name, *rest = entry.strip().split(":")
    count = rest.pop() if rest and re.fullmatch(r"\d+[KMGTP]?", rest[-1], re.IGNORECASE) else "1"
    kinds = [word for word in rest if word and word != "no_consume"]
    return Device(name, kinds[0] if kinds else "", count) if name else None


def _fits(cpus: str, hardware: Hardware) -> bool:
    """Whether a number of CPUs is that of the sockets, cores or threads: others Slurm resets."""
    sockets = hardware.Boards * hardware.SocketsPerBoard
    cores = sockets * hardware.CoresPerSocket
    return str(cpus) in {str(sockets), str(cores), str(cores * hardware.ThreadsPerCore)}


def _split(name: str) -> tuple[str, str]:
    """A name as what stands before its last number, and that number's digits (none where it does not end in one)."""
    digits = re.search(r"\d{0,9}$", name)
    number = digits[0] if digits else ""
    return name[: len(name) - len(number)], number


def _natural(name: str) -> tuple[str, int, str]:
    """Sorts n2 before n10."""
    prefix, digits = _split(name)
    return prefix, int(digits or -1), digits


def _bracket(prefix: str, numbers: Sequence[str]) -> str:
    """A prefix with its numbers, runs as ranges."""
    if len(numbers) == 1 or not all(numbers):
        return ",".join(prefix + number for number in numbers)
    runs: list[list[str]] = []
    for number in numbers:
        if runs and str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][-1])) == number:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return f"{prefix}[{','.join('-'.join(run) for run in runs)}]"
