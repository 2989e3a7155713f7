"""Figures of nodes and partitions: states, reasons, and what is allocated and idle."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Mapping, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.nodes.states import NodeState, state_of
from slurmfab.on_hosts.programs.slurm_metrics.figures import MOST, OTHER, Figures, bounded, first, label
from slurmfab.on_hosts.programs.user_tools.amounts import gpus_of

MEBIBYTE = 1 << 20

ALLOCATED, IDLE, UNAVAILABLE = "allocated", "idle", "unavailable"

STATES: Tuple[Tuple[str, FrozenSet[str]], ...] = (
    ("rebooting", frozenset({"REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT"})),
    ("down", frozenset({"DOWN", "FAIL", "FAILING", "ERROR", "INVAL", "INVALID_REG"})),
    ("drained", frozenset({"DRAIN", "DRAINED", "DRAINING"})),
    ("maintenance", frozenset({"MAINT", "MAINTENANCE"})),
    ("powered_down", frozenset({"POWERED_DOWN"})),
    ("powering_down", frozenset({"POWER_DOWN", "POWERING_DOWN"})),
    ("powering_up", frozenset({"POWER_UP", "POWERING_UP"})),
    ("not_responding", frozenset({"NOT_RESPONDING", "NO_RESPOND"})),
    ("completing", frozenset({"COMPLETING"})),
    ("mixed", frozenset({"MIXED"})),
    ("allocated", frozenset({"ALLOCATED"})),
    ("reserved", frozenset({"RESERVED", "RES"})),
    ("planned", frozenset({"PLANNED"})),
    ("idle", frozenset({"IDLE"})),
)
"""The word for a node: the first whose flags it has. A drained node with jobs is `draining`."""

DRAINING = "draining"
BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
WORDS = (*(word for word, _ in STATES), DRAINING, OTHER)  # all words: each has a value, also 0


def word_of(state: NodeState) -> str:
    """The one word that stands for the state of a node."""
    found = next((word for word, flags in STATES if flags & state.flags), OTHER)
    return DRAINING if found == "drained" and state.flags & BUSY else found


def collect(figures: Figures, records: Iterable[Mapping[str, str]]) -> None:
    """Put the figures of nodes. `records`: the fields of `scontrol show node` of each node."""
    states: Dict[Tuple[str, ...], float] = {(word,): 0.0 for word in WORDS}
    reasons: Dict[Tuple[str, ...], float] = {}
    away: Dict[Tuple[str, ...], float] = {}
    amounts: List[Tuple[Tuple[str, ...], Dict[Tuple[str, ...], float]]] = []
    for record in records:
        state = state_of(dict(record))
        word = word_of(state)
        states[(word,)] += 1
        if not state.is_in_service:
            reason = (word, label(state.reason) or "none")
            reasons[reason] = reasons.get(reason, 0) + 1
            away[(record["NodeName"], word)] = 1
        partitions = tuple(
            one for one in record.get("Partitions", "").split(",") if one not in ("", commands.PARTITION)
        )
        amounts.append((partitions, amounts_of(record, state)))
    figures.put_all("slurm_nodes", states)
    figures.put_all("slurm_nodes_out_of_service", bounded(reasons))
    figures.put_all("slurm_node_out_of_service", dict(sorted(away.items())[:MOST]))
    add_up(figures, amounts)


def amounts_of(record: Mapping[str, str], state: NodeState) -> Dict[Tuple[str, ...], float]:
    """Amounts by kind (`cpus`, `memory_bytes`, `gpus`), GPU type and state; free ones may be unavailable."""
    free = IDLE if state.is_in_service else UNAVAILABLE
    used, total = gpus_of(record.get("GresUsed", "")), gpus_of(record.get("Gres", ""))
    cpus = integer(record.get("CPUEfctv", "")) or integer(record.get("CPUTot", ""))
    memory = integer(record.get("RealMemory", "")) * MEBIBYTE
    found: Dict[Tuple[str, ...], Tuple[int, int]] = {
        ("cpus",): (integer(record.get("CPUAlloc", "")), cpus),
        ("memory_bytes",): (integer(record.get("AllocMem", "")) * MEBIBYTE, memory),
        **{("gpus", label(kind)): (used.get(kind, 0), count) for kind, count in total.items()},
    }
    amounts: Dict[Tuple[str, ...], float] = {}
    for what, (taken, there) in found.items():
        states = {ALLOCATED: taken, IDLE: 0, UNAVAILABLE: 0, free: max(0, there - taken)}
        amounts.update({(*what, one): amount for one, amount in states.items()})
    return amounts


def add_up(figures: Figures, amounts: Iterable[Tuple[Tuple[str, ...], Mapping[Tuple[str, ...], float]]]) -> None:
    """Put the sums of what nodes have, of each partition and of the cluster."""
    nodes = list(amounts)
    known = frozenset(first(one for partitions, _ in nodes for one in partitions))
    sums: Dict[Tuple[str, Tuple[str, ...]], float] = {}
    for partitions, has in nodes:
        for (what, *rest), amount in has.items():
            keys = [("slurm_cluster_" + what, tuple(rest))]
            keys += [("slurm_" + what, (one, *rest)) for one in partitions if one in known]
            for key in keys:
                sums[key] = sums.get(key, 0) + amount
    for (name, labels), amount in sums.items():
        figures.put(name, amount, *labels)


def collect_partitions(figures: Figures, shown: str) -> None:
    """Put which partitions are up, from what `PARTITION_STATES` printed."""
    rows = dict(line.split("|", 1) for line in shown.split("\n") if "|" in line)
    for name in first(one for one in rows if one != commands.PARTITION):
        figures.put("slurm_partition_up", rows[name] == "up", name)


def integer(text: str) -> int:
    """A number that Slurm printed; 0 for anything else."""
    return int(text) if text.isdigit() else 0
