"""A compute node that Slurm reboots as soon as its jobs have ended; requested on the controller."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import UPDATE_SECONDS, node_states, our_reason

REQUESTED, NOT_REQUESTED = "requested", "not requested"
REBOOT_FLAGS = frozenset({"REBOOT_REQUESTED", "REBOOT_ISSUED"})
"""Flags of a node that will be rebooted, and of one that is being rebooted (scontrol(1), reboot)."""


class NodeReboot(Resource):
    """A reboot that Slurm has accepted; from then on the node gets no new jobs."""

    kind: ClassVar[str] = "node-reboot"
    named_by: ClassVar[str] = "node"
    wanted_state: ClassVar[State] = {"reboot": REQUESTED}
    node: str  # the NodeName
    text: str
    stamp: str  # who and when, as in `ann@laptop 2026-11-21T09:00`

    def actual(self, context: Context) -> State:
        """Whether the reboot is requested; ResourceFailed if slurmctld gives no answer or knows no such node."""
        found = node_states(context, (self.node,))
        if self.node not in found:
            raise ResourceFailed("slurmctld does not know %s; deploy first" % self.node)
        return {"reboot": REQUESTED if found[self.node].flags & REBOOT_FLAGS else NOT_REQUESTED}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Request the reboot, with service after it (scontrol(1): ASAP, nextstate); ResourceFailed if Slurm refuses."""
        reason = our_reason(self.text, self.stamp)
        context.must(commands.reboot(self.node, reason), seconds=UPDATE_SECONDS)
