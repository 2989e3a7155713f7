"""The programs of ours that slurm.conf names, for slurmd to run: around jobs, and to look at a node's health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster

PROGRAMS = "/usr/local/lib/slurmfab"
"""Where programs of ours stay on hosts."""


@dataclass(frozen=True)
class NodePrograms:
    """Which of them there are.

    Args:
        has_prolog: whether nodes run scripts of the cluster's before each job; `has_epilog` after it.
        health_interval: seconds between two looks at a node's health; 0 for none.
    """

    has_prolog: bool = False
    has_epilog: bool = False
    health_interval: int = 0
    directory: str = PROGRAMS

    @staticmethod
    def of(cluster: Cluster) -> NodePrograms:
        """What a cluster file asks for."""
        interval = cluster.health.interval if cluster.health else 0
        return NodePrograms(cluster.prolog is not None, cluster.epilog is not None, interval)
