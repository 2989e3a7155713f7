"""Packages of the distribution by role; their daemons do not start before they are configured."""

from __future__ import annotations

from slurmfab.cluster.inventory.site_packages import Wanted
from slurmfab.cluster.slurm.platform import PLATFORMS
from slurmfab.core.plan.package_managers import kinds
from slurmfab.core.plan.phases import (
    backups,
    containers,
    directory,
    exports,
    firewall,
    jupyter,
    logins,
    mail,
    modules,
    monitoring,
    mounts,
    mpi,
    people,
    power,
    quotas,
    registry,
    rest,
    rpcbind,
    slurm_source,
    ssh,
)
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.facts.cgroups import NO_BUS

ROLES = ("controller", "database", "compute", "login")
SLURMS = frozenset(("sudo", *(name for one in PLATFORMS.values() for name in (*one.asked, *one.packages_of(ROLES)))))
"""Packages that stay on a host whose role changes: Debian's slurmctld cancels all jobs when it is removed."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """All packages that the host needs, as one resource, after Slurm's source and the removal of one in their way."""
    needed = wanted(plan_input, host)
    files = slurm_source.in_files(plan_input, host, needed)
    versions = (
        *(one.text for one in own(plan_input, host) if one.version),
        *(f"{one.name}={one.version}" for one in files),
    )
    names = tuple(sorted(needed | {one.name for one in files}))
    slurm, platform = plan_input.cluster.slurm_of(host), plan_input.platform_of(host)
    slurms = () if slurm.is_default else platform.slurm_packages
    return (
        *slurm_source.resources(plan_input, host),
        *modules.makes_room(plan_input, host),
        kinds(platform).installed(
            names,
            versions=versions,
            slurm=slurms,
            slurm_version=slurm.version or "",
            sites=tuple(one.name for one in own(plan_input, host) if not one.file and not plan_input.cluster.bundle),
        ),
    )


def with_files(plan_input: PlanInput, host: str) -> set[str]:
    """All packages that the host needs, and what Slurm's packages in files need besides."""
    names = wanted(plan_input, host)
    return names | {one.name for one in slurm_source.in_files(plan_input, host, names)}


def own(plan_input: PlanInput, host: str) -> tuple[Wanted, ...]:
    """The packages of the site's own on a host; those in files beside the cluster file have the version in the file."""
    wanted, known = plan_input.cluster.packages.of_host(host, plan_input.cluster.roles(host)), plan_input.deb_files
    return tuple(one._replace(version=known[one.file].version) if one.file in known else one for one in wanted)


def wanted(plan_input: PlanInput, host: str) -> set[str]:
    """All packages that the host's roles, MariaDB, sudo rules, control groups and capabilities need, and the site's."""
    platform = plan_input.platform_of(host)
    names = {*platform.packages_of(plan_input.cluster.roles(host))}
    database = plan_input.cluster.database
    if database and host == database.host and not database.external:
        names |= {*platform.database.packages}
    names |= {*people.packages(plan_input, host), *logins.packages(plan_input, host)}
    names |= {*power.packages(plan_input, host), *ssh.packages(plan_input, host)}
    names |= {
        *mounts.packages(plan_input, host),
        *exports.packages(plan_input, host),
        *quotas.packages(plan_input, host),
        *rpcbind.packages(plan_input, host),
    }
    names |= {platform.bus} if "compute" in plan_input.cluster.roles(host) and lacks_bus(plan_input, host) else set()
    names |= {
        name
        for part in (backups, mail, modules, mpi, containers, registry, monitoring, firewall, rest, jupyter, directory)
        for name in part.packages(plan_input, host)
    }
    return names | {one.name for one in own(plan_input, host)}


def former(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of packages that slurmfab installed for what the cluster file no longer has."""
    added = plan_input.facts[host].added_packages if host in plan_input.facts else ()
    ours = set(added) - SLURMS
    names = tuple(sorted(ours - with_files(plan_input, host))) if ours else ()
    return (kinds(plan_input.platform_of(host)).former(names),) if names else ()


def lacks_bus(plan_input: PlanInput, host: str) -> bool:
    """Whether the host answered and lacks the D-Bus system bus that slurmd needs for its control groups."""
    return host in plan_input.facts and NO_BUS in plan_input.facts[host].cgroup.troubles
