"""Compute nodes in the words of `scontrol --oneliner show node`: their state, and who took them out of service and why.

That form is the same from Slurm 22.05 to 26.05, where Slurm's JSON changes with each release. The controller reads it
when it changes a node, and the deployer when it tells people.
"""

from __future__ import annotations

import itertools
import re
from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Sequence, Tuple

from slurmfab.agent.resource import Context

SHOW = ("scontrol", "--all", "--details", "--oneliner", "show", "node")
"""Prints all nodes, one a line, with the generic resources in use."""

SHORT = ("sinfo", "-N", "-h", "-o", "%N|%T|%E")
"""Prints the state and the reason of all nodes, one a line for each of its partitions."""

UPDATE_SECONDS = 60.0
"""How long one `scontrol update` may take."""

PAUSES = (0.1, 0.2, 0.5)
"""Seconds between looks at nodes: most are ready at once, and it is no small question on a large cluster."""

AT_ONCE = 2000
"""How many nodes one `scontrol update` names: an argument has at most 128 KiB (execve(2), MAX_ARG_STRLEN)."""

FEW = 4
"""How many nodes an id names one by one."""

OURS = "slurmfab: "
"""How the reasons begin that slurmfab sets."""

HEALTH = OURS + "health: "
"""How the reasons begin that a node's own health check sets."""

SLURMS_OWN = (
    "Low ", "gres/", "Duplicate jobid", "Kill task failed", "Prolog error", "batch job complete fail",
    "Not responding", "Node unexpectedly rebooted", "ResumeTimeout reached", "reboot timed out",
)  # fmt: skip
"""How the reasons begin that Slurm itself sets, as slurmctld or by slurmd, which is root (Slurm's source)."""

SLURM_USER = "slurm"
"""The user whom reasons are by that slurmctld sets itself."""

SIGNS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWERING_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip
"""Signs behind a state that are short forms of flags (sinfo(1), NODE STATE CODES)."""

OUT_OF_SERVICE = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "NOT_RESPONDING", "INVAL",
    "INVALID_REG", "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWER_DOWN", "POWERING_DOWN", "MAINTENANCE", "MAINT",
})  # fmt: skip
"""States and flags with which a node is given no new jobs."""

UNDER_WAY = frozenset({
    "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWER_DOWN", "POWERING_DOWN", "POWERING_UP", "MAINTENANCE", "MAINT",
})  # fmt: skip
"""Flags of a node that is away because somebody asked for it, and for a time."""

FOR_CHANGE = " needs it empty"
"""How the texts end with which a deployment drains nodes for a change that would hurt their jobs."""

# Python keeps patterns that were used; those that no request needs are never compiled.
_FIELD = r"(?:^|\s+)([A-Z][\w:/]*)="
_REASON = r"(.*) \[([^\[\]@]*)@(\d{4}-\d\d-\d\dT[\d:]+)\]"
_AFTER_REASON = r" (?:Comment|Extra|ReservationName|InstanceId|InstanceType)=.*"
_OUR_REASON = OURS + r"(.*?)(?: \((\S+@\S+) \d{4}-\d\d-\d\dT\d\d:\d\d\)(?: : .*)?)?"
_FOR_CHANGE = (
    OURS + r".*" + FOR_CHANGE + r" \(\S+@\S+ \d{4}-\d\d-\d\dT\d\d:\d\d\)"
    r"(?: : (?:Not responding|Node unexpectedly rebooted).*)?"
)
"""A reason of a deployment's, also with what Slurm has put behind it if that is over once the node answers."""

_OF_HEALTH = HEALTH + r"(?!.* \(\S+@\S+ \d{4}-\d\d-\d\dT\d\d:\d\d\))(?:(?! : ).)*(?: : Not responding.*)?"
"""Likewise of a health check's, and not of somebody who has used the same words."""


class NodeState(NamedTuple):
    """A node's state, and the reason that it has if it was taken out of service.

    Args:
        flags: the state and its flags in Slurm's long words, such as `IDLE`, `DRAIN` and `NOT_RESPONDING`.
        reason: as Slurm has it, empty for none.
        by: the user who set the reason, as Slurm has it; of ours, who asked slurmfab for it.
        since: when that was, as in `2026-11-21T09:00:00`.
    """

    flags: FrozenSet[str]
    reason: str = ""
    by: str = ""
    since: str = ""

    @property
    def is_in_service(self) -> bool:
        """Whether the node is given new jobs."""
        return not self.flags & OUT_OF_SERVICE

    @property
    def is_under_way(self) -> bool:
        """Whether it is being restarted, powered down or maintained, and comes back by itself."""
        return bool(self.flags & UNDER_WAY) and not self.flags & {"DOWN", "DRAIN", "DRAINED", "DRAINING"}

    @property
    def is_drained(self) -> bool:
        """Whether it is, or will be when its jobs are done, drained."""
        return bool(self.flags & {"DRAIN", "DRAINED", "DRAINING"})

    @property
    def answers(self) -> bool:
        """Whether its slurmd has registered and answers."""
        return not self.flags & {"NOT_RESPONDING", "UNKNOWN"}

    @property
    def is_ours(self) -> bool:
        """Whether slurmfab gave the reason."""
        return self.reason.startswith(OURS)

    @property
    def is_for_change(self) -> bool:
        """Whether a deployment has drained it for a change, and nobody has found another reason since.

        The reason alone does not tell: from 24.11 it stays when the node is resumed.
        """
        return self.is_drained and bool(re.fullmatch(_FOR_CHANGE, self.reason))

    @property
    def is_for_health(self) -> bool:
        """Whether its own health check has drained it, and nobody has found another reason since."""
        return self.is_drained and bool(re.fullmatch(_OF_HEALTH, self.reason))

    @property
    def is_somebodys(self) -> bool:
        """Whether a person took it out of service, without slurmfab.

        From 24.11 a reason stays when the node is resumed, and what Slurm finds later is put behind it (`broken fan :
        Not responding`). So a node that is only down, by slurmctld's own word, is Slurm's, and a drained one is the
        person's who gave the first part.
        """
        is_slurms = self.reason.startswith(SLURMS_OWN) or bool(self.flags & {"INVAL", "INVALID_REG"})
        if not self.reason or self.is_ours or is_slurms:
            return False
        return self.is_drained or (bool(self.flags & {"DOWN", "FAIL"}) and self.by != SLURM_USER)

    @property
    def words(self) -> str:
        """The state and its flags, in lower case: `idle, drain`."""
        base = [word for word in BASES if word in self.flags]
        return ", ".join([*base, *sorted(self.flags - set(base))]).lower().replace("_", " ")


