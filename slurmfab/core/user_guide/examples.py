"""The numbers in the commands of the guide: such that each job fits on the smallest node of its partition."""

from __future__ import annotations

from slurmfab.core.user_guide.amounts import gigabytes
from slurmfab.core.user_guide.offer import OfferedPartition
from slurmfab.on_hosts.programs.user_tools.amounts import clock

_LITTLE_MEMORY, _SOME_MEMORY, _MUCH_MEMORY = 1024, 4096, 16384
_FEW_MINUTES, _SOME_MINUTES = 5, 60
_FEW_CPUS, _MANY_CPUS = 2, 8


def values_of_examples(partition: OfferedPartition | None) -> dict[str, str | int]:
    """What jobs of the guide ask for, by the names that its template has for them.

    `partition`: the one to which they go; `None` for numbers of no cluster in particular.
    """
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
