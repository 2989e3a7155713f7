"""Nodes that Slurm has powered down, and that are switched on again; read and changed on the controller."""

from __future__ import annotations

import time
from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes.states import (
    NodesResource,
    NodeState,
    format_states,
    node_states,
    poll_intervals,
    update,
)

AWAKE = "awake"

SLEEPS = frozenset({"POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
"""Flags of a node that is off, or on its way there or back."""


class NodesAwake(NodesResource):
    """Nodes that are switched on, and whose slurmd has registered since."""

    kind: ClassVar[str] = "nodes-awake"
    goal: ClassVar[str] = AWAKE
    seconds: float = 900.0  # how long to wait for them

    def compared_state(self, state: NodeState) -> str:
        """A node's state, or `awake`; a node may be awake and out of service."""
        return AWAKE if state.answers and not state.flags & SLEEPS else state.with_reason

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Have Slurm switch them on, and wait; ResourceFailed, with states, if some are late, or Slurm refuses."""
        deadline = time.monotonic() + self.seconds
        refused = update(context, sorted(differing), "State=POWER_UP")
        if refused:
            raise ResourceFailed("Slurm does not switch them on: %s" % refused)
        for rest in poll_intervals():
            found = node_states(context, self.nodes)
            late = {node: one for node, one in found.items() if self.compared_state(one) != AWAKE}
            if not late:
                return
            if time.monotonic() > deadline or all("DOWN" in one.flags for one in late.values()):
                text = "not awake after %.0f s: %s" % (self.seconds - deadline + time.monotonic(), format_states(late))
                raise ResourceFailed(text)
            time.sleep(rest)
