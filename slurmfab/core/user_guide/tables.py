"""The tables of the guide: partitions, nodes, GPUs, accounts, QOS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurmfab.base.grouping import grouped
from slurmfab.cluster.inventory.accounting import ROOT, Account, Qos
from slurmfab.core.user_guide.amounts import duration, gigabytes
from slurmfab.core.user_guide.limits import giving_way, limit_texts
from slurmfab.core.user_guide.markdown import code
from slurmfab.core.user_guide.offer import Offer, OfferedGpus, OfferedPartition, Shape, whole
from slurmfab.on_hosts.agent.client.amounts import clock

_LITTLE_MEMORY, _SOME_MEMORY, _MUCH_MEMORY = 1024, 4096, 16384
_FEW_MINUTES, _SOME_MINUTES = 5, 60
_FEW_CPUS, _MANY_CPUS = 2, 8

NONE = "–"  # what a cell has whose value is not known, or that has none
_SOME_SCRATCH = 50  # the gigabytes of an example, where nodes have that many

_SHARES = {"shard": ("a share of a GPU", "1"), "mps": ("a percentage of a GPU", "50")}
"""Generic resources that Slurm itself knows: what one is, and an example of a number."""


def values_of_examples(partition: OfferedPartition | None) -> dict[str, str | int]:
    """What the guide's example jobs ask for, by template names, in a partition, or in general (`None`)."""
    shapes = [shape for shape, _ in partition.shapes] if partition else []
    cpus = min((shape.cpus for shape in shapes if shape.cpus), default=_MANY_CPUS)
    memory = min((shape.memory for shape in shapes if shape.memory), default=_MUCH_MEMORY)
    if partition and partition.most_memory:
        memory = min(memory, partition.most_memory)
    minutes = (partition.max_minutes if partition else None) or _SOME_MINUTES
    return {
        "few_cpus": min(_FEW_CPUS, cpus),
        "many_cpus": min(_MANY_CPUS, cpus),
        "little_memory": gigabytes(min(_LITTLE_MEMORY, memory)),
        "some_memory": gigabytes(min(_SOME_MEMORY, memory)),
        "much_memory": gigabytes(min(_MUCH_MEMORY, memory)),
        "few_minutes": clock(60 * min(_FEW_MINUTES, minutes)),
        "some_minutes": clock(60 * min(_SOME_MINUTES, minutes)),
    }


def values(found: Offer) -> dict[str, Any]:
    """What the template of the guide names, of what the cluster offers."""
    shapes = found.shapes if any(shape != Shape() for shape, _ in found.shapes) else ()
    features = tuple(dict.fromkeys(feature for shape, _ in found.shapes for feature in shape.features))
    gpu = found.first_with_gpus
    return {
        "default": found.default.name if found.default else "",
        "first_partition": (found.first or found.cluster.partitions[0]).name,
        "partitions": [_partition(found, one) for one in found.partitions],
        "nodes": [_nodes(found, shape, count) for shape, count in shapes],
        "features": features,
        "has_features": bool(features),
        "has_gpus": bool(found.gpus),
        "has_scratch": any(shape.scratch for shape, _ in found.shapes),
        "others": list(_others(found)),
        "licenses": [{"name": name, "count": count} for name, count in found.cluster.licenses.items()],
        "default_memory": default_memory(found),
        "gpus": [_gpus(one) for one in found.gpus],
        "typed": sum(bool(one.type) for one in found.gpus) > 1,
        "gpu_partition": gpu.name if gpu else "",
        "examples": values_of_examples(found.first),
        "gpu_examples": values_of_examples(gpu),
        "scratch_example": min((_SOME_SCRATCH, *(shape.scratch for shape, _ in found.shapes if shape.scratch))),
        "accounting": found.cluster.database is not None,
        "accounts": [_account(one) for one in found.cluster.accounts if one.name in found.accounts],
        "qos": [_qos(one) for one in found.cluster.qos if one.name in found.qos],
        "coordinators": ", ".join(
            f"{', '.join(map(code, one.coordinators))} for {code(one.name)}"
            for one in found.cluster.accounts
            if one.coordinators
        ),
    }


