"""Compute nodes as the controller sees them: ready for jobs, or deliberately out of service."""

from __future__ import annotations

import time
from typing import ClassVar, Dict, Set, Tuple

from slurmfab.agent.client import commands
from slurmfab.agent.core.program_name import FAB
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.nodes.states import (
    SLURMS_OWN,
    UNKNOWN_NODE,
    NodeState,
    format_states,
    poll_intervals,
    short_name,
    short_states,
)
from slurmfab.agent.services.service import is_active

READY = "ready"

NOT_READY = {"DOWN", "UNKNOWN", "FAIL", "FAILING", "ERROR", "INVAL", "N/A"}
"""States of sinfo(1) in which a node runs no new jobs although nobody asked for that."""

RESUMABLE = ("Not responding", "Node unexpectedly rebooted")
"""Prefixes of reasons for DOWN that no longer apply when slurmd answers again (ReturnToService, slurm.conf(5))."""

CHECK_SLURMD = "is slurmd running there, and can it reach the controller's SlurmctldPort?"
HINTS = {
    "DRAIN": "after the reason is fixed: " + FAB + " resume %s",
    "INVAL": "it has less hardware than slurm.conf says; compare with `slurmd -C` there",
    "N/A": "slurmctld ignores nodes whose names do not resolve when it starts; see slurmctld.log",
    "DOWN": CHECK_SLURMD,
    "UNKNOWN": CHECK_SLURMD,
}
"""What to try, by state; the first matching entry applies."""

LEFT_DRAINED = "some are still drained by a deployment that was interrupted"
"""The remark on nodes that an interrupted deployment has not resumed."""

MISSING = NodeState(frozenset({"N/A"}), UNKNOWN_NODE)


def is_right(node: NodeState) -> bool:
    """Whether a node runs jobs, or was drained by a person and not by Slurm itself."""
    if node.is_drained:
        return not node.reason.startswith(SLURMS_OWN)
    return node.answers and not node.flags & NOT_READY


def format_state(node: NodeState) -> str:
    """A node's state and reason for a report, or `ready`."""
    return READY if is_right(node) else node.with_reason


class SlurmNodes(Resource):
    """Nodes that run jobs; a node that a person has drained stays drained and counts as right.

    Args:
        nodes: NodeNames.
        seconds: how long to wait until their slurmd has registered.
    """

    kind: ClassVar[str] = "slurm-nodes"
    nodes: Tuple[str, ...]
    seconds: int = 60

    def name(self) -> str:
        """The nodes."""
        return short_name(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node ready."""
        return dict.fromkeys(self.nodes, READY)

    def actual(self, context: Context) -> State:
        """Every node's state; empty while slurmctld does not answer or is not installed yet.

        Nodes that an interrupted deployment has left drained add a remark.
        """
        try:
            # sinfo retries for half a minute if slurmctld does not run.
            found = short_states(context) if is_active(context, "slurmctld") else {}
        except ResourceFailed:
            found = {}
        if not found:
            return {}
        if any(one.is_for_change for one in found.values()):
            context.remark = LEFT_DRAINED
        return {node: format_state(found.get(node, MISSING)) for node in self.nodes}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Wait until every node is ready; resume once the nodes that were DOWN and answer again.

        Raises:
            ResourceFailed: some are not ready in time; the text has each node's state and what to try.
        """
        deadline = time.monotonic() + self.seconds
        resumed: Set[str] = set()
        rests = poll_intervals()
        while True:
            silence, found = "", {}
            try:
                found = short_states(context)
            except ResourceFailed as error:
                silence = str(error)
            late = {node: found.get(node, MISSING) for node in self.nodes}
            late = {node: one for node, one in late.items() if not is_right(one)}
            if not late and not silence:
                return
            # Waiting does not end a drain: an administrator has to resume the node.
            is_final = bool(late) and all(one.is_drained for one in late.values())
            if is_final or time.monotonic() > deadline:
                raise ResourceFailed(silence or explain(late))
            back = {node for node, one in late.items() if is_back(one)} - resumed
            if back:
                context.run(commands.update_nodes(sorted(back), "State=RESUME"))
                resumed |= back
            time.sleep(next(rests))


def is_back(node: NodeState) -> bool:
    """Whether a node is DOWN although slurmd answers, for a reason that no longer applies."""
    is_over = not node.reason or node.reason.startswith(RESUMABLE)
    return "DOWN" in node.flags and node.answers and not node.is_drained and is_over


def explain(late: Dict[str, NodeState]) -> str:
    """The nodes that are not ready, with their states, and what to try, each hint once.

    Args:
        late: the states by NodeName.
    """
    hints = {hint(one).replace("%s", node): None for node, one in sorted(late.items(), reverse=True)}
    return "not ready: %s. %s" % (format_states(late), " ".join(one for one in hints if one))


def hint(node: NodeState) -> str:
    """What to try with a node that is not ready; empty if no hint applies."""
    states = node.flags | ({"DRAIN"} if node.is_drained else set())
    return next((HINTS[state] for state in HINTS if state in states), "")
