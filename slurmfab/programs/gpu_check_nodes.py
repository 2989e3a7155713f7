"""Nodes with GPUs as slurmctld knows them, what is wanted of them, and how they go out of service and come back."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.agent.node_states import OURS, SHOW, UPDATE_SECONDS, NodeState, node_states, records, state_of, update
from slurmfab.agent.resource import Context, ResourceFailed

CHECK = OURS + "gpu check: "
"""How the reasons begin of nodes that fall short."""

RESERVATION = "slurmfab_gpu_check"
ANY_TYPE = "*"
"""The type whose threshold is for all that have none of their own."""

LONGEST_REASON = 200


class GpuNode(NamedTuple):
    """A node that has GPUs.

    Args:
        name: NodeName.
        gpus: how many by type; untyped ones by the type `gpu`.
        partitions: those that it is in.
        state: of the node, with the reason of one that is out of service.
    """

    name: str
    gpus: Mapping[str, int]
    partitions: Tuple[str, ...]
    state: NodeState

    @property
    def total(self) -> int:
        """How many GPUs it has."""
        return sum(self.gpus.values())

    @property
    def words(self) -> str:
        """Its GPUs, as in `a100 x4`."""
        return ", ".join("%s x%d" % one for one in self.gpus.items())

    @property
    def is_shut_by_us(self) -> bool:
        """Whether an earlier check has drained it, and no job is left there."""
        return self.is_held_by_us and "IDLE" in self.state.flags

    @property
    def is_held_by_us(self) -> bool:
        """Whether an earlier check has drained it, and nobody has found another reason since."""
        return self.state.is_drained and self.state.reason.startswith(CHECK) and " : " not in self.state.reason


def gpu_nodes(context: Context, wanted: Sequence[str] = ()) -> List[GpuNode]:
    """The nodes with GPUs, by name.

    Args:
        context: runs commands.
        wanted: only these; all where none is named.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    found = []
    for fields in records(context.must(SHOW, seconds=UPDATE_SECONDS)):
        gpus = gpus_in(fields.get("Gres", ""))
        if gpus and (not wanted or fields["NodeName"] in wanted):
            partitions = tuple(filter(None, fields.get("Partitions", "").split(",")))
            found.append(GpuNode(fields["NodeName"], gpus, partitions, state_of(fields)))
    return found


def gpus_in(gres: str) -> Dict[str, int]:
    """The GPUs by type in a list of generic resources as scontrol prints it.

    >>> gpus_in("gpu:a100:4(S:0-1),shard:8")
    {'a100': 4}
    """
    plain, depth = "", 0
    for letter in gres:
        depth += (letter == "(") - (letter == ")")
        plain += letter if depth == 0 and letter != ")" else ""
    found: Dict[str, int] = {}
    for entry in plain.split(","):
        words = entry.split(":")
        if words[0] == "gpu" and words[-1].isdigit() and int(words[-1]):
            kind = words[1] if len(words) > 2 else "gpu"  # noqa: PLR2004 - gpu:TYPE:COUNT
            found[kind] = found.get(kind, 0) + int(words[-1])
    return found


def threshold(limits: Mapping[str, float], gpus: Mapping[str, int]) -> Optional[float]:
    """The bus bandwidth in GB/s that is wanted of a node: of several types the lowest; `None` where none is said.

    >>> threshold({"a100": 120.0}, {"nvidia_a100-sxm4-40gb": 8})
    120.0

    Args:
        limits: GB/s by type; a part of a type's name will do, and the longest that fits counts; `*` is for all others.
        gpus: of the node, by type.
    """
    found = []
    for kind in gpus:
        fitting = [key for key in limits if key != ANY_TYPE and key.lower() in kind.lower()]
        key = max(fitting, key=len, default=ANY_TYPE)
        found += [limits[key]] if key in limits else []
    return min(found) if found else None


def drain(context: Context, node: str, text: str) -> str:
    """Drain a node that is in service; jobs on it end as they would.

    Args:
        context: runs commands.
        node: its name.
        text: why, such as `all_reduce 98.2 GB/s, wanted 120`.

    Returns:
        Why it is not drained; empty when it is.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    state = node_states(context, [node]).get(node)
    if state is None or not state.is_in_service:
        return "it is %s now (%s), and left so" % (state.words, state.reason or "no reason") if state else "it is gone"
    return update(context, [node], "State=DRAIN", "Reason=" + reason_of(text))


def reason_of(text: str) -> str:
    """The reason of a node that falls short, in one line."""
    return CHECK + " ".join(text.replace('"', "'").split())[:LONGEST_REASON]


def reserve(context: Context, nodes: Mapping[str, str]) -> None:
    """Keep all but the slurm user from nodes that an earlier check has drained, and resume them, to be measured again.

    Args:
        context: runs commands.
        nodes: their reasons by name.

    Raises:
        ResourceFailed: Slurm refuses that; the nodes stay drained.
    """
    context.must([
        "scontrol", "create", "reservation", "ReservationName=" + RESERVATION, "Users=slurm",
        "Nodes=" + ",".join(nodes), "StartTime=now", "Duration=UNLIMITED", "Flags=IGNORE_JOBS",
    ])  # fmt: skip
    complaint = update(context, list(nodes), "State=RESUME")
    if complaint:
        give_back(context, nodes)
        raise ResourceFailed(complaint)


def give_back(context: Context, nodes: Mapping[str, str]) -> None:
    """End the reservation, after the nodes that have not passed are drained again, each with its reason."""
    for node, reason in nodes.items():
        state = node_states(context, [node]).get(node)
        if state and not state.is_drained:
            update(context, [node], "State=DRAIN", "Reason=" + reason)
    context.run(["scontrol", "delete", "ReservationName=" + RESERVATION])


def is_reserved(context: Context) -> bool:
    """Whether a run that was killed has left its reservation."""
    shown = context.run(["scontrol", "--oneliner", "show", "reservation", RESERVATION])
    return shown.returncode == 0 and RESERVATION.encode() in shown.stdout


def idle_in(context: Context, partition: str) -> int:
    """How many nodes of a partition have no job at all."""
    shown = context.must(["sinfo", "--all", "-h", "-p", partition, "-t", "idle", "-o", "%D"])
    return sum(int(word) for word in shown.split() if word.isdigit())


def partitions_up(context: Context) -> FrozenSet[str]:
    """The partitions in which jobs start.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    lines = context.must(["sinfo", "--all", "-h", "-o", "%R|%a"]).split()
    return frozenset(line[: -len("|up")] for line in lines if line.endswith("|up"))


def partition_for(nodes: Sequence[GpuNode], up: FrozenSet[str], asked: str) -> str:
    """The partition for a job on all of these nodes; empty where there is none that is up.

    Args:
        nodes: of the job.
        up: partitions in which jobs start.
        asked: by the cluster file, empty for any.
    """
    common = [name for name in nodes[0].partitions if all(name in node.partitions for node in nodes)]
    names = [asked] if asked else common
    return next((name for name in names if name in common and name in up), "")


def limits_of(said: Any) -> Dict[str, float]:
    """Thresholds by type from the settings, where one number is for all types."""
    if said is None:
        return {}
    return {ANY_TYPE: float(said)} if isinstance(said, (int, float)) else {key: float(one) for key, one in said.items()}
