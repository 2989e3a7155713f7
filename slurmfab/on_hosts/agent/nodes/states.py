"""Node states and reasons, parsed from `scontrol --oneliner show node`.

That format is the same from Slurm 22.05 to 26.05, whereas Slurm's JSON changes with each release. The agent uses this
module on the controller to change nodes, and the deployer uses it for reports.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import ClassVar, Dict, FrozenSet, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.listing import first_of
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State

UPDATE_SECONDS = 60.0  # time limit of one `scontrol update`
POLL_SECONDS = (0.1, 0.2, 0.5)  # seconds between polls of nodes, the last one repeated; most nodes are ready at once

NODES_PER_UPDATE = 2000
"""Highest number of nodes in one `scontrol update`: an argument has at most 128 KiB (execve(2), MAX_ARG_STRLEN)."""

UNKNOWN_NODE = "slurmctld does not know it"

NAMED_NODES = 4  # up to this number of nodes, an id lists each one
MOST_TWICE = 100  # nodes about which slurmctld is asked alone
LISTED_NODES = 20  # number of nodes whose states an error lists
OURS = "slurmfab: "  # prefix of the reasons that slurmfab sets
HEALTH = OURS + "health: "  # prefix of the reasons that a node's health check sets

SLURMS_OWN = (
    "Low ", "gres/", "Duplicate jobid", "Kill task failed", "Prolog error", "Epilog error", "batch job complete fail",
    "Not responding", "Node unexpectedly rebooted", "ResumeTimeout reached", "reboot timed out",
)  # fmt: skip
"""Prefixes of the reasons that slurmctld sets, or slurmd as root (from Slurm's source)."""

SLURM_USER = "slurm"  # the author that Slurm shows for reasons set by slurmctld itself

SIGNS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWERING_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip
"""Signs at the end of a state, which stand for flags (sinfo(1), NODE STATE CODES)."""

OUT_OF_SERVICE = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "NOT_RESPONDING", "INVAL",
    "INVALID_REG", "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWER_DOWN", "POWERING_DOWN", "MAINTENANCE", "MAINT",
})  # fmt: skip
"""States and flags with which a node gets no new jobs."""

REASONED = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINTENANCE", "MAINT"})
"""States and flags that a person sets with a reason."""

UNDER_WAY = frozenset({
    "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWER_DOWN", "POWERING_DOWN", "POWERING_UP", "MAINTENANCE", "MAINT",
})  # fmt: skip
"""Flags of a node that is temporarily away on request."""

FOR_CHANGE = "drained by a deployment for a change of "
"""Prefix of the text with which a deployment drains nodes for a change that would harm their jobs."""

ACCEPTANCE_FAILED = "acceptance failed: "
"""Prefix of the text with which nodes are drained on which slurmfab's test job failed."""

FOR_UPDATE = "drained for a system update"  # the text with which an update drains nodes

# Texts, not compiled patterns: re caches those that are used, and most requests use none.
_FIELD = r"(?:^|\s+)([A-Z][\w:/]*)="
_REASON = r"(.*) \[([^\[\]@]*)@(\d{4}-\d\d-\d\dT[\d:]+)\]"
_AFTER_REASON = r" (?:Comment|Extra|ReservationName|InstanceId|InstanceType)=.*"
_OUR_REASON = OURS + r"(.*?)(?: \((\S+@\S+) \d{4}-\d\d-\d\dT\d\d:\d\d\)(?: : .*)?)?"
_STAMP = r" \(\S+@\S+ \d{4}-\d\d-\d\dT\d\d:\d\d\)(?: : (?:Not responding|Node unexpectedly rebooted).*)?"
"""A stamp, also with a reason of Slurm's behind it that no longer applies once the node answers."""

_FOR_CHANGE = OURS + FOR_CHANGE + r".*" + _STAMP
_FOR_UPDATE = OURS + FOR_UPDATE + _STAMP  # the reasons of a deployment and of an update

_OF_HEALTH = HEALTH + r"(?!.* \(\S+@\S+ \d{4}-\d\d-\d\dT\d\d:\d\d\))(?:(?! : ).)*(?: : Not responding.*)?"
"""A health check's reason, also with Slurm's `Not responding` behind it; not a user's reason with the same text."""


