"""What speaks against a host as a compute node of a cluster at work: found out from facts, before any change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from slurmfab.errors import SlurmfabError
from slurmfab.facts import Cgroup, HostFacts, weakest
from slurmfab.fitness.gres import wrong_gpus
from slurmfab.promises.dangers import LOST_LIMITS
from slurmfab.slurm import cgroups
from slurmfab.slurm.node import Node
from slurmfab.slurm.node_lines import node_settings

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.inventory import Inventory


def refuse_unsuited(
    known: Inventory, grown: Cluster, facts: Mapping[str, HostFacts], allowed: Collection[str] = ()
) -> None:
    """Refuse hosts that would harm the cluster, or could not do what its file says of them.

    Args:
        known: the cluster as it is.
        grown: the cluster file with them.
        facts: what they said.
        allowed: names of dangers that are accepted.

    Raises:
        SlurmfabError: with what is wrong with each.
    """
    reasons = {host: unsuited(known, grown, host, fact, allowed) for host, fact in facts.items()}
    found = [f"{host}: {reason}" for host, reason in reasons.items() if reason]
    if found:
        raise SlurmfabError("\n".join([*found, "Nothing was changed."]))


def unsuited(known: Inventory, grown: Cluster, host: str, fact: HostFacts, allowed: Collection[str] = ()) -> str:
    """What speaks against one host, empty when nothing does."""
    worse = "" if LOST_LIMITS in allowed else weaker(known, host, fact.cgroup)
    return twin(known, host, fact) or at_work(fact) or poorer(grown, host, fact) or worse


def twin(known: Inventory, host: str, fact: HostFacts) -> str:
    """Why the host cannot be told from a member, empty when it can."""
    for name in known.cluster.hosts:
        member = known.lock.hosts.get(name)
        if member is None or name == host:
            continue
        if set(member.host_keys.items()) & set(fact.ssh_host_keys.items()):
            return (
                f"it has the SSH host key of {name}: it is the same machine, or a copy of its disk. A copy needs "
                "keys of its own: rm /etc/ssh/ssh_host_*_key*; ssh-keygen -A; systemctl restart ssh."
            )
        if member.hostname == fact.hostname:
            return f"it calls itself {fact.hostname}, as {name} does. Give it a name: hostnamectl set-hostname NAME."
    return ""


def at_work(fact: HostFacts) -> str:
    """Why the host is no free one, empty when it is."""
    if fact.services.get("slurmd") not in ("active", "activating", "reloading"):
        return ""
    return (
        "slurmd runs there, so it is a node of some cluster, and its jobs would be lost. If it is not: "
        "systemctl disable --now slurmd."
    )


def poorer(grown: Cluster, host: str, fact: HostFacts) -> str:
    """What the cluster file gives the host that it has not, empty when it has it all."""
    assert fact.hardware is not None, "a host without known hardware was refused before"
    settings = grown.settings_of(host)
    node = Node(host, host, host, fact.hardware, fact.gpus, settings)
    said = {key.lower(): value for key, value in node_settings(node, grown.memory_margin).items()}
    for key, has in (("RealMemory", fact.hardware.RealMemory), ("CPUs", fact.hardware.CPUs)):
        wanted = said.get(key.lower(), "")
        if wanted.isdigit() and int(wanted) > has:
            return f"the cluster file gives it {key}={wanted}, and it has {has}. Slurm would take no such node."
    return wrong_gpus(settings, fact.gpus, fact.bare_gpus)


def weaker(known: Inventory, host: str, cgroup: Cgroup) -> str:
    """Why the host's control groups would change Slurm for all other nodes, empty when they would not."""
    others = cgroups.others(known.cluster, known.lock, host)
    if not others or not cgroups.lacks(cgroup, weakest(others)):
        return ""
    return f"{cgroups.words(cgroup, cgroups.like(others))} {cgroups.consent()}"
