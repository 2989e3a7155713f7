"""Compute nodes that are put back into service; read and changed on the controller."""

from __future__ import annotations

import time
from typing import ClassVar, Dict

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import NodesResource, NodeState, format_states, node_states, update

IN_SERVICE = "in service"
POLL_SECONDS = 0.3
AGAIN_SECONDS = 5.0  # time after which a node that is still out of service is resumed once more


class NodeResume(NodesResource):
    """Nodes back in service.

    Only nodes that slurmfab or Slurm itself took out of service are resumed: a node that somebody has drained meanwhile
    stays drained. Those that do not answer are resumed as well, since slurmctld rarely asks nodes that are down
    whether they answer again; they get no job before they do.
    """

    kind: ClassVar[str] = "node-resume"
    goal: ClassVar[str] = IN_SERVICE
    include_manual: bool = False  # whether nodes that a person took out of service without slurmfab are resumed too
    seconds: float = 60.0  # how long to wait for slurmd and for Slurm
    # Whether to resume only nodes that a deployment has drained for a change, once they answer; all other nodes, also
    # removed ones, count as right.
    after_change: bool = False

    def actual(self, context: Context) -> State:
        """Every node's state."""
        if not self.after_change:
            return super().actual(context)
        found = node_states(context, self.nodes)
        held = {node: self.compared_state(one) for node, one in found.items() if one.is_for_change}
        return {node: held.get(node, IN_SERVICE) for node in self.nodes}

    def compared_state(self, state: NodeState) -> str:
        """A node's state with its reason, or `in service`."""
        return IN_SERVICE if state.is_in_service else state.with_reason

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Resume each node, and wait; ResourceFailed, with states and reasons, if some are late."""
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
        """Whether a node is out of service for a reason that this resource may clear."""
        is_out = state.is_drained or bool(state.flags & {"DOWN", "FAIL"})
        return (
            (state.answers or not self.after_change) and is_out and (self.include_manual or not state.is_set_by_person)
        )


def explain(late: Dict[str, NodeState], seconds: float, complaint: str) -> str:
    """The nodes out of service by state, after so many seconds, with Slurm's error if any."""
    error = ". Slurm says: %s" % complaint if complaint else ""
    return "not in service within %.0f s: %s%s" % (seconds, format_states(late), error)