class NodeState(NamedTuple):
    """A node's state, and the reason if it was taken out of service."""

    flags: FrozenSet[str]  # the state and its flags in Slurm's long form, such as `IDLE`, `DRAIN` and `NOT_RESPONDING`
    reason: str = ""  # as Slurm has it, empty for none
    by: str = ""  # the author of the reason, as Slurm has it; for slurmfab's reasons, the person who ran slurmfab
    since: str = ""  # when the reason was set, as in `2026-11-21T09:00:00`

    @property
    def is_in_service(self) -> bool:
        """Whether the node gets new jobs."""
        return not self.flags & OUT_OF_SERVICE

    @property
    def is_under_way(self) -> bool:
        """Whether the node is being rebooted, powered down or maintained, and comes back by itself."""
        return bool(self.flags & UNDER_WAY) and not self.flags & {"DOWN", "DRAIN", "DRAINED", "DRAINING"}

    @property
    def is_drained(self) -> bool:
        """Whether the node is drained, or will be when its jobs have ended."""
        return bool(self.flags & {"DRAIN", "DRAINED", "DRAINING"})

    @property
    def answers(self) -> bool:
        """Whether the node's slurmd has registered and answers."""
        return not self.flags & {"NOT_RESPONDING", "UNKNOWN"}

    @property
    def is_ours(self) -> bool:
        """Whether slurmfab set the reason."""
        return self.reason.startswith(OURS)

    @property
    def is_for_change(self) -> bool:
        """Whether a deployment drained the node for a change, as its state shows, and nobody gave another reason."""
        return self.is_drained and bool(re.fullmatch(_FOR_CHANGE, self.reason))

    @property
    def is_for_update(self) -> bool:
        """Whether an update drained the node, and nobody has added another reason since."""
        return self.is_drained and bool(re.fullmatch(_FOR_UPDATE, self.reason))

    @property
    def has_failed_acceptance(self) -> bool:
        """Whether the node is drained because slurmfab's test job failed there."""
        return self.is_drained and self.reason.startswith(OURS + ACCEPTANCE_FAILED)

    @property
    def is_for_health(self) -> bool:
        """Whether the node's health check drained it, and nobody has added another reason since."""
        return self.is_drained and bool(re.fullmatch(_OF_HEALTH, self.reason))

    @property
    def is_set_by_person(self) -> bool:
        """Whether a person took the node out of service without slurmfab.

        From Slurm 24.11 on a reason is kept when the node is resumed, and Slurm appends later findings to it (`broken
        fan : Not responding`). So a DOWN node belongs to Slurm if slurmctld set its reason; a drained node belongs to
        the author of the first part.
        """
        is_slurms = self.reason.startswith(SLURMS_OWN) or bool(self.flags & {"INVAL", "INVALID_REG"})
        if not self.reason or self.is_ours or is_slurms:
            return False
        return self.is_drained or (bool(self.flags & {"DOWN", "FAIL"}) and self.by != SLURM_USER)

    @property
    def description(self) -> str:
        """The state and its flags, in lower case: `idle, drain`."""
        base = [word for word in BASES if word in self.flags]
        return ", ".join([*base, *sorted(self.flags - set(base))]).lower().replace("_", " ")

    @property
    def with_reason(self) -> str:
        """`idle, drain (broken fan)`; from Slurm 24.11 on a reason stays after a resume, and tells nothing then."""
        is_old = not self.flags & REASONED and not self.reason.startswith(SLURMS_OWN)
        return self.description if is_old or not self.reason else "%s (%s)" % (self.description, self.reason)


BASES = ("DOWN", "ERROR", "FUTURE", "UNKNOWN", "IDLE", "MIXED", "ALLOCATED")
"""The base states, of which a node has one; all others are flags."""


