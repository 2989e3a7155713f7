"""Generic resources: what a node's Gres says, and the lines of gres.conf that describe the devices behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurmfab.slurm.node import Node
from slurmfab.slurm.spelling import fold_in_order, natural


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


def gres_lines(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The lines of gres.conf, each for all nodes with the same devices; none when no node has any."""
    alike: dict[Device, list[str]] = {}
    for node in nodes:
        for device in devices(node):
            alike.setdefault(device, []).append(node.name)
    return tuple(_gres_line(device, names) for device, names in alike.items())


def devices(node: Node) -> tuple[Device, ...]:
    """The generic resources of a node, as gres.conf needs them.

    A user's `Gres` says what there is, and the discovered files are dealt out to its GPUs in order. Files that are
    missing are not made up: slurmd then reports fewer GPUs than configured, and Slurm takes that node out of service.
    """
    own = next((value for key, value in node.settings.items() if key.lower() == "gres"), None)
    if own is None:
        return discovered(node)
    files = [gpu.file for gpu in node.gpus]
    dealt = []
    for device in filter(None, map(parsed, str(own).split(","))):
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


def discovered(node: Node) -> tuple[Device, ...]:
    """The node's GPUs by type, types in the order of their first file."""
    by_type: dict[str, list[str]] = {}
    for gpu in node.gpus:
        by_type.setdefault(gpu.type, []).append(gpu.file)
    return tuple(Device("gpu", type_, str(len(files)), tuple(files)) for type_, files in by_type.items())


def written(device: Device) -> str:
    """A device as the Gres key of a node line has it."""
    return ":".join(filter(None, (device.name, device.type, device.count)))


def parsed(entry: str) -> Device | None:
    """One entry of a Gres value: `name[:type][:no_consume][:count]` (slurm.conf(5), Gres)."""
    name, *rest = entry.strip().split(":")
    count = rest.pop() if rest and re.fullmatch(r"\d+[KMGTP]?", rest[-1], re.IGNORECASE) else "1"
    kinds = [word for word in rest if word and word != "no_consume"]
    return Device(name, kinds[0] if kinds else "", count) if name else None


def _gres_line(device: Device, names: Iterable[str]) -> str:
    """One line of gres.conf."""
    words = [f"NodeName={fold_in_order(sorted(names, key=natural))}", f"Name={device.name}"]
    if device.type:
        words.append(f"Type={device.type}")
    words.append(f"File={fold_in_order(device.files)}" if device.files else f"Count={device.count}")
    return " ".join(words)
