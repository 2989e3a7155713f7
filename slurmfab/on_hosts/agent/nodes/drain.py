"""Compute nodes that are drained with a reason; read and changed on the controller."""

from __future__ import annotations

from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import (
    UNKNOWN_NODE,
    NodeState,
    node_states,
    our_reason,
    parse_reason,
    short_name,
    update,
)


class NodeDrain(Resource):
    """Drained nodes, jobs going on; one drained or DOWN by somebody else counts, and keeps its reason."""

    kind: ClassVar[str] = "node-drain"
    nodes: Tuple[str, ...]  # NodeNames
    text: str
    # Who and when, as in `ann@laptop 2026-11-21T09:00`; a node that is drained for the same reason keeps its older
    # stamp.
    stamp: str
    # Whether the nodes are drained only for the time of a change. Then a node that is already out of service keeps its
    # state and reason of whatever origin: otherwise nothing would show later that it must stay so.
    for_change: bool = False

    def name(self) -> str:
        """The nodes."""
        return short_name(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node drained for this reason."""
        return dict.fromkeys(self.nodes, self.drained(self.text))

    def actual(self, context: Context) -> State:
        """Every node's state, in the form that `wanted` has."""
        found = node_states(context, self.nodes)
        return {node: self.compared_state(found[node]) if node in found else UNKNOWN_NODE for node in self.nodes}

    def compared_state(self, state: NodeState) -> str:
        """A node's state for the comparison with `wanted`."""
        if state.is_for_health:
            # The health check would resume the node by itself later.
            return state.description
        if state.is_ours and state.is_drained and not self.for_change:
            return self.drained(parse_reason(state.reason).text)
        is_left_alone = state.is_drained or state.is_set_by_person
        if self.for_change:
            is_left_alone = is_left_alone or bool(state.flags & {"DOWN", "FAIL"})
        return self.drained(self.text) if is_left_alone else state.description

    @staticmethod
    def drained(text: str) -> str:
        """The wanted state, with a reason."""
        return "drained: %s" % text

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Drain the nodes that differ; ResourceFailed if slurmctld does not know one of them, or refuses."""
        known: Dict[str, NodeState] = node_states(context, self.nodes)
        missing = [node for node in self.nodes if node not in known]
        if missing:
            raise ResourceFailed("%s: %s; deploy first" % (",".join(missing), UNKNOWN_NODE))
        nodes = [node for node in self.nodes if node in differing]
        complaint = update(context, nodes, "State=DRAIN", "Reason=" + our_reason(self.text, self.stamp))
        if complaint:
            raise ResourceFailed("Slurm does not drain %s: %s" % (",".join(nodes), complaint))
