"""Compute nodes as the controller sees them: ready for jobs, or left out on purpose."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import ClassVar, Dict, NamedTuple, Set, Tuple

from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active

READY = "ready"

NOT_READY = {"down", "unk", "fail", "failg", "inval", "err", "n/a"}
"""Short states of sinfo(1) in which a node takes no jobs although nobody wanted that."""

DRAINED = {"drain", "drng"}
SLURMS_OWN_REASONS = ("Low ", "gres/", "Duplicate jobid", "Kill task failed", "Prolog error", "batch job complete fail")
"""How reasons begin for which Slurm itself drains a node; with others somebody did, and the node is left alone."""

RESUMABLE = ("Not responding", "Node unexpectedly rebooted")
"""How reasons for DOWN begin that are over when slurmd answers again (ReturnToService, slurm.conf(5))."""

HINTS = {
    "down": "is slurmd running there, and can it reach the controller's SlurmctldPort?",
    "unk": "is slurmd running there, and can it reach the controller's SlurmctldPort?",
    "n/a": "slurmctld leaves out nodes whose names do not resolve when it starts; see slurmctld.log",
    "inval": "its hardware is less than slurm.conf says; compare with `slurmd -C` there",
    "drain": "when the reason is mended: fab resume %s",
}
"""What to try, by short state."""

POLL_SECONDS = 0.5


class NodeState(NamedTuple):
    """One node in the words of sinfo(1).

    Args:
        state: the short state without its suffix, such as `idle`.
        answers: whether slurmd answers: there is no `*` behind the state.
        reason: of a drained or lost node; `none` otherwise.
    """

    state: str
    answers: bool
    reason: str

    def is_right(self) -> bool:
        """Whether the node takes jobs, or was taken out by somebody."""
        if self.state in DRAINED:
            return not self.reason.startswith(SLURMS_OWN_REASONS)
        return self.answers and self.state not in NOT_READY

    def words(self) -> str:
        """State and reason for a report."""
        if self.is_right():
            return READY
        state = self.state + ("" if self.answers else ", not responding")
        return "%s (%s)" % (state, self.reason) if self.reason not in ("", "none") else state


MISSING = NodeState("n/a", True, "slurmctld does not know it")


@dataclass(frozen=True)
class SlurmNodes(Resource):
    """Nodes that take jobs; those that somebody has drained stay drained and count as right.

    Args:
        nodes: NodeNames.
        seconds: how long to wait for slurmd on them to register.
    """

    kind: ClassVar[str] = "slurm-nodes"
    nodes: Tuple[str, ...]
    seconds: int = 60

    def name(self) -> str:
        """The node, or from which to which, and how many."""
        if len(self.nodes) == 1:
            return self.nodes[0]
        return "%s..%s (%d)" % (self.nodes[0], self.nodes[-1], len(self.nodes)) if self.nodes else ""

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node ready."""
        return dict.fromkeys(self.nodes, READY)

    def actual(self, context: Context) -> State:
        """Every node's state; nothing while slurmctld does not answer, or is not there yet."""
        try:
            # sinfo tries for half a minute to reach a slurmctld that is not there.
            found = node_states(context) if is_active(context, "slurmctld") else {}
        except ResourceFailed:
            found = {}
        if not found:
            return {}
        return {node: found.get(node, MISSING).words() for node in self.nodes}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Wait until every node is ready, and resume once those that were lost and answer again.

        Raises:
            ResourceFailed: some are not ready in time; the text names each with its state and what to try.
        """
        deadline = time.monotonic() + self.seconds
        resumed: Set[str] = set()
        while True:
            silence, found = "", {}
            try:
                found = node_states(context)
            except ResourceFailed as error:
                silence = str(error)
            late = {node: found.get(node, MISSING) for node in self.nodes}
            late = {node: one for node, one in late.items() if not one.is_right()}
            if not late and not silence:
                return
            # No waiting ends a drain: Slurm leaves it to somebody to resume the node.
            is_final = bool(late) and all(one.state in DRAINED for one in late.values())
            if is_final or time.monotonic() > deadline:
                raise ResourceFailed(silence or explain(late))
            back = {node for node, one in late.items() if is_back(one)} - resumed
            if back:
                context.run(["scontrol", "update", "NodeName=" + ",".join(sorted(back)), "State=RESUME"])
                resumed |= back
            time.sleep(POLL_SECONDS)


def is_back(node: NodeState) -> bool:
    """Whether a node is DOWN although slurmd answers, for a reason that is over with that."""
    is_over = node.reason in ("", "none") or node.reason.startswith(RESUMABLE)
    return node.state == "down" and node.answers and is_over


def explain(late: Dict[str, NodeState]) -> str:
    """Which nodes are not ready, why, and what to try: once per state, not once per node."""
    hints = {HINTS.get("drain" if one.state in DRAINED else one.state, "").replace("%s", node): None
             for node, one in sorted(late.items(), reverse=True)}  # fmt: skip
    nodes = "; ".join("%s: %s" % (node, one.words()) for node, one in list(late.items())[:20])
    more = " and %d more" % (len(late) - 20) if len(late) > 20 else ""  # noqa: PLR2004
    return "not ready: %s%s. %s" % (nodes, more, " ".join(hint for hint in hints if hint))


def node_states(context: Context) -> Dict[str, NodeState]:
    """All nodes that slurmctld knows.

    Raises:
        ResourceFailed: it does not answer.
    """
    return parse(context.must(["sinfo", "-N", "-h", "-o", "%N|%t|%E"], seconds=30))


def parse(shown: str) -> Dict[str, NodeState]:
    """The lines `NODE|STATE|REASON` of sinfo, one per node and partition; signs follow some states (sinfo(1))."""
    found = {}
    for line in shown.splitlines():
        name, state, reason = (line.strip() + "||").split("|")[:3]
        if state:
            found[name] = NodeState(re.sub(r"[^a-z/].*", "", state), "*" not in state, reason)
    return found
