"""A compute node that Slurm restarts as soon as its jobs have ended; asked for on the controller."""

from __future__ import annotations

from typing import ClassVar

from slurmfab.agent.node_states import UPDATE_SECONDS, node_states, our_reason
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

ASKED, NOT_ASKED = "asked for", "not asked for"
FLAGS = frozenset({"REBOOT_REQUESTED", "REBOOT_ISSUED"})
"""Flags of a node that will be restarted, and of one that is being restarted (scontrol(1), reboot)."""


class NodeReboot(Resource):
    """A restart that Slurm has taken note of; from then on the node gets no new jobs.

    Args:
        node: the NodeName.
        text: why.
        stamp: who and when, as in `ann@laptop 2026-11-21T09:00`.
    """

    kind: ClassVar[str] = "node-reboot"
    node: str
    text: str
    stamp: str

    def name(self) -> str:
        """The node."""
        return self.node

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Asked for."""
        return {"reboot": ASKED}

    def actual(self, context: Context) -> State:
        """Whether it is.

        Raises:
            ResourceFailed: slurmctld does not answer, or does not know the node.
        """
        found = node_states(context, (self.node,))
        if self.node not in found:
            raise ResourceFailed("slurmctld does not know %s; deploy first" % self.node)
        return {"reboot": ASKED if found[self.node].flags & FLAGS else NOT_ASKED}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Ask for it; the node takes jobs again when it is back (scontrol(1), reboot: ASAP, nextstate).

        Raises:
            ResourceFailed: Slurm refuses.
        """
        reason = our_reason(self.text, self.stamp)
        asking = ["scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=" + reason, self.node]
        context.must(asking, seconds=UPDATE_SECONDS)
