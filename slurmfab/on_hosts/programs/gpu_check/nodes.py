"""Nodes with GPUs: read from slurmctld, drained when they fall short, and resumed when they pass again.

While slurmctld does not answer, all that asks it raises ResourceFailed.
"""

from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import gpus_of
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes.states import (
    OURS,
    UPDATE_SECONDS,
    NodeState,
    node_states,
    records,
    shown_nodes,
    state_of,
    update,
)

REASON_PREFIX = OURS + "gpu check: "  # prefix of the reasons of nodes that fall short

RESERVATION = "slurmfab_gpu_check"
ANY_TYPE = "*"  # the key of the threshold for all types without their own

LONGEST_REASON = 200

_INSTANCE = re.compile(r"(?:^|_)\dg\.\d+gb")  # in the type of a MIG instance


class GpuNode(NamedTuple):
    """A node that has GPUs."""

    name: str  # NodeName
    gpus: Mapping[str, int]  # number of GPUs by type; the type of untyped GPUs is `gpu`
    partitions: Tuple[str, ...]
    state: NodeState

    @property
    def total(self) -> int:
        """Number of GPUs."""
        return sum(self.gpus.values())

    @property
    def description(self) -> str:
        """The GPUs, as in `a100 x4`."""
        return ", ".join("%s x%d" % one for one in self.gpus.items())

    @property
    def can_be_retested(self) -> bool:
        """Whether an earlier check drained the node, and no job runs there any more."""
        return self.is_drained_by_check and "IDLE" in self.state.flags

    @property
    def is_drained_by_check(self) -> bool:
        """Whether an earlier check drained the node, and nobody has added another reason since."""
        return self.state.is_drained and self.state.reason.startswith(REASON_PREFIX) and " : " not in self.state.reason


def gpu_nodes(context: Context, wanted: Sequence[str] = ()) -> List[GpuNode]:
    """The nodes with whole GPUs, in slurmctld's order: CUDA shows a program one MIG instance, whatever its job has.

    `wanted`: NodeNames; empty for all.
    """
    found = []
    for fields in records(shown_nodes(context, UPDATE_SECONDS)):
        gpus = gpus_of(fields.get("Gres", ""))
        if gpus and not any(map(_INSTANCE.search, gpus)) and (not wanted or fields["NodeName"] in wanted):
            partitions = tuple(filter(None, fields.get("Partitions", "").split(",")))
            found.append(GpuNode(fields["NodeName"], gpus, partitions, state_of(fields)))
    return found


def threshold(limits: Mapping[str, float], gpus: Mapping[str, int]) -> Optional[float]:
    """The wanted bus bandwidth of a node in GB/s: the lowest of its types; `None` for none.

    >>> threshold({"a100": 120.0}, {"nvidia_a100-sxm4-40gb": 8})
    120.0

    Args:
        limits: GB/s by type. A key may be a part of a type's name, and the longest one counts; `*` is for all other
            types.
        gpus: of the node, by type.
    """
    found = []
    for kind in gpus:
        fitting = [key for key in limits if key != ANY_TYPE and key.lower() in kind.lower()]
        key = max(fitting, key=len, default=ANY_TYPE)
        found += [limits[key]] if key in limits else []
    return min(found) if found else None


def drain(context: Context, node: str, text: str) -> str:
    """Drain a node in service for a reason as `all_reduce 98.2 GB/s, wanted 120`; returns why not, or empty."""
    state = node_states(context, [node]).get(node)
    if state is None:
        return "slurmctld no longer knows it"
    if not state.is_in_service:
        return "it is %s now (%s)" % (state.description, state.reason or "no reason")
    return update(context, [node], "State=DRAIN", "Reason=" + reason_of(text))


def reason_of(text: str) -> str:
    """The reason of a node that falls short, in one line."""
    return REASON_PREFIX + " ".join(text.replace('"', "'").split())[:LONGEST_REASON]


def reserve(context: Context, nodes: Mapping[str, str]) -> None:
    """Reserve drained nodes, with present reasons, for slurm and resume them; ResourceFailed, still drained."""
    context.must(commands.reserve(RESERVATION, "slurm", nodes, "UNLIMITED"))
    complaint = update(context, list(nodes), "State=RESUME")
    if complaint:
        give_back(context, nodes)
        raise ResourceFailed(complaint)


def give_back(context: Context, nodes: Mapping[str, str]) -> None:
    """Drain the nodes that did not pass again, with their reasons, then delete the reservation."""
    for node, reason in nodes.items():
        state = node_states(context, [node]).get(node)
        if state and not state.is_drained:
            update(context, [node], "State=DRAIN", "Reason=" + reason)
    context.run(commands.delete_reservation(RESERVATION))


def is_reserved(context: Context) -> bool:
    """Whether the reservation exists, as after a killed run."""
    shown = context.run(commands.show_reservations(RESERVATION))
    return shown.returncode == 0 and RESERVATION.encode() in shown.stdout


def idle_in(context: Context, partition: str) -> int:
    """The number of idle nodes in a partition."""
    shown = context.must(commands.idle_count(partition))
    return sum(int(word) for word in shown.split() if word.isdecimal())


def partitions_up(context: Context) -> FrozenSet[str]:
    """The partitions in state UP."""
    lines = context.must(commands.PARTITION_STATES).split()
    return frozenset(line[: -len("|up")] for line in lines if line.endswith("|up"))


def can_run(nodes: Sequence[GpuNode], up: FrozenSet[str], partition: str) -> bool:
    """Whether a partition is UP and has all of these nodes."""
    return partition in up and all(partition in node.partitions for node in nodes)


def limits_of(setting: Any) -> Dict[str, float]:
    """Thresholds by type from a setting: a number for all types, a number by type, or nothing."""
    if setting is None:
        return {}
    if isinstance(setting, (int, float)):
        return {ANY_TYPE: float(setting)}
    return {key: float(one) for key, one in setting.items()}
