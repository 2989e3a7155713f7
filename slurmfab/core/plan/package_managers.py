"""Which resources install and remove packages with each package manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmfab.cluster.slurm.platform import APT, DNF, Platform
from slurmfab.on_hosts.agent.dnf.dnf_packages import DnfPackages
from slurmfab.on_hosts.agent.dnf.dnf_removals import DnfFormerPackages, DnfRemovedPackages
from slurmfab.on_hosts.agent.dnf.dnf_updates import DnfUpdates
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages, RemovedPackages
from slurmfab.on_hosts.agent.packages.packages import InstalledPackages, Packages
from slurmfab.on_hosts.agent.packages.updates import Updates
from slurmfab.on_hosts.agent.upgrade.exchanged_packages import ExchangedPackages
from slurmfab.on_hosts.agent.upgrade.exchanged_rpms import DnfExchangedPackages


@dataclass(frozen=True)
class Kinds:
    """The resources of a package manager."""

    installed: type[InstalledPackages]
    former: type[FormerPackages]
    removed: type[RemovedPackages]
    exchanged: type[ExchangedPackages]
    updates: type[Updates]


KINDS: Mapping[str, Kinds] = {
    APT.name: Kinds(Packages, FormerPackages, RemovedPackages, ExchangedPackages, Updates),
    DNF.name: Kinds(DnfPackages, DnfFormerPackages, DnfRemovedPackages, DnfExchangedPackages, DnfUpdates),
}


def kinds(platform: Platform) -> Kinds:
    """The resources of a platform's package manager."""
    return KINDS[platform.manager.name]
