"""The partitions that a user may see, with their limits, as slurmctld tells them."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.programs.user_tools.amounts import mebibytes_of, number_of, seconds_of

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


def read(shown: str) -> Tuple[Partition, ...]:
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
