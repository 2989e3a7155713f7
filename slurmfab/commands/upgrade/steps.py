"""The steps of an upgrade, in Slurm's order: slurmdbd, controllers, compute nodes, and all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.upgrade.plan import HostVersions, UpgradeStep, What

DAEMONS_OF: Mapping[What, tuple[str, ...]] = {
    "slurmdbd": ("slurmdbd",),
    "controllers": ("slurmctld", "slurmd"),
    "nodes": ("slurmd",),
}
"""The daemons that start with the new version in each step; slurmd of a controller that computes starts with it."""

WHY: Mapping[What, str] = {
    "backup": "backs up slurmctld's state, the accounting database and Slurm's files, and proves that they can be "
    "restored; jobs are not touched",
    "slurmdbd": "starts the new slurmdbd, which converts the database, and waits for it however long it takes; jobs "
    "run, start and end meanwhile, and slurmctld keeps their records until slurmdbd answers; sacct and sacctmgr do not "
    "answer",
    "controllers": "stops slurmctld, copies its state, and starts the new one, on all controllers together; running "
    "jobs go on; for some seconds nothing is submitted or started, and commands wait",
    "nodes": "replaces slurmd, some nodes at a time; running jobs go on under the slurmstepd with which they began; "
    "srun and salloc that wait for new steps there may have to wait",
    "others": "replaces Slurm's commands on hosts that have nothing else of it, and restarts other services that use "
    "its files; commands that are running keep the old ones until they end",
}


def hosts_of(cluster: Cluster, there: Mapping[str, HostVersions]) -> dict[What, tuple[str, ...]]:
    """The hosts of each step, perhaps of several, in the file's order; none without a package of Slurm's."""
    slurms = [host for host, versions in there.items() if versions.installed]
    roles = {host: cluster.roles(host) for host in slurms}
    databases = [host for host in slurms if host in cluster.database_hosts]
    controllers = [host for host in slurms if host in cluster.controllers]
    nodes = [host for host in slurms if "compute" in roles[host] and host not in controllers]
    rest = [host for host in slurms if host not in (*databases, *controllers, *nodes) or services(there[host])]
    return {
        "slurmdbd": tuple(databases),
        "controllers": tuple(controllers),
        "nodes": tuple(nodes),
        "others": tuple(rest),
    }


def steps(
    cluster: Cluster, there: Mapping[str, HostVersions], *, is_under_way: bool = False
) -> tuple[UpgradeStep, ...]:
    """The steps left, by versions of hosts; under way, a daemon that does not run has not come up either."""
    found: list[UpgradeStep] = []
    given: set[str] = set()
    for what, hosts in hosts_of(cluster, there).items():
        packages = {host: there[host].offered for host in hosts if there[host].offered and host not in given}
        each = {host: starting(what, there[host], cluster.roles(host), is_under_way=is_under_way) for host in hosts}
        daemons = {host: told for host, told in each.items() if told}
        if packages or daemons:
            some = tuple(host for host in hosts if host in packages or host in daemons)
            found.append(UpgradeStep(what, some, packages, daemons, WHY[what]))
        given.update(packages)
    if not found:
        return ()
    kept = tuple(dict.fromkeys((*cluster.database_hosts, cluster.controller)))
    return (UpgradeStep("backup", tuple(host for host in kept if host in there), {}, {}, WHY["backup"]), *found)


def starting(what: What, versions: HostVersions, roles: Collection[str], *, is_under_way: bool) -> tuple[str, ...]:
    """The daemons of a host that a step starts with the new version: installed ones that do not run it yet.

    slurmd is started on compute nodes alone: a controller may have its package as well, as from an image or slurm-wlm.
    `versions`: what the host has, and would get.
    """
    if what == "others":
        return services(versions)
    return tuple(
        daemon
        for daemon in DAEMONS_OF[what]
        if daemon in versions.programs
        and (daemon != "slurmd" or "compute" in roles)
        and (versions.offered or is_outdated(daemon, versions) or (is_under_way and daemon not in versions.running))
    )


def services(versions: HostVersions) -> tuple[str, ...]:
    """The other services of a host whose files the upgrade replaces, or replaced before."""
    new = bool(versions.offered)
    return tuple(dict.fromkeys(one.unit for one in versions.users if one.unit and (new or one.is_old)))


def is_outdated(daemon: str, versions: HostVersions) -> bool:
    """Whether a daemon runs an older program than the one on the disk."""
    return versions.running.get(daemon, versions.programs[daemon]) != versions.programs[daemon]
