"""Hosts that slurmfab cannot deploy to, with the reason: judged from facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slurmfab.errors import SlurmfabError
from slurmfab.facts import HostFacts
from slurmfab.slurm.versions import SlurmVersion, distribution_version

if TYPE_CHECKING:
    from slurmfab.inventory.cluster import Cluster
    from slurmfab.inventory.lock import Lock

CLOCK_SECONDS = 240
"""The greatest clock offset in seconds: munge refuses credentials after 300 s (munged(8), TTL), transfer included."""


def unfit(cluster: Cluster, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts that cannot be deployed to: names and reasons, for hosts whose facts are known."""
    reasons = {}
    expected = series(facts[cluster.controller]) if cluster.controller in facts else None
    for host, fact in facts.items():
        reason = wrong_system(fact) or wrong_clock(fact) or wrong_hardware(cluster, host, fact)
        if not reason and expected and host != cluster.controller:
            reason = wrong_version(fact, expected)
        if reason:
            reasons[host] = reason
    return reasons


def unfit_newcomers(facts: Mapping[str, HostFacts], expected: SlurmVersion | None) -> dict[str, str]:
    """The hosts that cannot become compute nodes of a cluster: names and reasons.

    Args:
        facts: the facts of hosts that are not in the cluster yet.
        expected: the cluster's version of Slurm; `None` before its first deployment.
    """
    found = {
        host: wrong_system(fact)
        or wrong_clock(fact)
        or wrong_node(fact)
        or (wrong_version(fact, expected) if expected else "")
        for host, fact in facts.items()
    }
    return {host: reason for host, reason in found.items() if reason}


def renamed(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts of Slurm's daemons whose hostname is not the one in the lock, which slurm.conf has: with the reasons.

    slurmd and slurmctld find out by the hostname which entry of slurm.conf is theirs, and do not start without one.
    """
    known = {host: lock.hosts[host].hostname for host in facts if host in lock.hosts}
    return {
        host: f"its hostname is {facts[host].hostname}, but slurm.conf knows it as {name}; no daemon starts like that. "
        f"Give it that name again: hostnamectl set-hostname {name}"
        for host, name in known.items()
        if name and name.lower() != facts[host].hostname.lower() and set(cluster.roles(host)) - {"login"}
    }


def wrong_system(fact: HostFacts) -> str:
    """Why the host's distribution is not supported; empty if it is."""
    if not fact.is_debian:
        return f"it runs {fact.os_id or 'an unknown system'}; slurmfab deploys to Debian and Ubuntu."
    try:
        series(fact)
    except SlurmfabError as error:
        return str(error)
    return ""


def wrong_clock(fact: HostFacts) -> str:
    """Why munge would fail with the host's clock; empty if it would not."""
    if abs(fact.clock_offset) <= CLOCK_SECONDS:
        return ""
    direction = "ahead of" if fact.clock_offset > 0 else "behind"
    return (
        f"its clock is {abs(fact.clock_offset):.0f} s {direction} this machine's, and munge would refuse its "
        "credentials. Set the clock (chronyd, timedatectl) on whichever of the two is wrong."
    )


def wrong_hardware(cluster: Cluster, host: str, fact: HostFacts) -> str:
    """Why the host cannot have its role in the cluster file; empty if it can."""
    return wrong_node(fact) if "compute" in cluster.roles(host) else ""


def wrong_node(fact: HostFacts) -> str:
    """Why the host cannot be a compute node; empty if it can."""
    if fact.hardware is not None:
        return ""
    return (
        "its processors and memory could not be read from /sys/devices/system/cpu and /proc/meminfo; "
        "are they mounted there?"
    )


def wrong_version(fact: HostFacts, expected: SlurmVersion) -> str:
    """Why the host's version of Slurm does not fit the controller's; empty if it does."""
    found = series(fact)
    if found == expected:
        return ""
    return (
        f"its Slurm is {found} and the controller's is {expected}; slurmfab deploys one version per cluster. "
        "Use the same release of the distribution on all hosts."
    )


def series(fact: HostFacts) -> SlurmVersion:
    """The version of Slurm that is installed on a host, or that its distribution would install.

    Raises:
        SlurmfabError: slurmfab does not know this version or distribution.
    """
    return SlurmVersion.parse(fact.slurm_version) if fact.slurm_version else distribution_version(fact.codename)
