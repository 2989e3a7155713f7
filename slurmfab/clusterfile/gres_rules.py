"""What must hold in the Gres of nodes, as far as the file alone tells; what hosts have, `fitness.gres` compares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slurmfab.slurm.gres import SHARED, Device, autodetect, finds_itself, gres_value, named_files, parsed

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place

METHODS = ("nvidia", "nvml", "rsmi", "oneapi", "off")
"""Values of AutoDetect (gres.conf(5), 24.11) that are about GPUs which slurmfab knows."""

_ENTRY = re.compile(r"[A-Za-z_][\w-]*(:[\w.-]+)?(:no_consume)?(:\d+[KMGTP]?)?", re.IGNORECASE)
_DEVICE = re.compile(r"/dev(/[A-Za-z0-9_][\w.:-]*)+")
_COUNT = re.compile(r"\d+")


def gres_is_spelled_as_slurm_does(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Each entry is `name[:type][:no_consume][:count]` (slurm.conf(5), Gres), and none is there twice."""
    for place, entries in _entries_of(cluster):
        seen: set[tuple[str, str]] = set()
        for entry in entries:
            device = parsed(entry)
            if device is None or not _ENTRY.fullmatch(entry.strip()):
                yield place, f'"{entry.strip()}" is no Gres; write NAME:COUNT or NAME:TYPE:COUNT, as in gpu:a100:4'
            elif device.name == "gpu" and not (_COUNT.fullmatch(device.count) and int(device.count)):
                yield place, f'"{entry.strip()}": GPUs are counted one by one, from 1'
            elif (device.name, device.type) in seen:
                yield place, f'"{entry.strip()}" says again what an earlier entry of this Gres is about'
            else:
                seen.add((device.name, device.type))


def parts_of_gpus_have_gpus(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Shards and MPS are parts of a node's GPUs, as many of each GPU (gres.conf(5), Count)."""
    for place, entries in _entries_of(cluster):
        devices = [device for device in map(parsed, entries) if device]
        parts = [device for device in devices if device.name in SHARED]
        counts = [int(device.count) for device in devices if device.name == "gpu" and _COUNT.fullmatch(device.count)]
        if {device.name for device in parts} == set(SHARED):
            yield place, "shard and mps are two ways to share a GPU; Slurm takes one of them on a node"
        for part in parts:
            complaint = _part_complaint(part, sum(counts))
            if complaint:
                yield place, complaint


def _part_complaint(part: Device, gpus: int) -> str:
    """What is wrong with shards or MPS on a node with so many GPUs; empty for nothing."""
    if part.type:
        return f'"{part.name}" has no type of its own: it is of the GPUs\' type; write {part.name}:{part.count}'
    if not gpus:
        return f"{part.name} is a part of GPUs: say how many there are, as in gpu:a100:4,{part.name}:{part.count}"
    if not _COUNT.fullmatch(part.count) or not int(part.count) or int(part.count) % gpus:
        return (
            f"{part.name}:{part.count} cannot be dealt evenly over {gpus} GPUs, and unequal GPUs would be a surprise "
            f"to people; write a multiple of {gpus}"
        )
    return ""


def gres_types_name_all(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """GresTypes is slurmfab's own; where the user writes it, slurmctld knows the names in it and no others."""
    key = next((key for key in cluster.slurm_conf if key.lower() == "grestypes"), "")
    if not key:
        return
    said = cluster.slurm_conf[key] or ""
    known = {name.strip() for name in said.split(",")}
    for place, entries in _entries_of(cluster):
        unknown = {device.name for device in map(parsed, entries) if device} - known
        for name in sorted(unknown):
            yield place, f'"{name}" is not in slurm_conf.GresTypes ({said or "null"}); add it there'


def autodetect_is_one_of_slurms(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A value of AutoDetect (gres.conf(5)); slurmd ends at others."""
    for number, group in enumerate(cluster.nodes):
        key = next((key for key in group.settings if key.lower() == "autodetect"), "")
        if key and autodetect(group.settings) not in METHODS:
            place = ("nodes", number, "settings", key)
            yield place, f'"{group.settings[key]}" is no way to find GPUs (known: {", ".join(METHODS)})'
        elif finds_itself(group.settings) and key != "AutoDetect":
            yield ("nodes", number, "settings", key), "write AutoDetect, as gres.conf(5) does"


def named_files_are_device_files(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """`File` lists files below /dev, and slurmd that finds GPUs itself has no use for it."""
    for number, group in enumerate(cluster.nodes):
        key = next((key for key in group.settings if key.lower() == "file"), "")
        place = ("nodes", number, "settings", key)
        wrong = [file for file in named_files(group.settings) if not _DEVICE.fullmatch(file)]
        if wrong:
            yield place, f'"{wrong[0]}" is no device file; write them as in /dev/nvidia[0-3] or /dev/accel/accel0'
        elif key and finds_itself(group.settings):
            yield place, f"AutoDetect: {autodetect(group.settings)} finds the device files; leave one of the two out"
        elif key and key != "File":
            yield place, "write File, as gres.conf(5) does"


def _entries_of(cluster: Cluster) -> Iterator[tuple[Place, list[str]]]:
    """The Gres of each group that has one, with its place."""
    for number, group in enumerate(cluster.nodes):
        value = gres_value(group.settings)
        if value is not None:
            key = next(key for key in group.settings if key.lower() == "gres")
            yield ("nodes", number, "settings", key), value.strip('"').split(",")


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (
    gres_is_spelled_as_slurm_does,
    parts_of_gpus_have_gpus,
    gres_types_name_all,
    autodetect_is_one_of_slurms,
    named_files_are_device_files,
)
