"""What a node's health means for Slurm: drained while something is wrong with it, and given back once it is well."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

from slurmfab.agent.node_states import HEALTH, SHOW, NodeState, records, state_of
from slurmfab.agent.resource import Context, ResourceFailed

WELL_LOOKS = 2
"""How many looks in a row have to find nothing before the node is given back."""

LONGEST = 240
"""Characters of the longest reason."""

SCONTROL_SECONDS = 10.0

LEFT_ALONE = frozenset({
    "DOWN", "UNKNOWN", "FUTURE", "ERROR", "FAIL", "FAILING", "INVAL", "INVALID_REG", "MAINTENANCE", "MAINT",
    "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP",
})  # fmt: skip
"""States and flags of a node with which somebody, or Slurm itself, has something else in mind."""

DRAIN, RESUME, KEEP = "drain", "resume", "keep"

Left = Callable[[float], float]


def decide(node: NodeState, causes: Mapping[str, str], memory: Dict[str, Any]) -> str:
    """What is to be done about a node.

    Args:
        node: as Slurm has it.
        causes: what is wrong with it, by key.
        memory: keeps in `told` the keys of the causes that the reason names, and in `well` how many looks in a row
            have found nothing since.

    Returns:
        `drain` (also for another reason than before), `resume` or `keep`.
    """
    if node.flags & LEFT_ALONE:
        return KEEP
    if causes:
        memory.pop("well", None)
        if not node.is_drained:
            return DRAIN
        is_news = memory.get("told") != sorted(causes) and node.reason != reason_of(causes)
        return DRAIN if node.is_for_health and is_news else KEEP
    if not node.is_for_health:
        memory.pop("well", None)
        memory.pop("told", None)
        return KEEP
    memory["well"] = memory.get("well", 0) + 1
    return RESUME if memory["well"] >= WELL_LOOKS else KEEP


def reason_of(causes: Mapping[str, str]) -> str:
    """The reason that names all causes, in one line that `scontrol` and its readers can bear."""
    text = "; ".join(causes[key] for key in sorted(causes))
    text = " ".join(text.replace('"', "'").replace("[", "(").replace("]", ")").replace(" : ", ", ").split())
    room = LONGEST - len(HEALTH)
    return HEALTH + (text if len(text) <= room else text[: room - 3] + "...")


def act(name: str, causes: Mapping[str, str], memory: Dict[str, Any], left: Left) -> str:
    """Ask Slurm for the node's state, and change it where that is called for.

    Args:
        name: NodeName.
        causes: what is wrong.
        memory: as for `decide`.
        left: the seconds that are left for something that would like to have so many.

    Returns:
        What was done: `drain`, `resume`, `keep`, or nothing where Slurm does not answer.
    """
    context = Context()
    try:
        node = state(context, name, left)
        if node is None:
            return ""
        action = decide(node, causes, memory)
        if action == DRAIN:
            update(context, name, left, "State=DRAIN", "Reason=" + reason_of(causes))
            memory["told"] = sorted(causes)
        elif action == RESUME:
            update(context, name, left, "State=RESUME")
            memory.pop("told", None)
            memory.pop("well", None)
    except ResourceFailed:
        return ""
    return action


def state(context: Context, name: str, left: Left) -> Optional[NodeState]:
    """The node's state; `None` where Slurm does not know it.

    Raises:
        ResourceFailed: Slurm does not answer.
    """
    shown = context.must([*SHOW, name], seconds=left(SCONTROL_SECONDS))
    return next((state_of(record) for record in records(shown) if record["NodeName"] == name), None)


def update(context: Context, name: str, left: Left, *settings: str) -> None:
    """Change the node.

    Raises:
        ResourceFailed: Slurm does not answer, or refuses.
    """
    context.must(["scontrol", "update", "NodeName=" + name, *settings], seconds=left(SCONTROL_SECONDS))
