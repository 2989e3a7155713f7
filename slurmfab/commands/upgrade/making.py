"""The plan of an upgrade, from what the hosts say; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade import hints, refusals
from slurmfab.commands.upgrade.asked import Asked
from slurmfab.commands.upgrade.changes import Changes
from slurmfab.commands.upgrade.conversion import estimate
from slurmfab.commands.upgrade.plan import Conversion, HostVersions, Target, UpgradePlan, UpgradeStep, What

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


def make(asked: Asked, at_once: str = "10%", *, drain: bool = False) -> UpgradePlan:
    """The plan of an upgrade of `at_once` nodes (or percent) at a time, which are drained before, or not."""
    hosts = versions_of(asked)
    to = target_series(asked, hosts)
    have = refusals.oldest(asked, hosts) or to
    cluster, state = asked.cluster.with_slurm(asked.target), state_directory(asked)
    there = Changes(cluster, hosts, str(to), state, at_once=at_once, drain=drain)
    todo = tuple(map(there.told, steps(asked.cluster, hosts, is_under_way=asked.is_under_way)))
    reasons = list(refusals.refusals(asked, hosts, to))
    if todo or reasons:
        reasons += [*hints.key_refusals(asked, to), *hints.plugin_refusals(asked)]
    if not to.is_known:
        reasons.insert(0, f"slurmfab does not know Slurm {to} and its rules yet. Upgrade slurmfab first.")
    changed = conversion(asked, to)
    return UpgradePlan(
        Target(asked.version, asked.suite, to),
        have,
        hosts,
        todo,
        tuple(dict.fromkeys(reasons)),
        tuple(dict.fromkeys(hints.warnings(asked, hosts) if todo else hints.of_users(hosts))),
        changed,
        way_back(todo, changed) if todo and not reasons else (),
        dict(asked.silent),
        jobs=job_counts(asked),
        batches=sum(len(list(there.batches(step.hosts))) for step in todo if step.what == "nodes"),
    )


def state_directory(asked: Asked) -> str:
    """StateSaveLocation, as slurmctld has it now."""
    return parse(asked.slurm_conf).settings.get("statesavelocation", asked.cluster.state_directory)


def versions_of(asked: Asked) -> dict[str, HostVersions]:
    """What each host has, and would get."""
    found = {}
    for host, state in asked.hosts.items():
        offer = asked.offer(host)
        new = {name: offer.versions[name] for name in state.packages if name in offer.versions}
        offered = {name: version for name, version in new.items() if version != state.packages[name]}
        others = dict(offer.others) if offered else {}
        found[host] = HostVersions(state.packages, state.programs, state.running, offered, others, state.users)
    return found


def target_series(asked: Asked, hosts: dict[str, HostVersions]) -> SlurmVersion:
    """The series that the hosts would get; the wanted one where no source has it."""
    offered = [version for versions in hosts.values() for version in versions.offered.values()]
    for version in (*offered, asked.version, *(versions.slurm for versions in hosts.values())):
        if found := refusals.series(version):
            return found
    return asked.target.series or SlurmVersion(0, 0)


def conversion(asked: Asked, to: SlurmVersion) -> Conversion | None:
    """What slurmdbd would convert; `None` without a database that could be asked."""
    for host in asked.cluster.database_hosts:
        state = asked.hosts.get(host)
        if state is None or not state.bytes:
            continue
        have = refusals.series(state.running.get("slurmdbd", state.programs.get("slurmdbd", "")))
        if have:
            return estimate(have, to, state.rows, state.bytes)
    return None


def job_counts(asked: Asked) -> dict[str, int]:
    """Number of jobs by state, such as `RUNNING`; empty where slurmctld could not be asked."""
    state = asked.hosts.get(asked.cluster.controller)
    return dict(Counter(word for _, _, word, *_ in (state.jobs or ())) if state else {})


def way_back(todo: tuple[UpgradeStep, ...], changed: Conversion | None) -> tuple[str, ...]:
    """How each stage can be undone, in order."""
    starts = {daemon for step in todo for daemons in step.daemons.values() for daemon in daemons}
    told = []
    if changed and "slurmdbd" in starts:
        told.append("Until slurmdbd has converted its database: nothing but packages has changed, and nothing is lost.")
        told.append("After the conversion: jobs that were submitted since the backup are lost.")
    if "slurmctld" in starts:
        told.append("After the new slurmctld has written its state: likewise, and those of them that run are ended.")
    told.append(f"{FAB} upgrade --back BACKUP, which lies beside the cluster file, does it at any time.")
    return tuple(told)


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
