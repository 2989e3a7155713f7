"""New nodes that stay drained until a test job has run on them; drained on the controller."""

from __future__ import annotations

import time
from typing import ClassVar, Optional, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import UNKNOWN_NODE, NodeState, node_states, our_reason, update
from slurmfab.on_hosts.agent.services.service import is_active

SHUT = "closed until a test job has run"
ANSWER_SECONDS = 30.0  # time that slurmctld gets after its start until it knows its new nodes


class NewNodeDrain(Resource):
    """Nodes drained before slurmd first registers; those in service, or drained by somebody, are right."""

    kind: ClassVar[str] = "node-gate"
    nodes: Tuple[str, ...]  # NodeNames
    text: str
    stamp: str  # who and when
    # Whether nodes in service are drained too, and the reason of drained nodes is replaced: used when a NodeName gets
    # another machine. Nodes that slurmctld does not know count as right then.
    takes_over: bool = False

    def name(self) -> str:
        """The nodes."""
        return ",".join(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node closed."""
        return dict.fromkeys(self.nodes, SHUT)

    def actual(self, context: Context) -> State:
        """Every node's state; empty while slurmctld does not run."""
        if not is_active(context, "slurmctld"):
            return {}
        found = node_states(context, self.nodes)
        return {node: self.compared_state(found.get(node)) for node in self.nodes}

    def compared_state(self, state: Optional[NodeState]) -> str:
        """A node's state for the comparison with `wanted`."""
        if state is None:
            return SHUT if self.takes_over else UNKNOWN_NODE
        if self.takes_over:
            return SHUT if state.is_drained and state.is_ours else state.description
        return SHUT if state.is_drained or state.is_in_service else state.description

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Drain the nodes that differ, with patience while slurmctld starts; ResourceFailed if it refuses."""
        nodes = [node for node in self.nodes if node in differing]
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            complaint = update(context, nodes, "State=DRAIN", "Reason=" + our_reason(self.text, self.stamp))
            if not complaint:
                return
            if time.monotonic() > deadline:
                raise ResourceFailed("Slurm does not drain %s: %s" % (",".join(nodes), complaint))
            time.sleep(0.5)
