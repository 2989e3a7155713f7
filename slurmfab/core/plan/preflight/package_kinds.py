"""Hosts whose Slurm is of other packages than the cluster file asks for: judged from facts alone.

Packages of two kinds have the same files, and neither is installed over the other: dpkg would stop half way, and the
removal of Debian's slurmctld cancels the jobs of a running cluster. So the way from one kind to another is people's.
"""

from __future__ import annotations

from slurmfab.base.hostlist import natural
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.platform import PLATFORMS, SOURCE, Platform, all_installed, wanted
from slurmfab.cluster.slurm.versions import SlurmVersion

STOP = "systemctl stop slurmctld slurmd slurmdbd"
"""What comes before a removal: Debian's package cancels all jobs while slurmctld runs (its prerm script)."""


def wrong_packages(fact: HostFacts, cluster: Cluster) -> str:
    """Why a host's Slurm cannot be replaced by that of the cluster file; empty if there is no need, or none there."""
    found, meant = all_installed(fact), wanted(cluster)
    if len(found) > 1:
        return two_kinds(fact, found, meant)
    if found == (SOURCE,) and meant != SOURCE:
        return no_package(fact, meant)
    if found and found[0] != meant:
        return another_kind(fact, found[0], meant)
    if not found and meant == SOURCE:
        return (
            "it has no Slurm, and slurmfab builds none (slurm: {packages: none}). Install it there as on the other "
            f"hosts, with its programs or links to them in {SOURCE.programs} and {SOURCE.commands}"
        )
    return ""


def two_kinds(fact: HostFacts, found: tuple[Platform, ...], meant: Platform) -> str:
    """What is wrong with a host that has packages of more than one kind."""
    others = [name for one in found if one != meant for name in names(fact, one)]
    each = " and ".join(f"{one.title}: {', '.join(names(fact, one))}" for one in found)
    return (
        f"it has two kinds of Slurm's packages, which have the same files ({each}); the cluster file is for "
        f"{meant.title}. Take the others away first, while no job runs there: {STOP}; {meant.manager.remove} "
        f"{' '.join(others)}"
    )


def another_kind(fact: HostFacts, found: Platform, meant: Platform) -> str:
    """What is wrong with a host that has another kind of packages than the cluster file asks for."""
    there, version = names(fact, found), fact.slurm_version
    series = str(SlurmVersion.parse(version)) if version else "VERSION"
    return (
        f"it has Slurm of {found.title} ({', '.join(there)}), and the cluster file is for {meant.title}; slurmfab "
        f"installs neither over the other. If they are right: {found.key(series)} in the cluster file. If not, take "
        f"them away first, while no job runs there: {STOP}; {found.manager.remove} {' '.join(there)}"
    )


def no_package(fact: HostFacts, meant: Platform) -> str:
    """What is wrong with a host that has Slurm of no known package."""
    places = (path for one in (meant, SOURCE) for path in one.telling_programs)
    programs = [path for path in places if path.rpartition("/")[2] in fact.slurm_versions][: len(fact.slurm_versions)]
    return (
        f"it has Slurm {fact.slurm_version} of no package that slurmfab knows ({', '.join(programs)}), and slurmfab "
        f"installs nothing over it (it knows {' and '.join(one.title for one in PLATFORMS.values() if one.core)}). To "
        f"keep it: {SOURCE.key(str(SlurmVersion.parse(fact.slurm_version)))} in the cluster file. If not, take it away "
        f"first, while no job runs there: {STOP}; then remove its files or its packages ({meant.manager.owner} "
        f"{programs[0]})"
    )


def names(fact: HostFacts, one: Platform) -> list[str]:
    """The packages of a kind that a host has, of those that tell it."""
    return sorted({*one.telling} & fact.packages.keys(), key=natural)
