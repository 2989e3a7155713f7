"""Whether nodes have the cores and the memory that the cluster file gives them: judged from the lock.

Slurm takes a node out of service (INVAL) that registers with less than its line in slurm.conf says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from slurmfab.base.hostlist import fold
from slurmfab.base.objections import Objection, objected
from slurmfab.cluster.facts import Hardware
from slurmfab.cluster.slurm.meaning import too_many_cpus
from slurmfab.cluster.slurm.node import Kind, Node
from slurmfab.cluster.slurm.node_lines import node_settings
from slurmfab.core.impact.drift_kinds import acceptance
from slurmfab.core.impact.hardware_changes import counted_otherwise, differences
from slurmfab.core.plan import mig
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Change

OVERRIDES = "config_overrides"
"""The value of SlurmdParameters with which Slurm believes slurm.conf whatever a node has (slurm.conf(5))."""


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse, by InputError, more cores or memory of nodes than the lock has for them, or than slurmctld survives."""
    refuse_uncountable(plan_input)
    if not any(group.settings for group in plan_input.cluster.nodes):
        return  # slurm.conf then says what was discovered
    if OVERRIDES in plan_input.conf_wanted.settings.get("slurmdparameters", "").lower():
        return
    found: dict[str, list[str]] = {}
    seen: dict[Kind, tuple[Claim, ...]] = {}
    for name in plan_input.heard(plan_input.compute_nodes):
        node = plan_input.node(name)
        if node.settings and node.kind not in seen:
            seen[node.kind] = tuple(excess(node, plan_input.cluster.memory_margin))
        for claim in seen.get(node.kind, ()):
            found.setdefault(complaint(plan_input, name, claim), []).append(name)
    objected(
        f"{fold(nodes)}: {reason}" if any(map(plan_input.is_files_change, nodes)) else Objection((*nodes,), reason)
        for reason, nodes in found.items()
    )


def refuse_uncountable(plan_input: PlanInput) -> None:
    """Refuse lines with more CPUs than slurmctld survives, whether the lock or the file says so, or both together."""
    found: dict[str, list[str]] = {}
    margin = plan_input.cluster.memory_margin
    judged: dict[Kind, str] = {}
    for name in plan_input.compute_nodes:
        node = plan_input.node(name)
        if node.kind not in judged:
            judged[node.kind] = too_many_cpus(node_settings(node, margin))
        if reason := judged[node.kind]:
            found.setdefault(reason, []).append(name)
    objected(
        f"{fold(names)}: the line in slurm.conf would say what ends slurmctld: {reason}. Mend these nodes' keys in the "
        f"cluster file; or, if the lock says so: {acceptance(fold(names))}."
        for reason, names in found.items()
    )


@once
def changed(plan_input: PlanInput) -> dict[str, tuple[Change, ...]]:
    """How the hardware of compute nodes that answered differs from the lock, for those where it does."""
    margin, divided = plan_input.cluster.memory_margin, mig.to_divide(plan_input)
    found = {}
    for node in plan_input.compute_nodes:
        if fact := plan_input.facts.get(node):
            gpus = None if node in divided else fact.gpus
            found[node] = tuple(differences(plan_input.host(node), fact.hardware, gpus, margin))
    return {node: changes for node, changes in found.items() if changes}


def way_to_accept(plan_input: PlanInput, node: str) -> str:
    """The command that accepts the hardware of a node, and of all that have other than the lock: one may not do."""
    return acceptance(fold([name for name in plan_input.compute_nodes if name == node or name in changed(plan_input)]))


class Claim(NamedTuple):
    """What a node's line in slurm.conf would say in numbers."""

    key: str  # such as `RealMemory`
    wanted: int
    has: int  # what the node has


def excess(node: Node, memory_margin: str) -> Iterator[Claim]:
    """What a node's line, by the file's keys and otherwise by discovery, would say beyond its hardware."""
    line = {key.lower(): value for key, value in node_settings(node, memory_margin).items()}
    assert node.hardware is not None, "a compute node has hardware"
    yield from (claim for claim in claims(line, node.hardware) if claim.wanted > claim.has)


def claims(line: Mapping[str, str], hardware: Hardware) -> Iterator[Claim]:
    """What a line says in numbers. `line`: settings by key in lower case."""
    cores = hardware.Boards * hardware.SocketsPerBoard * hardware.CoresPerSocket
    yield Claim("RealMemory", number(line, "realmemory"), hardware.RealMemory)
    yield Claim(
        "CPUs", number(line, "cpus") or number(line, "procs"), max(hardware.CPUs, cores * hardware.ThreadsPerCore)
    )
    if {"sockets", "socketsperboard", "corespersocket", "threadspercore", "boards"} & line.keys():
        sockets = number(line, "sockets") or (number(line, "boards") or 1) * (number(line, "socketsperboard") or 1)
        wanted = sockets * (number(line, "corespersocket") or 1)
        yield Claim("cores (sockets * CoresPerSocket)", wanted, cores)
        threads = wanted * (number(line, "threadspercore") or 1)
        yield Claim("threads (sockets * CoresPerSocket * ThreadsPerCore)", threads, cores * hardware.ThreadsPerCore)


def number(line: Mapping[str, str], key: str) -> int:
    """The number that a key has; 0 for none. Slurm itself refuses what is no number."""
    value = line.get(key, "")
    return int(value) if value.isdecimal() else 0


def complaint(plan_input: PlanInput, node: str, claim: Claim) -> str:
    """What is wrong, and what to do: accept the hardware, if the host has so much now, or else write what it has."""
    fact = plan_input.facts.get(node)
    now = fact.hardware if fact else None
    there = getattr(now, claim.key, 0)
    way = "Write what it has, or leave the key out."
    if there >= claim.wanted:
        way = f"It has {there} now; to accept that: {way_to_accept(plan_input, node)}."
    elif fact and (told := counted_otherwise(fact.hardware, fact.kernel, fact.ecores)):
        way = f"{told[:1].upper()}{told[1:]}. Or write what slurmd counts, or leave the key out."
    return (
        f"the cluster file gives {claim.key}={claim.wanted}, and the lock has {claim.has}, as `slurmd -C` said there. "
        f"Slurm would take such a node out of service. {way}"
    )
