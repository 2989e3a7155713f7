"""Compute nodes as the controller sees them: ready for jobs, or deliberately out of service."""

from __future__ import annotations

import time
from typing import ClassVar, Dict, List, Mapping, Set, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, OtherHostsFailed, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import (
    SLURMS_OWN,
    UNKNOWN_NODE,
    NodesResource,
    NodeState,
    format_states,
    poll_intervals,
    short_states,
)
from slurmfab.on_hosts.agent.services.service import is_active

READY = "ready"

NOT_READY = {"DOWN", "UNKNOWN", "FAIL", "FAILING", "ERROR", "INVAL", "N/A"}
"""States of sinfo(1) in which a node runs no new jobs although nobody asked for that."""

SILENT = "Not responding"  # the reason that slurmctld gives to nodes that it sets down for their silence

RESUMABLE = (SILENT, "Node unexpectedly rebooted")
"""Prefixes of reasons for DOWN that no longer apply when slurmd answers again (ReturnToService, slurm.conf(5))."""

LESS_HARDWARE = ("Low ", "gres/")
"""Prefixes of Slurm's reasons for a node that registered with less hardware than slurm.conf says.

They stay when slurm.conf is corrected. Until the node has registered with the new one it is INVAL, and Slurm does not
resume it.
"""

SETTLED_SECONDS = 15.0
"""Seconds after which only a node that does not answer can still become ready: slurmd registers when it has started."""

TELL_SECONDS = 3.0  # seconds of waiting after which the user is told what is waited for, and then at most so often

ACCEPTS = (
    "slurmctld has waited for it for %.0f s. Its slurmd accepts connections: does it hang, or can it not reach the "
    "controller's SlurmctldPort?"
)
"""What is known of a node that does not answer although its port accepts connections, after that many seconds."""

SEE_LOG = "See /var/log/slurmd/slurmd.log there"
"""What to try where slurmd itself may say why its node is not ready; the deployer puts slurmd's words in its place."""

WHEN_FIXED = "When the reason is fixed: " + FAB + " resume %s"
HINTS = {
    "DRAIN": WHEN_FIXED,
    "INVAL": "It registered with less hardware than slurm.conf says. If nothing of it is missing, slurmd counts its "
    "processors otherwise than the kernel (`slurmd -C`), as where there are efficiency cores: " + FAB + " deploy takes "
    "slurmd's count and puts the node back, if the cluster file itself does not say more; with slurm_conf: "
    "{SlurmdParameters: allow_ecores}, slurmd counts these cores, too",
    "N/A": "slurmctld ignores nodes whose names do not resolve when it starts; see slurmctld.log",
    "DOWN": WHEN_FIXED,
    "FAIL": WHEN_FIXED,
}
"""What to try with a node that answers, or that a person took out of service; the first matching entry applies."""

LEFT_TO_A_PERSON = "out of service until a person resumes"
"""The name in a state for nodes that no deployment resumes: a person, or Slurm for a reason that a person has to judge,
has taken them out of service."""

LEFT_DRAINED = "some are still drained by a deployment that was interrupted"
"""The remark on nodes that an interrupted deployment has not resumed."""

MISSING = NodeState(frozenset({"N/A"}), UNKNOWN_NODE)


def is_right(node: NodeState) -> bool:
    """Whether a node runs jobs, or was drained by a person and not by Slurm itself."""
    if node.is_drained:
        return not node.reason.startswith(SLURMS_OWN)
    return node.answers and not node.flags & NOT_READY


