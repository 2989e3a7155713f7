"""Where a test job runs: slurmfab's own hidden partition, or a partition of the cluster file for a user's job."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfab.cluster.inventory.cluster import Cluster, Partition
from slurmfab.cluster.inventory.own_jobs import hindrances, partition_of_own_jobs
from slurmfab.cluster.inventory.slurm_settings import setting

PRIVILEGED = ("slurm", "root")  # the users who may use slurmfab's own partition


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
