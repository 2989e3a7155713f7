"""The nodes that a user may see: what they have, and how much of it is in use."""

from __future__ import annotations

import re
from typing import Dict, Mapping, NamedTuple, Tuple

from slurmfab.on_hosts.agent.nodes.states import NodeState, records, state_of
from slurmfab.on_hosts.programs.user_tools.amounts import gpus_of, number_of


class Node(NamedTuple):
    """A compute node; memory in MiB."""

    name: str  # NodeName
    state: NodeState  # of the node, with the reason if it is out of service
    cpus: int  # that jobs can have
    cpus_used: int  # by jobs
    memory: int
    memory_used: int  # by jobs
    gpus: Mapping[str, int]  # number of GPUs by type; the type of untyped ones is `gpu`
    gpus_used: Mapping[str, int]  # likewise, by jobs
    gres: str  # all generic resources as Slurm writes them
    features: Tuple[str, ...]  # that jobs can ask for (--constraint)
    partitions: Tuple[str, ...]
    fields: Mapping[str, str]  # all values by scontrol's names

    @property
    def scratch(self) -> int:
        """GB of scratch space that jobs can reserve, as the cluster file's `scratch` has it counted."""
        found = re.search(r"(?:^|,)scratch:(?:\d+:)?(\d+)(?=[,(]|$)", self.gres)
        return int(found[1]) if found else 0

    @property
    def is_free(self) -> bool:
        """Whether it is in service and has no jobs."""
        return self.state.is_in_service and "IDLE" in self.state.flags and not self.cpus_used


def read(shown: str) -> Tuple[Node, ...]:
    """The nodes in what `scontrol --details --oneliner show node` printed, in the order of slurm.conf."""
    return tuple(node(fields) for fields in records(shown))


def node(fields: Dict[str, str]) -> Node:
    """A node from its fields."""
    gres = value_or_empty(fields.get("Gres", ""))
    return Node(
        name=fields["NodeName"],
        state=state_of(fields),
        cpus=number(fields, "CPUEfctv") or number(fields, "CPUTot"),
        cpus_used=number(fields, "CPUAlloc"),
        memory=number(fields, "RealMemory"),
        memory_used=number(fields, "AllocMem"),
        gpus=gpus_of(gres),
        gpus_used=gpus_of(fields.get("GresUsed", "")),
        gres=gres,
        features=list_items(fields.get("ActiveFeatures", "")),
        partitions=list_items(fields.get("Partitions", "")),
        fields=fields,
    )


def number(fields: Mapping[str, str], name: str) -> int:
    """A number by its name; 0 if it is not there."""
    return number_of(fields.get(name, "")) or 0


def value_or_empty(text: str) -> str:
    """A value; empty for Slurm's word for none."""
    return "" if text == "(null)" else text


def list_items(text: str) -> Tuple[str, ...]:
    """The names in a list."""
    return tuple(filter(None, value_or_empty(text).split(",")))