BASES = ("DOWN", "ERROR", "FUTURE", "UNKNOWN", "IDLE", "MIXED", "ALLOCATED")
"""The states proper, of which a node has one; the rest are flags."""


def node_states(context: Context, nodes: Sequence[str]) -> Dict[str, NodeState]:
    """The states of those of the nodes that slurmctld knows.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    found = {record["NodeName"]: state_of(record) for record in records(context.must(SHOW, seconds=UPDATE_SECONDS))}
    return {node: found[node] for node in nodes if node in found}


def short_states(context: Context) -> Dict[str, NodeState]:
    """The states and reasons of all nodes that slurmctld knows, by what costs it least; flags show only in part.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    return short_form(context.must(SHORT, seconds=30))


def short_form(shown: str) -> Dict[str, NodeState]:
    """The lines `NODE|STATE|REASON` of sinfo(1), one per node and partition."""
    lines = (line.strip().split("|", 2) for line in shown.splitlines() if line.count("|") > 1)
    return {name: NodeState(flags(state.upper()), "" if reason == "none" else reason) for name, state, reason in lines}


def records(shown: str) -> List[Dict[str, str]]:
    """The nodes in what `scontrol --oneliner show node` prints, each with its fields by name.

    `Reason` is free text and may hold what looks like other fields, so it is cut off first; `ReasonBy` and
    `ReasonSince` are made of its end.
    """
    return [record(line) for line in shown.splitlines() if line.startswith("NodeName=")]


def record(line: str) -> Dict[str, str]:
    """The fields of one line."""
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
    """The state in a node's fields."""
    reason, by = fields.get("Reason", ""), fields.get("ReasonBy", "")
    words = flags(fields.get("State", "UNKNOWN"))
    return NodeState(words, reason, said(reason)[1] or by, fields.get("ReasonSince", ""))


def flags(state: str) -> FrozenSet[str]:
    """A state with its flags and signs as words: `IDLE*+DRAIN` is IDLE, NOT_RESPONDING and DRAIN."""
    words = set()
    for word in state.split("+"):
        base = word.rstrip("".join(SIGNS))
        words |= {base, *(SIGNS[sign] for sign in word[len(base) :])}
    return frozenset(words - {""})


def our_reason(text: str, stamp: str) -> str:
    """The reason that slurmfab sets.

    Args:
        text: what the user said.
        stamp: who and when, as in `ann@laptop 2026-11-21T09:00`.
    """
    return "%s%s (%s)" % (OURS, text, stamp)


def said(reason: str) -> Tuple[str, str]:
    """What the user said in a reason of ours, and who that was; the reason as it is, and nobody, for others."""
    if re.fullmatch(_OF_HEALTH, reason):
        return reason[len(HEALTH) :].partition(" : ")[0], "health check"
    match = re.fullmatch(_OUR_REASON, reason)
    return (match[1], match[2] or "") if match else (reason, "")


def pauses() -> Iterator[float]:
    """How long to wait after the first look, the second, and so on without an end."""
    return itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))


def named(nodes: Sequence[str]) -> str:
    """Nodes in an id: all of a few, the first and the last of many."""
    return ",".join(nodes) if len(nodes) <= FEW else "%s..%s (%d)" % (nodes[0], nodes[-1], len(nodes))


def update(context: Context, nodes: Sequence[str], *settings: str) -> str:
    """Change nodes by `scontrol update`.

    Args:
        context: the request's context.
        nodes: their names.
        settings: such as `State=DRAIN`.

    Returns:
        Slurm's complaint, empty when it had none.
    """
    complaints = []
    for first in range(0, len(nodes), AT_ONCE):
        names = ",".join(nodes[first : first + AT_ONCE])
        done = context.run(["scontrol", "update", "NodeName=" + names, *settings], seconds=UPDATE_SECONDS)
        if done.returncode != 0:
            complaints.append((done.stderr or done.stdout).decode(errors="replace").strip())
    return "; ".join(complaints)
