"""Compute nodes as the controller sees them: ready for jobs, or left out on purpose."""

from __future__ import annotations

import time
from typing import ClassVar, Dict, Set, Tuple

from slurmfab.agent.node_states import SLURMS_OWN, NodeState, named, pauses, short_states
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active

READY = "ready"

NOT_READY = {"DOWN", "UNKNOWN", "FAIL", "FAILING", "ERROR", "INVAL", "N/A"}
"""States of sinfo(1) in which a node takes no jobs although nobody wanted that."""

RESUMABLE = ("Not responding", "Node unexpectedly rebooted")
"""How reasons for DOWN begin that are over when slurmd answers again (ReturnToService, slurm.conf(5))."""

UNHEARD = "is slurmd running there, and can it reach the controller's SlurmctldPort?"
HINTS = {
    "DRAIN": "when the reason is mended: fab resume %s",
    "INVAL": "its hardware is less than slurm.conf says; compare with `slurmd -C` there",
    "N/A": "slurmctld leaves out nodes whose names do not resolve when it starts; see slurmctld.log",
    "DOWN": UNHEARD,
    "UNKNOWN": UNHEARD,
}
"""What to try, by state; the first that a node is in tells."""

LEFT_DRAINED = "some are still drained for a change, by a run that was cut off"
"""The remark on nodes that a deployment has not brought back."""

MISSING = NodeState(frozenset({"N/A"}), "slurmctld does not know it")


def is_right(node: NodeState) -> bool:
    """Whether a node takes jobs, or was taken out by somebody and not by Slurm itself."""
    if node.is_drained:
        return not node.reason.startswith(SLURMS_OWN)
    return node.answers and not node.flags & NOT_READY


def words(node: NodeState) -> str:
    """A node's state and reason for a report."""
    if is_right(node):
        return READY
    return "%s (%s)" % (node.words, node.reason) if node.reason else node.words


class SlurmNodes(Resource):
    """Nodes that take jobs; those that somebody has drained stay drained and count as right.

    Args:
        nodes: NodeNames.
        seconds: how long to wait for slurmd on them to register.
    """

    kind: ClassVar[str] = "slurm-nodes"
    nodes: Tuple[str, ...]
    seconds: int = 60

    def name(self) -> str:
        """The nodes."""
        return named(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node ready."""
        return dict.fromkeys(self.nodes, READY)

    def actual(self, context: Context) -> State:
        """Every node's state; nothing while slurmctld does not answer, or is not there yet.

        That a deployment was cut off which had drained nodes for a change is worth a remark.
        """
        try:
            # sinfo tries for half a minute to reach a slurmctld that is not there.
            found = short_states(context) if is_active(context, "slurmctld") else {}
        except ResourceFailed:
            found = {}
        if not found:
            return {}
        if any(one.is_for_change for one in found.values()):
            context.remark = LEFT_DRAINED
        return {node: words(found.get(node, MISSING)) for node in self.nodes}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Wait until every node is ready, and resume once those that were lost and answer again.

        Raises:
            ResourceFailed: some are not ready in time; the text names each with its state and what to try.
        """
        deadline = time.monotonic() + self.seconds
        resumed: Set[str] = set()
        rests = pauses()
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
            # No waiting ends a drain: Slurm leaves it to somebody to resume the node.
            is_final = bool(late) and all(one.is_drained for one in late.values())
            if is_final or time.monotonic() > deadline:
                raise ResourceFailed(silence or explain(late))
            back = {node for node, one in late.items() if is_back(one)} - resumed
            if back:
                context.run(["scontrol", "update", "NodeName=" + ",".join(sorted(back)), "State=RESUME"])
                resumed |= back
            time.sleep(next(rests))


def is_back(node: NodeState) -> bool:
    """Whether a node is DOWN although slurmd answers, for a reason that is over with that."""
    is_over = not node.reason or node.reason.startswith(RESUMABLE)
    return "DOWN" in node.flags and node.answers and not node.is_drained and is_over


def explain(late: Dict[str, NodeState]) -> str:
    """Which nodes are not ready, why, and what to try: once per state, not once per node."""
    hints = {hint(one).replace("%s", node): None for node, one in sorted(late.items(), reverse=True)}
    nodes = "; ".join("%s: %s" % (node, words(one)) for node, one in list(late.items())[:20])
    more = " and %d more" % (len(late) - 20) if len(late) > 20 else ""  # noqa: PLR2004
    return "not ready: %s%s. %s" % (nodes, more, " ".join(one for one in hints if one))


def hint(node: NodeState) -> str:
    """What to try with a node that is not ready, empty when nothing is known to help."""
    states = node.flags | ({"DRAIN"} if node.is_drained else set())
    return next((HINTS[state] for state in HINTS if state in states), "")
