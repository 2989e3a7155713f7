"""Draining and resuming the node: drained while the health check finds problems, resumed once it finds none."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes.states import HEALTH, NodeState, records, state_of

RUNS_UNTIL_RESUME = 2  # number of runs in a row without problems before the node is resumed
LONGEST_REASON = 240  # characters of the longest reason

SCONTROL_SECONDS = 10.0

LEFT_ALONE = frozenset({
    "DOWN", "UNKNOWN", "FUTURE", "ERROR", "FAIL", "FAILING", "INVAL", "INVALID_REG", "MAINTENANCE", "MAINT",
    "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP",
})  # fmt: skip
"""States and flags with which the node is left as it is, because an administrator or Slurm has other plans for it."""

DRAIN, RESUME, KEEP = "drain", "resume", "keep"

Left = Callable[[float], float]


def decide(node: NodeState, causes: Mapping[str, str], memory: Dict[str, Any]) -> str:
    """What to do with the node.

    `causes`: the problems, by key. `memory`: `told`: keys of the causes that the present reason names; `well`: number
    of runs in a row without problems. Both are updated. Returns `drain` (also to replace the reason), `resume` or
    `keep`.
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
    return RESUME if memory["well"] >= RUNS_UNTIL_RESUME else KEEP


def reason_of(causes: Mapping[str, str]) -> str:
    """The reason that names all problems, in one line without characters that scontrol or parsers of reasons use."""
    text = "; ".join(causes[key] for key in sorted(causes))
    text = " ".join(text.replace('"', "'").replace("[", "(").replace("]", ")").replace(" : ", ", ").split())
    room = LONGEST_REASON - len(HEALTH)
    return HEALTH + (text if len(text) <= room else text[: room - 3] + "...")


def act(name: str, causes: Mapping[str, str], memory: Dict[str, Any], left: Left) -> str:
    """Ask Slurm for the node's state, and change it if needed.

    `causes`: the problems, by key. `memory`: as for `decide`. Returns what was done: `drain`, `resume` or `keep`; empty
    if Slurm does not answer or refuses.
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
    """The node's state; `None` if Slurm does not know the node. Raises ResourceFailed if Slurm does not answer."""
    shown = context.must(commands.show_nodes(name), seconds=left(SCONTROL_SECONDS))
    return next((state_of(record) for record in records(shown) if record["NodeName"] == name), None)


def update(context: Context, name: str, left: Left, *settings: str) -> None:
    """Change the node by `scontrol update`. Raises ResourceFailed if Slurm does not answer, or refuses."""
    context.must(commands.update_nodes([name], *settings), seconds=left(SCONTROL_SECONDS))
