"""Nodes and partitions that are drained, also before slurmd first registers; read and changed on the controller."""

from __future__ import annotations

import re
import time
from typing import ClassVar, Dict, Optional, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import (
    UNKNOWN_NODE,
    NodesResource,
    NodeState,
    node_states,
    our_reason,
    parse_reason,
    update,
)
from slurmfab.on_hosts.agent.services.service import is_active


class NodeDrain(NodesResource):
    """Drained nodes, jobs going on; one drained or DOWN by somebody else counts, and keeps its reason."""

    kind: ClassVar[str] = "node-drain"
    text: str
    # Who and when, as in `ann@laptop 2026-11-21T09:00`; a node that is drained for the same reason keeps its older
    # stamp.
    stamp: str
    # Whether the nodes are drained only for the time of a change. Then a node that is already out of service keeps its
    # state and reason of whatever origin: otherwise nothing would show later that it must stay so.
    for_change: bool = False

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node drained for this reason."""
        return dict.fromkeys(self.nodes, self.drained(self.text))

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


OPEN = "UP"
CLOSED = "accepts no new jobs"

_PARTITION = re.compile(r"^PartitionName=(\S+).* State=(\S+)", re.MULTILINE)


class PartitionDrain(Resource):
    """Partitions in DRAIN, refusing new jobs (scontrol(1)); those not UP, or unknown, count as right."""

    kind: ClassVar[str] = "partition-drain"
    named_by: ClassVar[str] = "partitions"
    partitions: Tuple[str, ...]

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """No partition is open."""
        return dict.fromkeys(self.partitions, CLOSED)

    def actual(self, context: Context) -> State:
        """Which partitions are open."""
        states: Dict[str, str] = dict(_PARTITION.findall(context.must(commands.SHOW_PARTITIONS)))
        return {name: OPEN if states.get(name) == OPEN else CLOSED for name in self.partitions}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Drain the partitions that are open. Raises ResourceFailed if Slurm refuses."""
        for name in self.partitions:
            if name not in differing:
                continue
            done = context.run(commands.update_partition(name, "State=DRAIN"))
            if done.returncode != 0:
                error = (done.stderr or done.stdout).decode(errors="replace").strip()
                raise ResourceFailed("Slurm does not drain the partition %s: %s" % (name, error))


SHUT = "closed until a test job has run"
ANSWER_SECONDS = 30.0  # time that slurmctld gets after its start until it knows its new nodes


class NewNodeDrain(Resource):
    """Nodes drained before slurmd first registers; those in service, or drained by somebody, are right."""

    kind: ClassVar[str] = "node-gate"
    named_by: ClassVar[str] = "nodes"
    nodes: Tuple[str, ...]  # NodeNames
    text: str
    stamp: str  # who and when
    # Whether nodes in service are drained too, and the reason of drained nodes is replaced: used when a NodeName gets
    # another machine. Nodes that slurmctld does not know count as right then.
    takes_over: bool = False

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
