"""The partitions of test jobs, slurmfab's own or one of the cluster file, and the users who stand for all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from slurmfab.cluster.inventory.cluster import Cluster, Partition
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.on_hosts.agent.client.commands import PARTITION

LONGEST_JOB = 60
"""Minutes that each job may take in slurmfab's own partition, at least (SHORTEST_LIMIT of `cluster.slurm.render`)."""

NOBODY = "nobody"  # a user that every host has, with the same number, and who may do nothing
PRIVILEGED = ("slurm", "root")  # the users who may use slurmfab's own partition

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


@dataclass(frozen=True)
class Place:
    """A partition for a job, and the account that may use it."""

    partition: str
    account: str = ""  # account of the job; empty for the user's default account

    @property
    def options(self) -> tuple[str, ...]:
        """The options of srun and sbatch."""
        return (f"--partition={self.partition}", *((f"--account={self.account}",) if self.account else ()))


def place_for(cluster: Cluster, user: str, nodes: tuple[str, ...]) -> Place | None:
    """Where a user's job on all of these nodes runs; `None` if no partition that the cluster file has UP has them all.

    The slurm user's jobs run in slurmfab's own partition, if there is one, so that no limit and no list of accounts of
    a partition concerns them. Other users' jobs run in the first partition that has the nodes and that the user may use
    by the cluster file; if there is none, in the first that has them, and Slurm says why it refuses.
    """
    closed = [one.name for one in cluster.partitions if hindrances(one)[0]]
    if user in PRIVILEGED:
        own = partition_of_own_jobs(cluster, nodes)
        return Place(own) if own and own not in closed else None
    there = (one for one in cluster.partitions if one.name not in closed)
    having = [one for one in there if one.nodes == "ALL" or set(nodes) <= set(one.nodes)]
    places = [place for one in having for place in places_of(cluster, user, one)]
    return next(iter((*places, *(Place(one.name) for one in having))), None)


def places_of(cluster: Cluster, user: str, partition: Partition) -> tuple[Place, ...]:
    """How a user may use a partition, default account first; without an account, if it names no accounts."""
    accounts = next((one.accounts for one in cluster.users if one.name == user), ())
    allowed, denied = (names(partition, key) for key in ("AllowAccounts", "DenyAccounts"))
    if not accounts:
        return () if allowed else (Place(partition.name),)
    usable = [one for one in accounts if (one.lower() in allowed if allowed else one.lower() not in denied)]
    return tuple(Place(partition.name, "" if one == accounts[0] else one) for one in usable)


def names(partition: Partition, key: str) -> frozenset[str]:
    """The names in a list of a partition's line, in lower case as slurmdbd has them; none for `ALL`."""
    found = {name.strip().lower() for name in setting(partition.settings, key).split(",")} - {""}
    return frozenset() if found == {"all"} else frozenset(found)


def ordinary_users(cluster: Cluster) -> tuple[str, ...]:
    """The users whose jobs may stand for those of all, the first that a host knows: of the cluster file, then nobody.

    Where jobs need an account, those who have one.
    """
    named = (one.name for one in cluster.users if one.accounts or not cluster.enforces_accounts)
    return (*named, *(() if cluster.enforces_accounts else (NOBODY,)))
