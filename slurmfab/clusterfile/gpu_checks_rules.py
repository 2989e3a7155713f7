"""What must hold between checks of GPUs and the rest of a cluster file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from slurmfab.clusterfile.gpu_checks import ALL_TYPES

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.clusterfile.slurm_settings import Place


def gpus_of_known_types(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A threshold for a type that no node has would be kept by all.

    Nodes whose `Gres` the file does not say have types that only a deployment knows; it looks at them itself.
    """
    said = [gres_of(group.settings) for group in cluster.nodes]
    if cluster.gpu_checks is None or None in said:
        return
    types = {kind for gres in said for kind in gpu_types(gres or "")}
    if not types:
        yield ("gpu_checks",), "no node has GPUs, by what nodes say of Gres"
    for place, key in unknown_types(cluster, types) if types else ():
        yield place, f'no node has GPUs of the type "{key}" (known: {", ".join(sorted(types))})'


def gpu_jobs_have_a_place(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """The partition and the QOS are there."""
    if cluster.gpu_checks is None:
        return
    partition, qos = cluster.gpu_checks.partition, cluster.gpu_checks.qos
    names = [one.name for one in cluster.partitions]
    if partition is not None and partition not in names:
        yield ("gpu_checks", "partition"), f'"{partition}" is no partition (known: {", ".join(names)})'
    if qos is not None and cluster.database is None:
        yield ("gpu_checks", "qos"), "a QOS needs a database: the key database at the top"
    elif qos is not None and cluster.qos and qos not in {"normal", *(one.name for one in cluster.qos)}:
        yield ("gpu_checks", "qos"), f'"{qos}" is none of the qos of this file'


def unknown_types(cluster: Cluster, types: Iterable[str]) -> Iterator[tuple[Place, str]]:
    """The thresholds of types that are not among these, by their places and types.

    Args:
        cluster: the cluster file.
        types: of all GPUs.
    """
    checks = cluster.gpu_checks
    if checks is None:
        return
    known = [kind.lower() for kind in types]
    for field, speeds in (("min_busbw", checks.min_busbw), ("between_nodes", checks.between_nodes or {})):
        for key in speeds:
            if key != ALL_TYPES and not any(key.lower() in kind for kind in known):
                yield ("gpu_checks", field, key), key


def gres_of(settings: dict[str, str]) -> str | None:
    """What nodes say of their generic resources; `None` where they leave it to discovery."""
    return next((text for key, text in settings.items() if key.lower() == "gres"), None)


def gpu_types(gres: str) -> set[str]:
    """The types of GPUs in a `Gres` of a node line; `gpu` for those without.

    >>> sorted(gpu_types("gpu:a100:4,gpu:2,shard:8"))
    ['a100', 'gpu']
    """
    entries = [entry.strip().split(":") for entry in gres.split(",")]
    kinds = [[word for word in rest if word != "no_consume" and not word[:1].isdigit()] for _, *rest in entries]
    return {kind[0] if kind else "gpu" for entry, kind in zip(entries, kinds, strict=True) if entry[0] == "gpu"}


RULES: tuple[Callable[[Cluster], Iterator[tuple[Place, str]]], ...] = (gpus_of_known_types, gpu_jobs_have_a_place)