class NodesResource(Resource):
    """Nodes in one state; the base class of resources that the controller has for nodes."""

    goal: ClassVar[str] = ""  # the wanted state of each node
    nodes: Tuple[str, ...]  # NodeNames

    def name(self) -> str:
        """The nodes."""
        return short_name(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every node in that state."""
        return dict.fromkeys(self.nodes, self.goal)

    def actual(self, context: Context) -> State:
        """Every node's state, in the form that `wanted` has."""
        found = node_states(context, self.nodes)
        return {node: self.compared_state(found[node]) if node in found else UNKNOWN_NODE for node in self.nodes}

    def compared_state(self, state: NodeState) -> str:
        """A node's state for the comparison with `wanted`."""
        raise NotImplementedError


def node_states(context: Context, nodes: Sequence[str]) -> Dict[str, NodeState]:
    """The states of nodes by NodeName, without unknown ones; ResourceFailed if slurmctld does not answer."""
    found = {record["NodeName"]: state_of(record) for record in records(shown_nodes(context, UPDATE_SECONDS))}
    return {node: found[node] for node in nodes if node in found}


def short_states(context: Context) -> Dict[str, NodeState]:
    """States and reasons of all nodes by the cheapest query, without some flags; ResourceFailed without an answer."""
    return states_from(commands.node_reasons().ask(context, seconds=30))


def states_from(rows: Iterable[Sequence[str]]) -> Dict[str, NodeState]:
    """States from name, state, reason and its author of nodes, as sinfo(1) has them; a node may have several rows."""
    return {name: short_state(*rest) for name, *rest in rows}


def short_state(state: str, reason: str, by: str) -> NodeState:
    """A node's state from sinfo's fields; the author tells nothing where there is no reason."""
    return NodeState(flags(state.upper())) if reason == "none" else NodeState(flags(state.upper()), reason, by)


def shown_nodes(context: Context, seconds: float) -> str:
    """What `scontrol --oneliner show node` prints, with one line for each node; ResourceFailed without an answer.

    A node's line has texts of its slurmd, such as the version of its kernel (`OS`). With a line break, such a text can
    look like another node's line. slurmctld is asked again for each node that has two, about that node alone.
    """
    shown = context.must(commands.show_nodes(), seconds=seconds)
    twice = sorted(told_twice(shown))[:MOST_TWICE]
    for name in twice:
        alone = context.run(commands.show_nodes(name), seconds=seconds).stdout.decode(errors="replace")
        shown = "\n".join([*(line for line in shown.split("\n") if node_name(line) != name), alone.partition("\n")[0]])
    return shown


def told_twice(shown: str) -> FrozenSet[str]:
    """The nodes that have more than one line."""
    names = Counter(filter(None, map(node_name, shown.split("\n"))))
    return frozenset(name for name, lines in names.items() if lines > 1)


def node_name(line: str) -> str:
    """The node of a line; empty for another line."""
    found = re.match(r"NodeName=(\w[\w.-]*)(?:\s|$)", line)
    return found[1] if found else ""


def records(shown: str) -> List[Dict[str, str]]:
    """Fields of each node in `scontrol --oneliner show node`, with `Reason` as the text that it is.

    A node that has more than one line (`shown_nodes` says why) is left out: one of them is not slurmctld's.
    """
    twice = told_twice(shown)
    lines = (line for line in shown.split("\n") if line.startswith("NodeName="))
    return [record(line) for line in lines if node_name(line) not in twice]


def record(line: str) -> Dict[str, str]:
    """The fields of one line, by name."""
    head, _, tail = line.partition(" Reason=")
    parts = re.split(_FIELD, head.rstrip())
    fields: Dict[str, str] = {}
    for name, value in zip(parts[1::2], parts[2::2]):  # noqa: B905 - zip(strict=) is Python 3.10's
        fields.setdefault(name, value)
    if tail:
        match = re.match(_REASON, tail)
        fields["Reason"] = match[1] if match else re.sub(_AFTER_REASON, "", tail).strip()
        fields["ReasonBy"], fields["ReasonSince"] = (match[2], match[3]) if match else ("", "")
    return fields


def state_of(fields: Dict[str, str]) -> NodeState:
    """The state of a node from its fields."""
    reason, by = fields.get("Reason", ""), fields.get("ReasonBy", "")
    found_flags = flags(fields.get("State", "UNKNOWN"))
    return NodeState(found_flags, reason, parse_reason(reason).author or by, fields.get("ReasonSince", ""))


def flags(state: str) -> FrozenSet[str]:
    """Split a state into base state and flags: `IDLE*+DRAIN` is IDLE, NOT_RESPONDING and DRAIN."""
    found_flags = set()
    for word in state.split("+"):
        base = word.rstrip("".join(SIGNS))
        found_flags |= {base, *(SIGNS[sign] for sign in word[len(base) :])}
    return frozenset(found_flags - {""})


def our_reason(text: str, stamp: str) -> str:
    """The reason that slurmfab sets. `stamp`: who and when, as in `ann@laptop 2026-11-21T09:00`."""
    return "%s%s (%s)" % (OURS, text, stamp)


class Reason(NamedTuple):
    """A node's reason without slurmfab's marks."""

    text: str  # the user's text, or the findings of the health check; another program's reason is left as it is
    author: str  # `ann@laptop`, or `health check`; empty for a reason that slurmfab has not set


def parse_reason(reason: str) -> Reason:
    """Split a node's reason into text and author. `reason`: as Slurm has it."""
    if re.fullmatch(_OF_HEALTH, reason):
        return Reason(reason[len(HEALTH) :].partition(" : ")[0], "health check")
    match = re.fullmatch(_OUR_REASON, reason)
    return Reason(match[1], match[2] or "") if match else Reason(reason, "")


def poll_intervals() -> Iterator[float]:
    """Seconds to wait after the first poll, the second, and so on without end."""
    return itertools.chain(POLL_SECONDS, itertools.repeat(POLL_SECONDS[-1]))


def short_name(nodes: Sequence[str]) -> str:
    """Nodes for an id: a few are listed, of many the first and the last are named."""
    return ",".join(nodes) if len(nodes) <= NAMED_NODES else "%s..%s (%d)" % (nodes[0], nodes[-1], len(nodes))


def format_states(late: Mapping[str, NodeState]) -> str:
    """States with reasons, such as `n1: down; n2: idle, drain (broken fan)`; of many nodes the first ones."""
    return "; ".join(first_of(("%s: %s" % (node, state.with_reason) for node, state in late.items()), LISTED_NODES))


def update(context: Context, nodes: Sequence[str], *settings: str) -> str:
    """Change nodes by `scontrol update`. Returns Slurm's errors, empty for none."""
    complaints = []
    for first in range(0, len(nodes), NODES_PER_UPDATE):
        command = commands.update_nodes(nodes[first : first + NODES_PER_UPDATE], *settings)
        done = context.run(command, seconds=UPDATE_SECONDS)
        if done.returncode != 0:
            complaints.append((done.stderr or done.stdout).decode(errors="replace").strip())
    return "; ".join(complaints)
