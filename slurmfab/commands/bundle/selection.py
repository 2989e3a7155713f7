"""Which hosts lack packages, and whether a bundle has them; decided from facts, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.bundle.archive import Bundle
from slurmfab.commands.bundle.pinned import bundles
from slurmfab.core.plan.phases import packages
from slurmfab.core.plan.slurm_series import series
from slurmfab.on_hosts.agent.packages.packages import InstalledPackages, is_version

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.loading import Inventory
    from slurmfab.core.plan.plan_input import PlanInput


def refusals(inventory: Inventory, plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
    """The hosts that lack packages which no bundle in the cluster file has.

    `hosts`: the hosts in question; those without facts are skipped. Returns the reason for each of these hosts, by
    name. Raises InputError if a bundle that is needed is missing, damaged or another one than before; nothing was
    changed.
    """
    reasons = {}
    for host in hosts:
        if host in plan_input.facts and lacking(plan_input, host):
            fact, names = plan_input.facts[host], lacking(plan_input, host)
            reason = refusal(bundles(inventory), fact, names, expected_series(plan_input, fact))
            if reason:
                reasons[host] = f"{reason} Nothing was changed there."
    return reasons


def expected_series(plan_input: PlanInput, fact: HostFacts) -> SlurmVersion:
    """The series of Slurm that a host's bundle has to have: the host's own, or else the cluster's."""
    return series(fact, plan_input.cluster) if fact.slurm_version else plan_input.slurm_version


def lacking(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The names of wanted packages that are not installed on a host, or in another version, by its facts."""
    installed = plan_input.facts[host].packages
    found: list[str] = []
    for one in wanted(plan_input, host):
        versions = dict(text.split("=") for text in one.versions)
        found += (
            name
            for name in one.names
            if name not in installed or (name in versions and not is_version(installed[name], versions[name]))
        )
    return tuple(found)


def wanted(plan_input: PlanInput, host: str) -> tuple[InstalledPackages, ...]:
    """The resources of a host that install packages."""
    return tuple(one for one in packages.resources(plan_input, host) if isinstance(one, InstalledPackages))


def newest_for(found: Iterable[Bundle], fact: HostFacts) -> Bundle | None:
    """The newest bundle for a host's release and architecture; `None` if there is none."""
    matching = [
        one for one in found if (one.manifest.suite, one.manifest.architecture) == (fact.codename, fact.architecture)
    ]
    return max(matching, key=lambda bundle: bundle.made, default=None)


def refusal(found: tuple[Bundle, ...], fact: HostFacts, names: Iterable[str], expected: SlurmVersion) -> str:
    """The reason why a host cannot install packages from any of these bundles; empty if it can."""
    bundle = newest_for(found, fact)
    if bundle is None:
        has = ", ".join(f"{one.manifest.suite} on {one.manifest.architecture}" for one in found)
        return (
            f"it lacks packages and runs {fact.codename} on {fact.architecture}, but the bundles in the cluster file "
            f"are for {has}. Make one on a host with the same system that reaches its mirror: {FAB} bundle --from HOST."
        )
    try:
        of_bundle = SlurmVersion.parse(bundle.manifest.slurm)
    except SlurmfabError as error:
        return f"{bundle.path}: {error}"
    if of_bundle != expected:
        return f"{bundle.path} has Slurm {of_bundle}, but the cluster has {expected}. Make it again: {FAB} bundle."
    missing = sorted(set(names).difference(bundle.manifest.names))
    if missing:
        return (
            f"{bundle.path} does not have {', '.join(missing)}, which the cluster file needs there. "
            f"Make it again: {FAB} bundle."
        )
    return ""
