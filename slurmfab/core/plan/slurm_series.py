"""Which Slurm each host of a cluster has, or gets; pure."""

from __future__ import annotations

from functools import cache

from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.versions import SlurmVersion, distribution_version

parsed = cache(SlurmVersion.parse)  # the series of a version; cached, because ten thousand hosts have the same


def series(fact: HostFacts, cluster: Cluster) -> SlurmVersion:
    """The series that a host has, or would get by file or distribution; SlurmfabError if unknown."""
    installed = fact.slurm_version
    return parsed(installed) if installed else wanted(fact.codename, cluster.slurm_of(fact.name))


def wanted(codename: str, slurm: SlurmPackages) -> SlurmVersion:
    """The series that a host without Slurm gets, by file or codename; SlurmfabError if unknown."""
    return slurm.series or distribution_version(codename)


def version(fact: HostFacts, cluster: Cluster) -> str:
    """The version on a host, or else the series that it would get; SlurmfabError if either is unknown."""
    return fact.slurm_version or str(series(fact, cluster))


def in_lock(before: str, installed: str, now: str, cluster_before: str) -> str:
    """A host's version in the lock, `now` the cluster's there, only where its series is another one.

    `installed`: by its facts; empty if it did not answer, or has no Slurm.
    """
    known = installed or before or cluster_before
    return known if now and known.split(".")[:2] != now.split(".")[:2] else ""
