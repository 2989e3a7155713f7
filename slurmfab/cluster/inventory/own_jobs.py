"""The partition in which slurmfab's own jobs run: tests of new nodes, checks, GPU measurements."""

from __future__ import annotations

from collections.abc import Collection

from slurmfab.cluster.inventory.cluster import Cluster, Partition
from slurmfab.on_hosts.agent.client.commands import PARTITION

LONGEST_JOB = 60
"""Minutes that each job may take in slurmfab's own partition, at least (SHORTEST_LIMIT of `cluster.slurm.render`)."""

OPEN_TO_ALL = ("", "all")
LISTS = ("allowaccounts", "allowqos")
"""Keys of a partition whose lists also hold for the slurm user, unlike AllowGroups and RootOnly (slurm.conf(5))."""


def partition_of_own_jobs(cluster: Cluster, nodes: Collection[str]) -> str:
    """The partition of a job of slurmfab on some nodes.

    It is the hidden one, which every slurm.conf of slurmfab has; with `own_partition: false` the first of the cluster
    file that has all of the nodes, with those last that are not UP, or that the slurm user may not use. Returns its
    name; empty if no partition has all of the nodes.
    """
    if cluster.own_partition:
        return PARTITION
    wanted = frozenset(nodes)
    having = [one for one in cluster.partitions if one.nodes == "ALL" or wanted <= frozenset(one.nodes)]
    return min(having, key=hindrances).name if having else ""


def hindrances(partition: Partition) -> tuple[bool, bool]:
    """Whether a partition is not UP, and whether it takes only jobs of some accounts or QOS, or in reservations."""
    settings = {key.lower(): value.strip().lower() for key, value in partition.settings.items()}
    is_limited = any(settings.get(key, "") not in OPEN_TO_ALL for key in LISTS)
    return settings.get("state", "up") != "up", is_limited or settings.get("reqresv", "no") in ("yes", "true", "1")
