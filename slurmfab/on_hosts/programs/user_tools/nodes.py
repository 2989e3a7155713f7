"""The nodes and partitions that a user may see: what they have, and how much of it is in use."""

from __future__ import annotations

import re
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.client.amounts import gpus_of, mebibytes_of, number_of, seconds_of
from slurmfab.on_hosts.agent.nodes.states import NodeState, records, state_of


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
        found = re.search(r"(?:^|,)scratch:(?:\d+:)?(\d{1,18})(?=[,(]|$)", self.gres)
        return int(found[1]) if found else 0

    @property
    def is_free(self) -> bool:
        """Whether it is in service and no job holds it."""
        flags = self.state.flags
        return self.state.is_in_service and "IDLE" in flags and "COMPLETING" not in flags and not self.cpus_used


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


UP = "UP"
_FIELD = r"(?:^|\s)([A-Z]\w*)=(\S*)"
_ALL = frozenset({"", "ALL", "NONE", "(null)"})


class Partition(NamedTuple):
    """A partition."""

    name: str
    is_default: bool  # whether jobs without a partition run in it
    state: str  # `UP`, `DOWN` (jobs are queued), `DRAIN` (no new jobs are taken, queued ones run) or `INACTIVE`
    max_seconds: Optional[int]  # the longest time limit; `None` for no limit, as for the other numbers
    default_seconds: Optional[int]  # the time limit of jobs without one; `None` if that is the longest
    min_nodes: int
    max_nodes: Optional[int]
    max_cpus_per_node: Optional[int]  # of each node
    max_mem_per_node: Optional[int]  # in MiB
    max_mem_per_cpu: Optional[int]  # in MiB
    def_mem_per_node: Optional[int]  # of jobs that say none, in MiB
    def_mem_per_cpu: Optional[int]  # of jobs that say none, in MiB
    allow_groups: Tuple[str, ...]  # the groups whose members may use it; empty for all users
    allow_accounts: Tuple[str, ...]  # the accounts that may use it; empty for all
    deny_accounts: Tuple[str, ...]  # the accounts that may not
    allow_qos: Tuple[str, ...]  # the QOS that its jobs may have; empty for all
    deny_qos: Tuple[str, ...]  # the QOS that its jobs may not have
    qos: str  # the QOS whose limits hold for its jobs; empty for none
    nodes: str  # a hostlist
    fields: Mapping[str, str]  # all values by scontrol's names

    @property
    def takes_jobs(self) -> bool:
        """Whether it takes new jobs, although they may have to wait until it is up."""
        return self.state in (UP, "DOWN")

    @property
    def starts_jobs(self) -> bool:
        """Whether its jobs are started."""
        return self.state in (UP, "DRAIN")


def read_partitions(shown: str) -> Tuple[Partition, ...]:
    """The partitions in what `scontrol --oneliner show partition` printed, in the order of slurm.conf."""
    lines = (line for line in shown.split("\n") if line.startswith("PartitionName="))
    return tuple(partition(dict(re.findall(_FIELD, line))) for line in lines)


def partition(fields: Mapping[str, str]) -> Partition:
    """A partition from its fields."""
    qos = fields.get("QoS", "")
    return Partition(
        name=fields["PartitionName"],
        is_default=fields.get("Default") == "YES",
        state=fields.get("State", UP),
        max_seconds=seconds_of(fields.get("MaxTime", "")),
        default_seconds=seconds_of(fields.get("DefaultTime", "")),
        min_nodes=number_of(fields.get("MinNodes", "")) or 0,
        max_nodes=number_of(fields.get("MaxNodes", "")),
        max_cpus_per_node=number_of(fields.get("MaxCPUsPerNode", "")),
        max_mem_per_node=mebibytes_of(fields.get("MaxMemPerNode", "")),
        max_mem_per_cpu=mebibytes_of(fields.get("MaxMemPerCPU", "")),
        def_mem_per_node=mebibytes_of(fields.get("DefMemPerNode", "")),
        def_mem_per_cpu=mebibytes_of(fields.get("DefMemPerCPU", "")),
        allow_groups=names(fields.get("AllowGroups", "")),
        allow_accounts=names(fields.get("AllowAccounts", "")),
        deny_accounts=names(fields.get("DenyAccounts", "")),
        allow_qos=names(fields.get("AllowQos", "")),
        deny_qos=names(fields.get("DenyQos", "")),
        qos="" if qos in ("N/A", "(null)") else qos,
        nodes="" if fields.get("Nodes") == "(null)" else fields.get("Nodes", ""),
        fields=fields,
    )


def names(text: str) -> Tuple[str, ...]:
    """The names in a list; none for `ALL`."""
    return () if text in _ALL else tuple(filter(None, text.split(",")))
