"""Whether a host may join a running cluster as a compute node: judged from facts, before any change."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.facts import Cgroup, HostFacts, weakest
from slurmfab.cluster.inventory import hostnames
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm import cgroups
from slurmfab.cluster.slurm.node import Node
from slurmfab.cluster.slurm.node_lines import node_settings
from slurmfab.core.impact.disruptive_changes import HOST_IN_USE, LOST_LIMITS
from slurmfab.core.plan.preflight import default_memory, other_clusters
from slurmfab.core.plan.preflight.cgroups import allow_hint, cgroups_of_others
from slurmfab.core.plan.preflight.gres import wrong_gpus
from slurmfab.core.plan.preflight.other_clusters import RUNNING


def refuse_unsuited(
    known: Inventory, grown: Cluster, facts: Mapping[str, HostFacts], allowed: Collection[str] = ()
) -> None:
    """Refuse hosts that would harm the cluster, or lack what the cluster file gives them.

    Raises InputError if one is another cluster's; SlurmfabError with a line for each.
    """
    other_clusters.refuse_others(other_clusters.identity(known.cluster, known.lock, {}), facts, allowed)
    reasons = {host: unsuited(known, grown, host, fact, allowed) for host, fact in facts.items()}
    found = [f"{host}: {reason}" for host, reason in reasons.items() if reason]
    if found:
        raise SlurmfabError("\n".join([*found, "Nothing was changed."]))


def unsuited(known: Inventory, grown: Cluster, host: str, fact: HostFacts, allowed: Collection[str] = ()) -> str:
    """Why one host is refused; empty if it is not."""
    worse = "" if LOST_LIMITS in allowed else weaker_cgroups(known, host, fact.cgroup)
    worse = worse or default_memory.lowered(grown, known.lock, host, fact, allowed)
    return same_machine(known, grown, host, fact) or at_work(fact, allowed) or too_small(grown, host, fact) or worse


def same_machine(known: Inventory, grown: Cluster, host: str, fact: HostFacts) -> str:
    """Why the host cannot be distinguished from a member, or from another machine; empty if it can."""
    for name in known.cluster.hosts:
        member = known.lock.hosts.get(name)
        if member is None or name == host:
            continue
        # One key may be told by who does not have it; a copy of a disk has all keys of the other.
        common = member.host_keys.keys() & fact.ssh_host_keys.keys()
        if common and all(member.host_keys[kind] == fact.ssh_host_keys[kind] for kind in common):
            return (
                f"it has the SSH host key of {name}: it is the same machine, or a copy of its disk. A copy needs "
                "keys of its own: rm /etc/ssh/ssh_host_*_key*; ssh-keygen -A; systemctl restart ssh."
            )
    return hostnames.taken(grown, known.lock, {host: fact}).get(host, "")


def at_work(fact: HostFacts, allowed: Collection[str] = ()) -> str:
    """Why the host seems to be a node at work, of this cluster or of none that is known; empty if it does not."""
    state = fact.services.get("slurmd")
    # One that is starting may only look for a configuration, as it does after it was installed.
    is_starting_idle = state == "activating" and "slurmd" not in fact.slurm_use.daemons
    if state not in RUNNING or is_starting_idle or HOST_IN_USE in allowed:
        return ""
    return (
        "slurmd runs there, so it is a node of some cluster, and its jobs would be lost. If it is not a node: "
        f"systemctl disable --now slurmd; to take it all the same: --allow {HOST_IN_USE}."
    )


def too_small(grown: Cluster, host: str, fact: HostFacts) -> str:
    """What the cluster file assigns to the host but the host lacks; empty if nothing."""
    assert fact.hardware is not None, "a host without known hardware was refused before"
    settings = grown.settings_of(host)
    node = Node(host, host, host, fact.hardware, fact.gpus, settings)
    promised = {key.lower(): value for key, value in node_settings(node, grown.memory_margin).items()}
    for key, has in (("RealMemory", fact.hardware.RealMemory), ("CPUs", fact.hardware.CPUs)):
        wanted = promised.get(key.lower(), "")
        if wanted.isdecimal() and int(wanted) > has:
            return f"the cluster file gives it {key}={wanted}, and it has {has}. Slurm would not accept this node."
    return wrong_gpus(settings, fact.gpus, fact.driverless_gpus)


def weaker_cgroups(known: Inventory, host: str, cgroup: Cgroup) -> str:
    """Why the host's control groups would take limits from all nodes; empty if they would not."""
    others = cgroups_of_others(known.cluster, known.lock, host)
    if not others or not cgroups.lacks(cgroup, weakest(others)):
        return ""
    return f"{cgroups.refusal(cgroup, cgroups.usual_version(others))} {allow_hint()}"
