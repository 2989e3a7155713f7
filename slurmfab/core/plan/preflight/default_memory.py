"""Which new nodes would give all jobs much less memory by default: one line, DefMemPerCPU, is for all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from statistics import median_high

from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import Hardware, HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.slurm.node import Node
from slurmfab.cluster.slurm.node_lines import memory_share
from slurmfab.core.impact.disruptive_changes import LOW_MEMORY
from slurmfab.core.plan.pinned import is_first_sight

MOST_TIMES = 4
"""How many times less memory for each CPU a new node may have: real nodes of one cluster differ by less or little more,
and a false number hurts little."""


def hosts_lowering_memory(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], allowed: Collection[str] = ()
) -> dict[str, str]:
    """The new compute nodes whose few MiB for each CPU would become the default of all jobs, with the reason.

    They are compared with the nodes in the lock, and without any with the middle of all new ones and the controller,
    which is never left out. `lock`: as it was before these facts. `allowed`: names of dangers that are accepted.
    """
    if LOW_MEMORY in allowed or {"defmempercpu", "defmempernode"} & {key.lower() for key in cluster.slurm_conf}:
        return {}
    shares, before = {}, []
    for host in dict.fromkeys((*cluster.compute_nodes, cluster.controller)):
        known, fact = lock.hosts.get(host, HostLock()), facts.get(host)
        is_new = fact is not None and (known.hardware is None or is_first_sight(known, fact))
        share = _share(cluster, host, fact.hardware if fact and is_new else known.hardware)
        if share is not None and is_new:
            shares[host] = share
        elif share is not None and host in cluster.compute_nodes:
            before.append(share)
    if not shares or not (before or len(shares) > 1):
        return {}
    usual = min(before) if before else median_high(shares.values())
    return {
        host: f"it says that it has {share} MiB of memory for each CPU, and other nodes have {usual}. DefMemPerCPU in "
        "slurm.conf is one for all jobs, which would get no more unless they ask for it. Until then the host is left "
        f"as it is. If that is right: set DefMemPerCPU (slurm_conf), or {FAB} deploy --allow {LOW_MEMORY}."
        for host, share in shares.items()
        if share * MOST_TIMES < usual and host != cluster.controller
    }


def lowered(cluster: Cluster, lock: Lock, host: str, fact: HostFacts, allowed: Collection[str] = ()) -> str:
    """The reason against a host that joins, or takes another's place; empty if there is none."""
    others = {name: known for name, known in lock.hosts.items() if name != host}
    return hosts_lowering_memory(cluster, replace(lock, hosts=others), {host: fact}, allowed).get(host, "")


def _share(cluster: Cluster, host: str, hardware: Hardware | None) -> int | None:
    """The memory per CPU of a host by its line in slurm.conf."""
    settings = cluster.settings_of(host) if host in cluster.compute_nodes else {}
    return memory_share(Node(host, host, host, hardware, settings=settings), cluster.memory_margin)
