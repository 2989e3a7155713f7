"""States and reasons of nodes in Slurm, with a repair for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from slurmfab.base.program_name import FAB
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.client.commands import PARTITION, update_nodes, update_partition
from slurmfab.on_hosts.agent.nodes.states import HEALTH, OURS, UNDER_WAY, flags

READY = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING"}  # states of a node in service

HARMLESS = {"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "PLANNED", "RESERVED", "COMPLETING"}
"""Flags with which a node still takes jobs (scontrol(1), NODES - SHOW COMMAND: State)."""

ASLEEP = {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"}
"""Flags of a node that Slurm has switched off, or is switching off or on."""

LESS_THERE, SILENT, UNWELL = "less", "silent", "unwell"  # what `sign` tells

LESS = re.compile(r"Low (RealMemory|TmpDisk|CPUs|socket)|gres/\w+ count")
"""Reasons that slurmctld sets if a node registers with less hardware than slurm.conf says."""

FOR_NODES = (
    "Resources",
    "Priority",
    "Nodes required for job are DOWN, DRAINED or reserved",
    "ReqNodeNotAvail, May be reserved for other job",
)
"""How the reasons of jobs begin that start once other jobs have ended or started; the last two are also about nodes
that the scheduler keeps for jobs of partitions with a higher PriorityTier, which all others have."""

_LIMITS = ("QOS", "Assoc")  # how the reasons of jobs begin that a limit of accounting holds until other jobs have ended

_PASSING = ("Prolog", "Cleaning")
"""Reasons of jobs that have their nodes and start when these are made ready, or are put back into the queue."""

_NO_REASON = ("", "None")

_UNKNOWN_PARTITION = "Invalid partition name"
"""Slurm's error for a partition that slurmctld does not have (slurm_errno.h, ESLURM_INVALID_PARTITION_NAME)."""

_ROOT = "Invalid user id"
"""Slurm's error for a job of root where DisableRootJobs=YES (slurm_errno.h, ESLURM_USER_ID_MISSING)."""

LOGS = "see /var/log/slurm/slurmctld.log on the controller, and `sinfo -R`"
ANOTHER_USER = "name another user than root: slurm.conf has DisableRootJobs=YES, unless slurm_conf says otherwise"


def is_ready(node: Mapping[str, str]) -> bool:
    """Whether a node is in service: it takes jobs now, or when its present jobs have ended."""
    states = flags(node.get("State", "UNKNOWN"))
    return bool(states & READY) and states <= READY | HARMLESS


def sign(node: Mapping[str, str]) -> str:
    """What keeps a node out of service, as a word of `resting`; empty where that is something else."""
    states, reason = flags(node.get("State", "UNKNOWN")), node.get("Reason", "")
    if has_less(node) or states & {"INVAL", "INVALID_REG"}:
        return LESS_THERE
    if states & {"NOT_RESPONDING", "UNKNOWN"} or ("DOWN" in states and reason.startswith("Not responding")):
        return SILENT
    return UNWELL if reason.startswith(HEALTH) else ""


def has_less(node: Mapping[str, str]) -> bool:
    """Whether Slurm took a node out of service because it registered with less hardware than slurm.conf says."""
    return bool(LESS.search(node.get("Reason", "")))


def complaint(name: str, node: Mapping[str, str], acceptance: str) -> str:
    """Why a node takes no jobs, with the repair (`acceptance` for hardware other than the lock's); empty if it does."""
    if is_ready(node):
        return ""
    state, reason = node.get("State", "UNKNOWN"), node.get("Reason", "")
    author = f" [{node['ReasonBy']}@{node['ReasonSince']}]" if node.get("ReasonSince") else ""
    text = f"its state in Slurm is {state}"
    text += f", with the reason “{reason}{author}”." if reason else ", without a reason."
    return f"{text} {advice(name, flags(state), reason, acceptance)}"


