"""Compute nodes that are given jobs again; read and changed on the controller."""

from __future__ import annotations

import time
from typing import ClassVar, Dict, Tuple

from slurmfab.agent.node_states import NodeState, named, node_states, update
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

IN_SERVICE = "in service"
POLL_SECONDS = 0.3
AGAIN_SECONDS = 5.0
"""After how long a node that stays out of service although it was resumed is resumed once more."""


class NodeResume(Resource):
    """Nodes that are given jobs again.

    Only those are resumed that slurmfab or Slurm itself took out of service, and only once their slurmd answers: one
    that somebody drained meanwhile stays as it is.

    Args:
        nodes: NodeNames.
        anybodys: whether nodes that somebody else took out of service are resumed too.
        seconds: how long to wait for their slurmd and for Slurm.
        after_change: whether only those are resumed that a deployment has drained for a change; all others, and nodes
            that slurmctld does not know any more, are right as they are.
    """

    kind: ClassVar[str] = "node-resume"
    nodes: Tuple[str, ...]
    anybodys: bool = False
    seconds: float = 60.0
    after_change: bool = False

    def name(self) -> str:
        """The nodes."""
        return named(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node in service."""
        return dict.fromkeys(self.nodes, IN_SERVICE)

    def actual(self, context: Context) -> State:
        """Every node's state."""
        found = node_states(context, self.nodes)
        if self.after_change:
            held = {node: words(one) for node, one in found.items() if one.is_for_change}
            return {node: held.get(node, IN_SERVICE) for node in self.nodes}
        return {node: words(found[node]) if node in found else "slurmctld does not know it" for node in self.nodes}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Resume each as soon as it answers, and wait until all are in service.

        Raises:
            ResourceFailed: some are not in time; the text has the state and reason of each, and Slurm's complaint.
        """
        deadline = time.monotonic() + self.seconds
        resumed: Dict[str, float] = {}
        complaint = ""
        while True:
            found = node_states(context, self.nodes)
            late = {node: one for node, one in found.items() if self.is_late(one, was_resumed=node in resumed)}
            now = time.monotonic()
            if not late:
                return
            if now > deadline:
                raise ResourceFailed(explain(late, self.seconds, complaint))
            due = [node for node, one in late.items()
                   if self.may_resume(one) and now - resumed.get(node, -AGAIN_SECONDS) >= AGAIN_SECONDS]  # fmt: skip
            if due:
                complaint = update(context, due, "State=RESUME")
                resumed.update(dict.fromkeys(due, now))
            time.sleep(POLL_SECONDS)

    def is_late(self, state: NodeState, *, was_resumed: bool) -> bool:
        """Whether a node is still to come back; for a moment after it was resumed, Slurm counts it as not answering."""
        if self.after_change:
            return state.is_for_change or (was_resumed and not state.answers)
        return not state.is_in_service

    def may_resume(self, state: NodeState) -> bool:
        """Whether a node answers and is out of service for a reason that is ours to end."""
        is_out = state.is_drained or bool(state.flags & {"DOWN", "FAIL"})
        return state.answers and is_out and (self.anybodys or not state.is_somebodys)


def words(state: NodeState) -> str:
    """A node's state in a comparison, with the reason."""
    if state.is_in_service:
        return IN_SERVICE
    return "%s (%s)" % (state.words, state.reason) if state.reason else state.words


def explain(late: Dict[str, NodeState], seconds: float, complaint: str) -> str:
    """Which nodes are not in service, and in what state they are."""
    nodes = "; ".join("%s: %s" % (node, words(one)) for node, one in list(late.items())[:20])
    more = " and %d more" % (len(late) - 20) if len(late) > 20 else ""  # noqa: PLR2004
    said = ". Slurm says: %s" % complaint if complaint else ""
    return "not in service within %.0f s: %s%s%s" % (seconds, nodes, more, said)
