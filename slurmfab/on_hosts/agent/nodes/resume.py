"""Compute nodes that are put back into service; read and changed on the controller."""

from __future__ import annotations

import time
from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import UNKNOWN_NODE, NodeState, format_states, node_states, short_name, update

IN_SERVICE = "in service"
POLL_SECONDS = 0.3
AGAIN_SECONDS = 5.0  # time after which a node that is still out of service is resumed once more


class NodeResume(Resource):
    """Nodes back in service.

    Only nodes that slurmfab or Slurm itself took out of service are resumed, and only once their slurmd answers: a node
    that somebody has drained meanwhile stays drained.
    """

    kind: ClassVar[str] = "node-resume"
    nodes: Tuple[str, ...]  # NodeNames
    include_manual: bool = False  # whether nodes that a person took out of service without slurmfab are resumed too
    seconds: float = 60.0  # how long to wait for slurmd and for Slurm
    # Whether to resume only nodes that a deployment has drained for a change; all other nodes, also removed ones, count
    # as right.
    after_change: bool = False

    def name(self) -> str:
        """The nodes."""
        return short_name(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node in service."""
        return dict.fromkeys(self.nodes, IN_SERVICE)

    def actual(self, context: Context) -> State:
        """Every node's state."""
        found = node_states(context, self.nodes)
        if self.after_change:
            held = {node: format_state(one) for node, one in found.items() if one.is_for_change}
            return {node: held.get(node, IN_SERVICE) for node in self.nodes}
        return {node: format_state(found[node]) if node in found else UNKNOWN_NODE for node in self.nodes}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Resume each node once it answers, and wait; ResourceFailed, with states and reasons, if some are late."""
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
        """Whether a node is not back yet; just after it was resumed, Slurm counts it as not responding for a moment."""
        if self.after_change:
            return state.is_for_change or (was_resumed and not state.answers)
        return not state.is_in_service

    def may_resume(self, state: NodeState) -> bool:
        """Whether a node answers and is out of service for a reason that this resource may clear."""
        is_out = state.is_drained or bool(state.flags & {"DOWN", "FAIL"})
        return state.answers and is_out and (self.include_manual or not state.is_set_by_person)


def format_state(state: NodeState) -> str:
    """A node's state with its reason, or `in service`."""
    return IN_SERVICE if state.is_in_service else state.with_reason


def explain(late: Dict[str, NodeState], seconds: float, complaint: str) -> str:
    """The nodes out of service by state, after so many seconds, with Slurm's error if any."""
    error = ". Slurm says: %s" % complaint if complaint else ""
    return "not in service within %.0f s: %s%s" % (seconds, format_states(late), error)
