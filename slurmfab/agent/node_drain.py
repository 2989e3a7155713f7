"""Compute nodes that are given no new jobs, with the reason; read and changed on the controller."""

from __future__ import annotations

from typing import ClassVar, Dict, Tuple

from slurmfab.agent.node_states import NodeState, named, node_states, our_reason, said, update
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

UNKNOWN = "slurmctld does not know it"


class NodeDrain(Resource):
    """Nodes that are drained; running jobs go on to their end.

    A node that somebody else has drained, or set down, keeps the reason that it has, and counts as right.

    Args:
        nodes: NodeNames.
        text: why.
        stamp: who and when, as in `ann@laptop 2026-11-21T09:00`; a node that is drained for the same reason keeps its
            older one.
        for_change: whether they are drained for the time of a change alone. Then a node that is out of service already
            keeps its state and reason whoever did that, for nobody would know later to whom it has to go back.
    """

    kind: ClassVar[str] = "node-drain"
    nodes: Tuple[str, ...]
    text: str
    stamp: str
    for_change: bool = False

    def name(self) -> str:
        """The nodes."""
        return named(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node drained, for this reason."""
        return dict.fromkeys(self.nodes, self.drained(self.text))

    def actual(self, context: Context) -> State:
        """Every node's state, as far as it matters here."""
        found = node_states(context, self.nodes)
        return {node: self.seen(found[node]) if node in found else UNKNOWN for node in self.nodes}

    def seen(self, state: NodeState) -> str:
        """A node's state in a comparison."""
        if state.is_for_health:
            # The health check would give the node back by itself, whoever counts on it to stay drained.
            return state.words
        if state.is_ours and state.is_drained and not self.for_change:
            return self.drained(said(state.reason)[0])
        is_left_alone = state.is_drained or state.is_somebodys
        if self.for_change:
            is_left_alone = is_left_alone or bool(state.flags & {"DOWN", "FAIL"})
        return self.drained(self.text) if is_left_alone else state.words

    @staticmethod
    def drained(text: str) -> str:
        """The state that is wanted, with a reason."""
        return "drained: %s" % text

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Drain them with one request.

        Raises:
            ResourceFailed: slurmctld knows one of them not, or refuses.
        """
        known: Dict[str, NodeState] = node_states(context, self.nodes)
        missing = [node for node in self.nodes if node not in known]
        if missing:
            raise ResourceFailed("%s: %s; deploy first" % (",".join(missing), UNKNOWN))
        nodes = [node for node in self.nodes if node in differing]
        complaint = update(context, nodes, "State=DRAIN", "Reason=" + our_reason(self.text, self.stamp))
        if complaint:
            raise ResourceFailed("Slurm does not drain %s: %s" % (",".join(nodes), complaint))
