"""What speaks against a host as a compute node of a cluster at work: found out from facts, before any change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slurmfab.errors import SlurmfabError
from slurmfab.facts import Cgroup, Gpu, HostFacts, weakest
from slurmfab.slurm.gres import devices
from slurmfab.slurm.node import Node
from slurmfab.slurm.node_lines import node_settings

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.inventory import Inventory

MANY_GPUS = 128


def refuse_unsuited(known: Inventory, grown: Cluster, facts: Mapping[str, HostFacts]) -> None:
    """Refuse hosts that would harm the cluster, or could not do what its file says of them.

    Args:
        known: the cluster as it is.
        grown: the cluster file with them.
        facts: what they said.

    Raises:
        SlurmfabError: with what is wrong with each.
    """
    reasons = {host: unsuited(known, grown, host, fact) for host, fact in facts.items()}
    found = [f"{host}: {reason}" for host, reason in reasons.items() if reason]
    if found:
        raise SlurmfabError("\n".join([*found, "Nothing was changed."]))


def unsuited(known: Inventory, grown: Cluster, host: str, fact: HostFacts) -> str:
    """What speaks against one host, empty when nothing does."""
    return twin(known, host, fact) or at_work(fact) or poorer(grown, host, fact) or weaker(known, host, fact.cgroup)


def twin(known: Inventory, host: str, fact: HostFacts) -> str:
    """Why the host cannot be told from a member, empty when it can."""
    for name, member in known.lock.hosts.items():
        if name == host or name not in known.cluster.hosts:
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
    rich = Node(host, host, host, fact.hardware, tuple(Gpu(f"/dev/gpu{n}") for n in range(MANY_GPUS)), settings)
    if "gres" in {key.lower() for key in settings} and gpus(node) < gpus(rich):
        return (
            f"the cluster file gives it {gpus(rich)} GPUs, and {gpus(node)} can be seen there. Is the driver "
            "installed, and are there /dev/nvidia files? Or leave out --like, so that what it has is discovered."
        )
    return ""


def gpus(node: Node) -> int:
    """How many GPUs gres.conf would give a node."""
    return sum(int(device.count) for device in devices(node) if device.name == "gpu")


def weaker(known: Inventory, host: str, cgroup: Cgroup) -> str:
    """Why the host's control groups would change Slurm for all other nodes, empty when they would not."""
    others = tuple(
        member.cgroup or Cgroup("none")
        for name in known.cluster.compute_nodes
        if name != host and (member := known.lock.hosts.get(name)) and member.hardware
    )
    if not others or weakest((*others, cgroup)) == weakest(others):
        return ""
    has = f"{cgroup.version} with {', '.join(cgroup.controllers) or 'no controllers'}"
    return (
        f"its control groups ({has}{'' if cgroup.swap else ', no swap accounting'}) can do less than those of the "
        "other nodes, and Slurm has one setting for all, which must not change while jobs run. Boot it as the "
        "others are booted: see /proc/cmdline and /sys/fs/cgroup there."
    )
