"""Control groups of a cluster's nodes: which hosts would take the limits from all jobs, and what to change there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import Cgroup, HostFacts, weakest
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.cgroups import (
    ONLY_V2,
    V1_DEPRECATED,
    WHERE,
    description,
    lacks,
    refusal,
    repair,
    unlimited,
    usual_version,
)
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.impact.disruptive_changes import LOST_LIMITS
from slurmfab.on_hosts.agent.facts.cgroups import NO_BUS


def pinned(before: Cgroup | None, now: Cgroup, *, may_lose: bool = False) -> Cgroup:
    """The control groups that the lock is to hold for a host.

    Those that the host has now, unless they can do less: one host would then take the limits from the jobs of all
    nodes, without any message. `now`: what the host has. `may_lose`: whether somebody has agreed to less.
    """
    return before if before is not None and lacks(now, before) and not may_lose else now


def cgroups_of_others(cluster: Cluster, lock: Lock, host: str = "") -> tuple[Cgroup, ...]:
    """The control groups in the lock of all compute nodes but one."""
    known = ((name, lock.hosts.get(name)) for name in cluster.compute_nodes if name != host)
    return tuple(member.cgroup or Cgroup("none") for _, member in known if member and member.hardware)


def is_slurmfabs_choice(cluster: Cluster) -> bool:
    """Whether slurmfab chooses how Slurm uses control groups; the cluster file may choose it by its own keys."""
    return not {"proctracktype", "taskplugin"} & {key.lower() for key in cluster.slurm_conf}


def hosts_losing_limits(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], allowed: Collection[str] = ()
) -> dict[str, str]:
    """The compute nodes with which all would lose their limits, with the reason: a deployment leaves them out.

    slurmd would not start there with the slurm.conf that the others need, and that is not changed for one of them. A
    new node is to account swap space, too, if all others do. At the first deployment most nodes decide, and of two
    halves the controller.
    `lock`: as it was before these facts. `allowed`: names of dangers that are accepted.
    """
    if LOST_LIMITS in allowed or not is_slurmfabs_choice(cluster):
        return {}
    known = {host for host in cluster.compute_nodes if host in lock.hosts and lock.hosts[host].cgroup is not None}
    members = cgroups_of_others(cluster, lock) if known else _prevailing(cluster, facts)
    needed, version = weakest(members), usual_version(members)
    if not needed.is_usable:
        return {}
    return {
        host: f"{refusal(facts[host].cgroup, version)} Until then the host is left as it is. {allow_hint()}"
        for host in cluster.compute_nodes
        if host in facts and lacks(facts[host].cgroup, replace(needed, swap=needed.swap and host not in known))
    }


def _prevailing(cluster: Cluster, facts: Mapping[str, HostFacts]) -> tuple[Cgroup, ...]:
    """The usable control groups of nodes if most nodes have such, or half of them and the controller; so with swap."""
    nodes = [facts[host].cgroup for host in cluster.compute_nodes if host in facts]
    controller = facts[cluster.controller].cgroup if cluster.controller in facts else Cgroup("none")

    def most(can: Callable[[Cgroup], bool]) -> tuple[Cgroup, ...]:
        able = tuple(cgroup for cgroup in nodes if can(cgroup))
        return able if 2 * len(able) + can(controller) > len(nodes) else ()

    return most(lambda one: one.is_usable and one.swap) or most(lambda one: one.is_usable)


def allow_hint() -> str:
    """How to proceed anyway."""
    return f"If no node is to have these limits any more: {FAB} deploy --allow {LOST_LIMITS}."


def cgroup_notices(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], version: SlurmVersion
) -> Iterator[str]:
    """Notices about control groups of compute nodes, one for each group of equal hosts, with the lock's new facts."""
    if not is_slurmfabs_choice(cluster):
        return
    there = ((name, _now(lock, facts, name)) for name in cluster.compute_nodes if name in lock.hosts)
    nodes = {name: cgroup for name, cgroup in there if cgroup is not None}
    wanted, most = weakest(cgroups_of_others(cluster, lock)), usual_version(tuple(nodes.values()))
    poor = {name: cgroup for name, cgroup in nodes.items() if not cgroup.is_usable}
    for hosts, cgroup in _alike(poor):
        cost = (
            "" if wanted.is_usable else f" So no node holds its jobs to {unlimited(cgroup)}; slurm.conf is one for all."
        )
        change = repair(cgroup, most) + (f"; the other nodes have version {most.removeprefix('v')}" if most else "")
        yield f"{hosts}: no control groups that Slurm can use: {description(cgroup)}.{cost} Change there: {change}."
    busless = [name for name, cgroup in nodes.items() if cgroup.is_usable and NO_BUS in cgroup.troubles]
    if busless:
        cgroup = nodes[busless[0]]
        yield f"{fold(busless)}: {description(cgroup)}. A deployment installs dbus, which has to run then."
    swapless = {name: cgroup for name, cgroup in nodes.items() if cgroup.is_usable and not cgroup.swap}
    if not poor and len(swapless) < len(nodes):
        for hosts, cgroup in _alike(swapless):
            cost = " So jobs may grow into the swap space of every node." if not wanted.swap else ""
            yield f"{hosts}: the kernel accounts no swap space.{cost} Change there: {repair(cgroup)}."
    old = [name for name, cgroup in nodes.items() if cgroup.is_usable and cgroup.version == "v1"]
    if old and version >= V1_DEPRECATED:
        yield (
            f"{fold(old)}: control groups of version 1, which Slurm {version} takes with a warning. For version 2: "
            f"{ONLY_V2} {WHERE}."
        )


def _now(lock: Lock, facts: Mapping[str, HostFacts], name: str) -> Cgroup | None:
    """What a host has now, or else what the lock holds of it."""
    return facts[name].cgroup if name in facts else lock.hosts[name].cgroup


def _alike(hosts: Mapping[str, Cgroup]) -> Iterator[tuple[str, Cgroup]]:
    """Hosts with equal trouble together, folded."""
    groups = grouped((description(cgroup), name) for name, cgroup in hosts.items())
    for names in groups.values():
        yield fold(names), hosts[names[0]]
