"""Nodes on which no user's job starts before they have shown that jobs run there; shut on the controller."""

from __future__ import annotations

import time
from typing import ClassVar, Optional, Tuple

from slurmfab.agent.node_states import NodeState, node_states, our_reason, update
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active

SHUT = "no job starts there untried"
UNKNOWN = "slurmctld does not know it"
ANSWER_SECONDS = 30.0
"""How long a slurmctld that has just started may take until it knows its new nodes."""


class NodeGate(Resource):
    """Nodes that are drained before their slurmd registers for the first time.

    A node that is in service already, or that somebody has drained, counts as right.

    Args:
        nodes: NodeNames.
        text: why.
        stamp: who and when.
        takes_over: whether a node in service is drained too, and one that somebody has drained becomes ours, for it is
            another machine from now on; nodes that slurmctld does not know then count as right.
    """

    kind: ClassVar[str] = "node-gate"
    nodes: Tuple[str, ...]
    text: str
    stamp: str
    takes_over: bool = False

    def name(self) -> str:
        """The nodes."""
        return ",".join(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node shut."""
        return dict.fromkeys(self.nodes, SHUT)

    def actual(self, context: Context) -> State:
        """Every node's state; nothing while slurmctld does not run."""
        if not is_active(context, "slurmctld"):
            return {}
        found = node_states(context, self.nodes)
        return {node: self.seen(found.get(node)) for node in self.nodes}

    def seen(self, state: Optional[NodeState]) -> str:
        """A node's state in a comparison."""
        if state is None:
            return SHUT if self.takes_over else UNKNOWN
        if self.takes_over:
            return SHUT if state.is_drained and state.is_ours else state.words
        return SHUT if state.is_drained or state.is_in_service else state.words

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Drain them with one request.

        Raises:
            ResourceFailed: slurmctld does not know one of them, or refuses.
        """
        nodes = [node for node in self.nodes if node in differing]
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            complaint = update(context, nodes, "State=DRAIN", "Reason=" + our_reason(self.text, self.stamp))
            if not complaint:
                return
            if time.monotonic() > deadline:
                raise ResourceFailed("Slurm does not drain %s: %s" % (",".join(nodes), complaint))
            time.sleep(0.5)
