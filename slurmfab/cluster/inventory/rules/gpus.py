"""Rules about GPUs: their Gres, their checks, and jobs that leave them idle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.gpu_checks import ALL_TYPES
from slurmfab.cluster.inventory.rules.power import unknown
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place
from slurmfab.cluster.slurm.gres import SHARED, Device, autodetect, finds_itself, gres_value, named_files, parsed


def gpus_of_known_types(cluster: Cluster) -> Complaints:
    """Thresholds are for GPU types that nodes have, as others would have no effect.

    If a group has no `Gres` in the file, only a deployment knows its types, and checks them then.
    """
    values = [gres_of(group.settings) for group in cluster.nodes]
    if cluster.gpu_checks is None or None in values:
        return
    types = {kind for gres in values for kind in gpu_types(gres or "")}
    if not types:
        yield ("gpu_checks",), "no node has GPUs in its Gres"
    for place, key in unknown_types(cluster, types) if types else ():
        yield place, f'no node has GPUs of the type "{key}" (known: {", ".join(sorted(types))})'


def gpu_jobs_have_a_place(cluster: Cluster) -> Complaints:
    """The partition and the QOS of the jobs exist."""
    if cluster.gpu_checks is None:
        return
    partition, qos = cluster.gpu_checks.partition, cluster.gpu_checks.qos
    names = [one.name for one in cluster.partitions]
    if partition is not None and partition not in names:
        yield ("gpu_checks", "partition"), f'"{partition}" is not a partition (known: {", ".join(names)})'
    if qos is not None and cluster.database is None:
        yield ("gpu_checks", "qos"), "a QOS needs the key database at the top"
    elif qos is not None and cluster.qos and qos not in {"normal", *(one.name for one in cluster.qos)}:
        yield ("gpu_checks", "qos"), f'"{qos}" is not a QOS of this file'


def unknown_types(cluster: Cluster, types: Iterable[str]) -> Iterator[tuple[Place, str]]:
    """Yield place and type of the thresholds for unknown GPU types. `types`: the types of all GPUs."""
    checks = cluster.gpu_checks
    if checks is None:
        return
    known = [kind.lower() for kind in types]
    for field, speeds in (("min_busbw", checks.min_busbw), ("between_nodes", checks.between_nodes or {})):
        for key in speeds:
            if key != ALL_TYPES and not any(key.lower() in kind for kind in known):
                yield ("gpu_checks", field, key), key


def gres_of(settings: dict[str, str]) -> str | None:
    """The `Gres` of a group of nodes; `None` if it is discovered."""
    return next((text for key, text in settings.items() if key.lower() == "gres"), None)


def gpu_types(gres: str) -> set[str]:
    """The GPU types in a `Gres`; `gpu` for GPUs without a type.

    >>> sorted(gpu_types("gpu:a100:4,gpu:2,shard:8"))
    ['a100', 'gpu']
    """
    entries = [entry.strip().split(":") for entry in gres.split(",")]
    kinds = [[word for word in rest if word != "no_consume" and not word[:1].isdecimal()] for _, *rest in entries]
    return {kind[0] if kind else "gpu" for entry, kind in zip(entries, kinds, strict=True) if entry[0] == "gpu"}


METHODS = ("nvidia", "nvml", "rsmi", "oneapi", "off")
"""Values of AutoDetect (gres.conf(5), 24.11) for GPUs that slurmfab supports."""

_ENTRY = re.compile(r"[A-Za-z_][\w-]*(:\w[\w.-]*)?(:no_consume)?(:\d+[KMGTP]?)?", re.IGNORECASE)
_DEVICE = re.compile(r"/dev(/[A-Za-z0-9_][\w.:-]*)+")
_COUNT = re.compile(r"\d+")


def gres_is_spelled_as_slurm_does(cluster: Cluster) -> Complaints:
    """Each entry is `name[:type][:no_consume][:count]` (slurm.conf(5), Gres), with a unique name and type."""
    for place, entries in _entries_of(cluster):
        seen: set[tuple[str, str]] = set()
        for entry in entries:
            device = parsed(entry)
            if device is None or not _ENTRY.fullmatch(entry.strip()):
                yield place, f'"{entry.strip()}" is not a Gres; write NAME:COUNT or NAME:TYPE:COUNT, as in gpu:a100:4'
            elif device.name == "gpu" and not (_COUNT.fullmatch(device.count) and int(device.count)):
                yield place, f'"{entry.strip()}": the number of GPUs is a whole number from 1'
            elif (device.name, device.type) in seen:
                yield place, f'"{entry.strip()}" has the same name and type as an earlier entry of this Gres'
            else:
                seen.add((device.name, device.type))


def parts_of_gpus_have_gpus(cluster: Cluster) -> Complaints:
    """Shards and MPS divide a node's GPUs evenly (gres.conf(5), Count)."""
    for place, entries in _entries_of(cluster):
        devices = [device for device in map(parsed, entries) if device]
        parts = [device for device in devices if device.name in SHARED]
        counts = [int(device.count) for device in devices if device.name == "gpu" and _COUNT.fullmatch(device.count)]
        if {device.name for device in parts} == set(SHARED):
            yield place, "shard and mps are two ways to share a GPU; Slurm allows one of them on a node"
        for part in parts:
            complaint = _part_complaint(part, sum(counts))
            if complaint:
                yield place, complaint