class SlurmNodes(NodesResource):
    """Nodes that run jobs; a node that a person has drained stays drained and counts as right."""

    kind: ClassVar[str] = "slurm-nodes"
    goal: ClassVar[str] = READY
    seconds: int = 60  # how long to wait until their slurmd has registered
    # Whether nodes have a health check, which resumes those that it has drained; without one they are resumed here.
    has_health: bool = True

    def actual(self, context: Context) -> State:
        """Every node's state, with a remark on those left drained; empty while slurmctld is silent or missing.

        What only a person resumes stands apart in a comparison, which so promises nothing about it.
        """
        try:
            # sinfo retries for half a minute if slurmctld does not run.
            can_answer = is_active(context, "slurmctld") and not context.starting & {"slurmctld", "munge"}
            found = short_states(context) if can_answer else {}
        except ResourceFailed as error:
            found, context.remark = {}, "slurmctld did not answer: %s" % error
        if not found:
            return {}
        if any(one.is_for_change for one in found.values()):
            context.remark = LEFT_DRAINED
        states = {node: found.get(node, MISSING) for node in self.nodes}
        left = {node: one for node, one in states.items() if context.dry_run and self.is_left_to_a_person(one)}
        ready = {node: READY if node in left or self.is_right(one) else one.with_reason for node, one in states.items()}
        return {**ready, LEFT_TO_A_PERSON: format_states(left) or None}

    def wanted(self, context: Context) -> State:
        """Every node ready, and none that a person has to resume."""
        return {**super().wanted(context), LEFT_TO_A_PERSON: None}

    def is_left_to_a_person(self, node: NodeState) -> bool:
        """Whether a node is out of service, and neither waiting nor a deployment changes that."""
        is_resumed = is_back(node) or (node.answers and self.is_left_by_health(node))
        return not self.is_right(node) and not is_resumed and (node.is_drained or node.is_set_by_person)

    def is_right(self, node: NodeState) -> bool:
        """Whether a node is right, and not one that a former health check has drained."""
        return is_right(node) and not self.is_left_by_health(node)

    def is_left_by_health(self, node: NodeState) -> bool:
        """Whether a health check drained a node that nothing resumes any more."""
        return not self.has_health and node.is_for_health

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Wait until every node is ready, or its state will not change by waiting; resume once those that are back.

        Raises:
            ResourceFailed: slurmctld does not answer.
            OtherHostsFailed: some are not ready; with each one's state and reason, what was tried and what to try.
        """
        wait = Wait(context, self)
        for rest in poll_intervals():
            late = wait.late()
            if not late and not wait.silence:
                return
            if not wait.has_hope(late):
                if wait.silence:
                    raise ResourceFailed(wait.silence)
                raise OtherHostsFailed({node: wait.explain(node, one) for node, one in sorted(late.items())})
            wait.resume_those_back(late)
            wait.tell(late)
            time.sleep(rest)


class Wait:
    """Waiting for nodes to become ready; `silence` is why slurmctld did not answer at last, or empty."""

    def __init__(self, context: Context, wanted: SlurmNodes) -> None:
        self.context = context
        self.wanted = wanted
        self.begun = time.monotonic()
        self.silence = ""
        self.resumed: Set[str] = set()
        self.told: Tuple[float, Set[str]] = (0.0, set())
        self.refusing: Dict[str, str] = {}
        self.is_probed = False

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return time.monotonic() - self.begun

    def late(self) -> Dict[str, NodeState]:
        """The nodes that are not ready; all of them while slurmctld does not answer."""
        self.silence, found = "", {}
        try:
            found = short_states(self.context)
        except ResourceFailed as error:
            self.silence = str(error)
        states = {node: found.get(node, MISSING) for node in self.wanted.nodes}
        return {node: one for node, one in states.items() if not self.wanted.is_right(one)}

    def is_back(self, name: str, node: NodeState) -> bool:
        """Whether a node is out of service for a reason that no longer applies."""
        if node.answers and self.wanted.is_left_by_health(node):
            return True
        # slurmctld rarely asks a node that it has set down: one that was cut off may wait for half an hour.
        is_forgotten = "DOWN" in node.flags and not node.is_drained and node.reason.startswith(SILENT)
        return is_back(node) or (not node.answers and is_forgotten and self.is_probed and name not in self.refusing)

    def has_hope(self, late: Mapping[str, NodeState]) -> bool:
        """Whether waiting may help one of the nodes, or slurmctld if it does not answer."""
        if self.silence:
            return self.waited < self.wanted.seconds
        mute = [node for node, one in late.items() if not one.answers]
        if mute and self.waited >= SETTLED_SECONDS and not self.is_probed:
            from slurmfab.on_hosts.agent.nodes import connections  # most runs wait for nobody

            self.is_probed, self.refusing = True, connections.refusing(self.context, mute)
        return any(self.waited < self.patience(node, one) for node, one in late.items())

    def patience(self, node: str, state: NodeState) -> float:
        """The seconds for which a node in this state may still become ready by itself."""
        if self.is_back(node, state) and node not in self.resumed:
            return self.wanted.seconds
        if state.is_drained or state.is_set_by_person:
            return 0.0
        return SETTLED_SECONDS if state.answers or node in self.refusing else self.wanted.seconds

    def resume_those_back(self, late: Mapping[str, NodeState]) -> None:
        """Resume nodes whose reason no longer applies, each of them once."""
        back = {node for node, one in late.items() if self.is_back(node, one)} - self.resumed
        if back:
            self.context.run(commands.update_nodes(sorted(back), "State=RESUME"))
            self.resumed |= back

    def tell(self, late: Mapping[str, NodeState]) -> None:
        """Tell what is waited for, if that takes long and was not told yet."""
        at, nodes = self.told
        ends = {node: self.patience(node, one) for node, one in late.items()}
        awaited = [node for node, end in ends.items() if self.waited < end]
        if self.waited - at < TELL_SECONDS or (not self.silence and nodes >= set(awaited)):
            return
        self.told = self.waited, nodes | set(awaited)
        what = "slurmctld" if self.silence else format_states({node: late[node] for node in awaited})
        seconds = self.wanted.seconds if self.silence else max(ends.values())
        self.context.tell("waiting up to %.0f s for %s" % (seconds, what))

    def explain(self, node: str, state: NodeState) -> str:
        """A node's state and reason, what was tried, and what to try."""
        author = ", set by %s" % state.by if state.is_set_by_person and state.by else ""
        parts: List[str] = ["%s%s" % (state.with_reason, author)]
        if not state.answers and not state.is_set_by_person:
            parts.append(self.refusing.get(node) or ACCEPTS % self.waited)
        elif node in self.resumed:
            parts.append("It was resumed once, and Slurm took it out of service again")
        parts.append(hint(node, state))
        if not state.is_set_by_person and not state.flags & {"INVAL", "N/A"}:
            parts.append(SEE_LOG)
        return " ".join(part if part.endswith("?") else part + "." for part in parts if part)


def is_back(node: NodeState) -> bool:
    """Whether a node is out of service although slurmd answers, for a reason that no longer applies."""
    if not node.answers or "INVAL" in node.flags:
        return False
    if node.reason.startswith(LESS_HARDWARE):
        return "DOWN" in node.flags or node.is_drained
    is_over = not node.reason or node.reason.startswith(RESUMABLE)
    return "DOWN" in node.flags and not node.is_drained and is_over


def hint(name: str, node: NodeState) -> str:
    """What to try with a node that is not ready; empty if no hint applies."""
    if not node.answers and not node.is_set_by_person:
        return ""
    states = node.flags | ({"DRAIN"} if node.is_drained else set())
    found = next((HINTS[state] for state in HINTS if state in states), "")
    command = name + " --any" if node.is_set_by_person else name
    return found.replace("%s", command)
