"""The source of Slurm's own packages on hosts (key `slurm`): a repository with its key, pins or holds, or files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.filed_package import FiledPackage
from slurmfab.cluster.inventory.slurm_packages import (
    AptRepository,
    DnfRepository,
    OtherSuite,
    PackageDirectory,
    SlurmPackages,
)
from slurmfab.cluster.slurm.platform import DNF, named
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.dnf import slurm_repository
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.slurm.package_source import OF, SlurmSource

OWN_NAMES = ("slurm*", "sackd", "sview", "libslurm*", "libpam-slurm*")
"""Patterns of the names of Slurm's own packages, of all kinds, for pins."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The source on a host; hosts that get packages from a bundle or from files need none."""
    slurm = plan_input.cluster.slurm_of(host)
    if plan_input.platform_of(host).manager == DNF:
        files = () if plan_input.cluster.bundle else of_dnf(slurm, plan_input.slurm_keys)
        return owned(plan_input, host, OF, files)
    source = None if plan_input.cluster.bundle else of_apt(slurm, plan_input.slurm_keys)
    return (source,) if source else ()


def of_dnf(slurm: SlurmPackages, keys: Mapping[str, str]) -> tuple[OwnedFile, ...]:
    """The files of the repository of dnf that a key `slurm` names, if any: the source, and the key of its packages.

    `keys`: OpenPGP keys as text, by their paths in the cluster file; not needed where resources are only named.
    """
    source = slurm.source
    if not isinstance(source, DnfRepository):
        return ()
    text = slurm_repository.text(source.uris, named(slurm).slurm_packages)
    return OwnedFile(slurm_repository.KEY, keys.get(source.key, "")), OwnedFile(slurm_repository.PATH, text)


def asked_of_dnf(slurm: SlurmPackages, keys: Mapping[str, str]) -> dict[str, str]:
    """That repository for the agent, which looks there without having it: its text and key; empty for none."""
    files = of_dnf(slurm, keys)
    return dict(zip(("key", "repo"), (one.text for one in files), strict=True)) if files else {}


def of_upgrade(slurm: SlurmPackages, keys: Mapping[str, str]) -> Resource | None:
    """The source that hosts get before an upgrade installs from it; `None` for their own sources."""
    files = of_dnf(slurm, keys)
    return OwnedFiles(OF, files) if files else of_apt(slurm, keys)


def of_apt(slurm: SlurmPackages, keys: Mapping[str, str]) -> SlurmSource | None:
    """The apt source that a key `slurm` asks for, if any."""
    if isinstance(slurm.source, OtherSuite):
        return SlurmSource(suite=slurm.source.suite, version=slurm.version or "", names=OWN_NAMES)
    if isinstance(slurm.source, AptRepository):
        uris, suites, components, key = slurm.source
        version, names = slurm.version or "", OWN_NAMES
        place = SlurmSource(uris=uris, suites=suites, components=components, key=keys.get(key, ""))
        return replace(place, version=version, names=names)
    return None


def former(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of an earlier apt source, where the cluster file has none any more."""
    if plan_input.platform_of(host).manager == DNF:
        return ()
    return (SlurmSource(),) if plan_input.owns(host, OF) and not resources(plan_input, host) else ()


def installed(plan_input: PlanInput, host: str) -> dict[str, str]:
    """The packages of Slurm's own that a host has, with their versions; empty without facts of it."""
    there = plan_input.facts[host].packages if host in plan_input.facts else {}
    return {name: there[name] for name in plan_input.platform_of(host).slurm_packages if name in there}


def unwanted_versions(plan_input: PlanInput) -> list[tuple[str, str]]:
    """Hosts with another Slurm than wanted, and what to do: a deployment never upgrades daemons."""
    cluster = plan_input.cluster
    rows = ((host, cluster.slurm_of(host), plan_input.platform_of(host).client) for host in cluster.hosts)
    there = ((host, slurm, installed(plan_input, host).get(client, "")) for host, slurm, client in rows)
    text = (
        "Slurm {} is installed, and slurm.version is {}; a deployment does not change that, but "
        + FAB
        + " upgrade does"
    )
    return [
        (host, text.format(version, slurm.version))
        for host, slurm, version in there
        if version and not slurm.fits(version)
    ]


def in_files(plan_input: PlanInput, host: str, names: set[str]) -> tuple[FiledPackage, ...]:
    """The packages from the directory of the cluster file that a host gets, sorted by name.

    These are those of Slurm's that its roles need, and what these need there. A host that has Slurm in another version
    gets none: a deployment changes no version. With dnf, a bundle has them already. `names`: the packages that it
    needs.
    """
    source = plan_input.cluster.slurm_of(host).source
    if plan_input.cluster.bundle and plan_input.platform_of(host).manager == DNF:
        return ()
    beside = plan_input.slurm_package_files.get(source.directory) if isinstance(source, PackageDirectory) else ()
    if not beside or host not in plan_input.facts:
        return ()
    there = plan_input.facts[host].architecture
    files = {one.name: one for one in beside if one.is_for(there)}
    have = installed(plan_input, host)
    if any(name not in files or files[name].version != version for name, version in have.items()):
        return ()
    own = set(plan_input.platform_of(host).slurm_packages)
    return tuple(sorted(_with_needed(files, names & own), key=lambda one: one.name))


def _with_needed(files: dict[str, FiledPackage], names: set[str]) -> Iterator[FiledPackage]:
    """Yield the files of packages, and of those there that they need."""
    waiting, done = sorted(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in done or name not in files:
            continue
        done.add(name)
        yield files[name]
        waiting += [one for group in files[name].depends for one in group]