def mps_jobs_find_their_daemon(cluster: Cluster) -> Complaints:
    """The MPS daemon is for nodes with mps, and jobs find it in /tmp/nvidia-mps, which a private /tmp would hide."""
    if not cluster.mps_daemon:
        return
    devices = [device for _, entries in _entries_of(cluster) for device in map(parsed, entries) if device]
    if not any(device.name == "mps" for device in devices):
        yield ("mps_daemon",), 'no node has mps in its Gres, as in Gres: "gpu:a100:4,mps:400"'
    if cluster.private_tmp and "/tmp" in cluster.private_tmp.directories:  # noqa: S108 - its name
        yield ("mps_daemon",), "jobs find the MPS daemon in /tmp, and private_tmp gives them another one"


def _part_complaint(part: Device, gpus: int) -> str:
    """The complaint about shards or MPS on a node with this number of GPUs; empty for none."""
    if part.type:
        return f'"{part.name}" takes no type, since it has that of the GPUs; write {part.name}:{part.count}'
    if not gpus:
        return f"{part.name} shares GPUs: list the GPUs too, as in gpu:a100:4,{part.name}:{part.count}"
    if not _COUNT.fullmatch(part.count) or not int(part.count) or int(part.count) % gpus:
        return f"{part.name}:{part.count} cannot be divided evenly among {gpus} GPUs; write a multiple of {gpus}"
    return ""


def gres_types_name_all(cluster: Cluster) -> Complaints:
    """slurmfab writes GresTypes; if the user sets it, it must contain all names, as slurmctld knows no others."""
    key = next((key for key in cluster.slurm_conf if key.lower() == "grestypes"), "")
    if not key:
        return
    value = cluster.slurm_conf[key] or ""
    known = {name.strip() for name in value.split(",")}
    for place, entries in _entries_of(cluster):
        unknown = {device.name for device in map(parsed, entries) if device} - known
        for name in sorted(unknown):
            yield place, f'"{name}" is not in slurm_conf.GresTypes ({value or "null"}); add it there'


def autodetect_is_one_of_slurms(cluster: Cluster) -> Complaints:
    """AutoDetect has a known value (gres.conf(5)); slurmd does not start with others."""
    for number, group in enumerate(cluster.nodes):
        key = next((key for key in group.settings if key.lower() == "autodetect"), "")
        if key and autodetect(group.settings) not in METHODS:
            place = ("nodes", number, "settings", key)
            yield place, f'"{group.settings[key]}" is not a value of AutoDetect (known: {", ".join(METHODS)})'
        elif finds_itself(group.settings) and key != "AutoDetect":
            yield ("nodes", number, "settings", key), "write AutoDetect, as gres.conf(5) does"


def named_files_are_device_files(cluster: Cluster) -> Complaints:
    """`File` lists files below /dev, and is not used together with AutoDetect."""
    for number, group in enumerate(cluster.nodes):
        key = next((key for key in group.settings if key.lower() == "file"), "")
        place = ("nodes", number, "settings", key)
        wrong = [file for file in named_files(group.settings) if not _DEVICE.fullmatch(file)]
        if wrong:
            yield place, f'"{wrong[0]}" is not a device file; write them as in /dev/nvidia[0-3] or /dev/accel/accel0'
        elif key and finds_itself(group.settings):
            yield place, f"AutoDetect: {autodetect(group.settings)} finds the device files; remove one of the two keys"
        elif key and key != "File":
            yield place, "write File, as gres.conf(5) does"


def divided_gpus_are_written_by_slurmfab(cluster: Cluster) -> Complaints:
    """With `mig`, the Gres of nodes are their instances, which only slurmfab can write."""
    for number, group in enumerate(cluster.nodes):
        if group.mig is None:
            continue
        key = next((key for key in group.settings if key.lower() in ("gres", "file")), "")
        if key:
            yield ("nodes", number, "settings", key), "with mig, slurmfab writes which GPUs there are; remove this key"
        if cluster.keep_files:
            yield ("nodes", number, "mig"), "gres.conf would have to follow, and keep_files leaves it as it is"


def _entries_of(cluster: Cluster) -> Iterator[tuple[Place, list[str]]]:
    """Yield the entries of each group's Gres, with its place; `none` has no entries."""
    for number, group in enumerate(cluster.nodes):
        value = gres_value(group.settings)
        if value:
            key = next(key for key in group.settings if key.lower() == "gres")
            yield ("nodes", number, "settings", key), value.strip('"').split(",")


def policy_can_be_carried_out(cluster: Cluster) -> Complaints:
    """There is mail where users are told by mail, its partitions exist, and the slurm user may end jobs."""
    policy = cluster.idle_gpus
    if policy is None:
        return
    names = [one.name for one in cluster.partitions]
    yield from unknown(("idle_gpus", "partitions"), policy.partitions, names, f"not a partition ({', '.join(names)})")
    own_mail = any(key.lower() == "mailprog" for key in cluster.slurm_conf)
    if policy.mail == "user" and cluster.mail is None and not own_mail:
        yield ("idle_gpus", "mail"), "users get mail only with the key mail at the top; or write mail: nobody"
