"""What a first contact has found, as text: hosts with their roles, hardware and software, before anything changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import table
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import system_ids
from slurmfab.cluster.slurm import platform

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.commands.nodes.discovery import DiscoveredHost

HEADER = ("hosts", "role", "address", "system", "hardware", "there already")
MIB_PER_GIB = 1024
INDENT = "  "


def summary(
    cluster: Cluster,
    hosts: Mapping[str, DiscoveredHost],
    without_python: Sequence[str],
    width: int,
    *,
    exists: bool,
    moving: bool = False,
) -> list[str]:
    """The lines of the summary: a table of the hosts, IDs, and packages to install.

    `without_python`: as typed. `exists`: the hosts form this cluster already. `moving`: other IDs for slurm and munge
    are allowed. Raises IdConflict if a host has users that conflict with needed ones.
    """
    facts = {name: host.facts for name, host in hosts.items()}
    ids = system_ids.choose(facts, cluster.ids, {}, controller=cluster.controller, moving=moving)
    title = f"The cluster {cluster.name} is there already:" if exists else f"The new cluster {cluster.name}:"
    lines = ["", title, *(f"{INDENT}{line}" for line in table(rows(cluster, hosts), max(0, width - len(INDENT)))), ""]
    lines.append(
        "Users: " + ", ".join(f"{user} {ids[f'{user}.uid']}:{ids[f'{user}.gid']}" for user in ("slurm", "munge"))
    )
    lines += [
        f"Packages to install on {fold(names)}: {', '.join(missing)}" for missing, names in lacking(cluster, facts)
    ]
    if without_python:
        lines.append(f"No python3 yet: {fold(without_python)}; it is installed first, and they are compute nodes then.")
    return lines


def rows(cluster: Cluster, hosts: Mapping[str, DiscoveredHost]) -> list[tuple[str, ...]]:
    """The table: a row for all hosts with the same role, system, hardware and software."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in cluster.hosts:
        key = (
            role(cluster, name),
            system(hosts[name].facts),
            hardware(hosts[name].facts),
            slurm_text(hosts[name].facts),
        )
        groups.setdefault(key, []).append(name)
    return [
        HEADER,
        *(
            (fold(names), part, fold(hosts[name].address for name in names), *rest)
            for (part, *rest), names in groups.items()
        ),
    ]


def role(cluster: Cluster, name: str) -> str:
    """What a host does in the cluster."""
    parts = (("controller", name in cluster.controllers), ("compute", name in cluster.compute_nodes))
    return " and ".join(part for part, is_one in parts if is_one)


def system(facts: HostFacts) -> str:
    """The distribution of a host."""
    return " ".join(filter(None, (facts.os_id, facts.codename, facts.architecture)))


def hardware(facts: HostFacts) -> str:
    """CPUs, memory and GPUs of a host."""
    parts = []
    if facts.hardware:
        parts = [f"{facts.hardware.CPUs} CPUs", f"{facts.hardware.RealMemory / MIB_PER_GIB:.0f} GiB"]
    if facts.gpus:
        parts.append(f"{len(facts.gpus)} GPU{'s' if len(facts.gpus) > 1 else ''}")
    return ", ".join(parts)


def slurm_text(facts: HostFacts) -> str:
    """What a host has of Slurm already."""
    installed = next((facts.packages[name] for name in ("slurmctld", "slurmd") if name in facts.packages), "")
    parts = [f"Slurm {installed}"] if installed else []
    parts += [f"{', '.join(facts.slurm_use.daemons)} running"] if facts.slurm_use.daemons else []
    count = len(facts.slurm_use.jobs)
    parts += [f"{count} job{'s' if count != 1 else ''}"] if count else []
    return "; ".join(parts) or "nothing of Slurm"


def lacking(cluster: Cluster, facts: Mapping[str, HostFacts]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Packages that hosts lack, with the hosts."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, fact in facts.items():
        wanted = {
            package
            for part, names in (("controller", cluster.controllers), ("compute", cluster.compute_nodes))
            if name in names
            for package in platform.wanted(cluster).packages(part)
        }
        missing = tuple(sorted(wanted - fact.packages.keys()))
        if missing:
            groups.setdefault(missing, []).append(name)
    return list(groups.items())
