"""The verdict of preflight: which hosts a deployment leaves out, and what it refuses altogether."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import (
    accounts,
    addresses,
    configuration,
    containers,
    directory,
    enterprise_linux,
    firewall,
    gpu_checks,
    gres,
    hardware,
    hosts,
    other_clusters,
    software,
)
from slurmfab.core.plan.preflight.cgroups import hosts_losing_limits
from slurmfab.core.plan.preflight.default_memory import hosts_lowering_memory


def left_out(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], allowed: Collection[str]) -> dict[str, str]:
    """Hosts that cannot be deployed to, are another cluster's, or would take limits from others, and why."""
    return {
        **hosts_losing_limits(cluster, lock, facts, allowed),
        **hosts_lowering_memory(cluster, lock, facts, allowed),
        **gres.unfit(cluster, lock, facts),
        **hosts.unfit(cluster, facts, lock),
        **hosts.renamed(cluster, lock, facts),
        **other_clusters.hosts_taken(cluster, lock, facts, allowed),
    }


def refuse_unfit(plan_input: PlanInput, among: Collection[str], allowed: Collection[str]) -> None:
    """Refuse, by InputError with every mistake, what the installed Slurm or the hosts cannot carry out."""
    configuration.refuse_other_cluster(plan_input, allowed)
    configuration.refuse_unknown_keys(plan_input)
    configuration.refuse_other_slurm_user(plan_input)
    configuration.refuse_kept_files(plan_input)
    configuration.refuse_closed_nodes_without_control_groups(plan_input)
    addresses.refuse_unreachable(plan_input)
    accounts.refuse_unfit(plan_input)
    hardware.refuse_unfit(plan_input)
    gres.refuse_unfit(plan_input)
    gpu_checks.refuse_unfit(plan_input)
    enterprise_linux.refuse_unfit(plan_input)
    software.refuse_unfit(plan_input)
    containers.refuse_unfit(plan_input)
    firewall.refuse_unfit(plan_input)
    directory.refuse_unfit(plan_input)
    configuration.refuse_uneven_files(plan_input, among)