def default_memory(found: Offer) -> str:
    """What a job gets that asks for no memory, in words; empty where no partition's is known."""
    by_words = grouped((one.default_memory, code(one.name)) for one in found.partitions)
    if len(by_words) == 1:
        return next(iter(by_words))
    return "; ".join(f"{words} in {', '.join(names)}" for words, names in by_words.items() if words)


def _partition(found: Offer, one: OfferedPartition) -> dict[str, Any]:
    return {
        "name": one.name,
        "nodes": one.count,
        "longest": "no limit" if one.max_minutes is None else duration(one.max_minutes),
        "default": "the longest" if one.default_minutes is None else duration(one.default_minutes),
        "per_job": per_job(one),
        "hosts": one.hosts,
        "notes": list(_notes(found, one)),
    }


def per_job(one: OfferedPartition) -> str:
    """How many nodes a job can have, in words."""
    if one.min_nodes > 1:
        return f"{one.min_nodes} or more" if one.max_nodes is None else f"{one.min_nodes} to {one.max_nodes}"
    return "any number" if one.max_nodes is None else f"up to {one.max_nodes}"


def _notes(found: Offer, one: OfferedPartition) -> Iterator[str]:
    """Yield what else to know of a partition."""
    if not one.is_open:
        yield "starts no jobs at present"
    if one.accounts:
        yield f"for the accounts {_names(one.accounts)} alone"
    if one.denied_accounts:
        yield f"not for the accounts {_names(one.denied_accounts)}"
    if one.groups:
        yield f"for the UNIX groups {_names(one.groups)} alone"
    if one.allowed_qos:
        yield f"for jobs with the QOS {_names(one.allowed_qos)} alone"
    if one.denied_qos:
        yield f"not for jobs with the QOS {_names(one.denied_qos)}"
    if one.is_exclusive:
        yield "each job gets whole nodes"
    if gives_way := giving_way(one.preempt_mode):
        yield f"{gives_way} when jobs with a higher priority need the nodes"
    limits = {qos.name: qos.settings for qos in found.cluster.qos}.get(one.qos.lower(), {})
    yield from limit_texts(limits, is_qos=True)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(code, names))


def _nodes(found: Offer, shape: Shape, count: int) -> dict[str, Any]:
    gpus = [f"{number} × {kind or 'GPU'}" for kind, number in shape.gpus]
    counts = {one.name: dict(one.shapes).get(shape, 0) for one in found.partitions}
    partitions = [
        f"{code(name)} ({here} of them)" if here < count else code(name) for name, here in counts.items() if here
    ]
    return {
        "count": count,
        "cpus": shape.cpus or NONE,
        "memory": gigabytes(shape.memory) if shape.memory else NONE,
        "gpus": ", ".join(gpus) or NONE,
        "scratch": f"{shape.scratch}G" if shape.scratch else NONE,
        "features": _names(shape.features) or NONE,
        "partitions": ", ".join(partitions) or NONE,
    }


def _others(found: Offer) -> Iterator[dict[str, str]]:
    """Yield generic resources that are neither GPUs nor scratch directories."""
    most: dict[str, str] = {}
    for shape, _ in found.shapes:
        for name, count in shape.others:
            if whole(count) > whole(most.get(name, "0")):
                most[name] = count
    for name, count in most.items():
        what, example = _SHARES.get(name, (code(name), f"1{count[-1]}" if count[-1].isalpha() else "1"))
        yield {"name": name, "what": what, "example": example, "most": count}


def _gpus(one: OfferedGpus) -> dict[str, Any]:
    return {
        "type": code(one.type) if one.type else "any",
        "gres": f"gpu:{one.type}" if one.type else "gpu",
        "per_node": one.per_node,
        "total": one.total,
        "partitions": _names(one.partitions) or NONE,
    }


def _account(one: Account) -> dict[str, str]:
    return {
        "name": one.name,
        "parent": NONE if one.parent == ROOT else code(one.parent),
        "limits": "; ".join(limit_texts(one.settings, is_qos=False)) or NONE,
    }


def _qos(one: Qos) -> dict[str, str]:
    settings = {key.lower(): value for key, value in one.settings.items()}
    return {
        "name": one.name,
        "priority": settings.get("priority", NONE),
        "limits": "; ".join(limit_texts(one.settings, is_qos=True)) or NONE,
    }