def advice(name: str, states: Set[str], reason: str, acceptance: str) -> str:
    """The meaning of a state with Slurm's reason, and the repair (`acceptance` for other hardware)."""
    resume = " ".join(update_nodes([name], "State=RESUME"))
    otherwise = f"Repair: {resume}; if the state comes back, see /var/log/slurm/slurmctld.log on the controller"
    return next((text for holds, text in _rules(name, states, reason, acceptance, resume) if holds), otherwise)


def _rules(name: str, states: Set[str], reason: str, acceptance: str, resume: str) -> tuple[tuple[bool, str], ...]:
    """Pairs of condition and advice; the first true one counts. Arguments as for `advice`; `resume` is a command."""
    is_drained = bool(states & {"DRAIN", "DRAINED", "DRAINING"})
    return (
        (
            bool(LESS.search(reason)),
            "The node has less than slurm.conf says: memory, CPUs or devices are missing. "
            f"Repair: fix the hardware, then {resume}; or, if the change is intended: {acceptance}",
        ),
        (
            bool(states & {"INVAL", "INVALID_REG"}),
            f"The hardware that the node reports does not match slurm.conf. Repair: {deploy(name)}",
        ),
        (
            "NOT_RESPONDING" in states or reason.startswith("Not responding"),
            "slurmctld gets no answer from its slurmd: slurmd is down, a firewall blocks it, or the node was cut off, "
            "and slurmctld, which rarely asks nodes that it has set down, has not asked it again. "
            f"Repair: {deploy(name)}; if slurmd runs there, see the checks of the group `network`, and slurmd.log",
        ),
        ("UNKNOWN" in states, f"Its slurmd has not registered since slurmctld started. Repair: {deploy(name)}"),
        (
            reason.startswith(HEALTH) and is_drained,
            "Its own health check has drained it. Repair: fix the problem; the node returns to service by "
            f"itself some minutes later, or with {FAB} resume {name}; without `health` in the file: {FAB} deploy",
        ),
        (
            "unexpectedly rebooted" in reason,
            f"The node rebooted unexpectedly while it was in service. Repair: {resume}",
        ),
        (
            reason.startswith(OURS) and is_drained,
            f"slurmfab has drained it, for somebody or for a run. Repair: when the cause is fixed, {FAB} resume {name}",
        ),
        (is_drained, f"An admin or Slurm itself has drained it. Repair: when the cause is fixed, {resume}"),
        (
            bool(states & (UNDER_WAY | ASLEEP)),
            "It is rebooting, powering up or down, or in maintenance. Repair: wait until it is back",
        ),
    )


def real_reason(shown: str) -> str:
    """The reason of the first job that squeue showed; empty for a job that Slurm has not considered, or that ran."""
    first = shown.strip().partition("\n")[0].strip().replace("_", " ")
    return "" if first in _NO_REASON else first


def is_for_nodes(reason: str) -> bool:
    """Whether a job waits only for nodes that others use or that are being made ready, or was not considered yet."""
    return not reason or reason in _PASSING or reason.startswith(FOR_NODES)


def is_limit(reason: str) -> bool:
    """Whether a limit holds the job, such as `QOSGrpCpuLimit` or `AssocMaxJobsLimit`."""
    return reason.startswith(_LIMITS)


def limited(names: str) -> str:
    """A shell command that prints the IDs of jobs that a limit holds; `names` prints ID and reason, one a line."""
    return f"{names} | sed -nE 's/^([0-9_]+) ({'|'.join(_LIMITS)}).*/\\1/p'"


def repair_of(partition: str, message: str) -> str:
    """What to try when Slurm does not run a job. `message`: Slurm's error, or the reason why the job waits."""
    if message.startswith("PartitionDown") or "Required partition not available" in message:
        return " ".join(update_partition(partition, "State=UP"))
    if partition == PARTITION and _UNKNOWN_PARTITION in message:
        return f"{FAB} deploy, which adds the partition {PARTITION} to slurm.conf"
    return ANOTHER_USER if _ROOT in message else LOGS
