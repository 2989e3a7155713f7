"""Rules between `gpu_checks` and the rest of a cluster file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.gpu_checks import ALL_TYPES
from slurmfab.cluster.inventory.slurm_settings import Place


def gpus_of_known_types(cluster: Cluster) -> Iterator[tuple[Place, str]]:
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


def gpu_jobs_have_a_place(cluster: Cluster) -> Iterator[tuple[Place, str]]:
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
    kinds = [[word for word in rest if word != "no_consume" and not word[:1].isdigit()] for _, *rest in entries]
    return {kind[0] if kind else "gpu" for entry, kind in zip(entries, kinds, strict=True) if entry[0] == "gpu"}


RULES = (gpus_of_known_types, gpu_jobs_have_a_place)
