"""What Slurm says of a node, and what to do about each thing that it can be unhappy with."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurmfab.agent.node_states import HEALTH
from slurmfab.checks.wanted import deploy

READY = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING"}
HARMLESS = {"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "PLANNED", "RESERVED", "COMPLETING"}
"""Flags with which a node still takes jobs (scontrol(1), NODES - SHOW COMMAND: State)."""

LESS = re.compile(r"Low (RealMemory|TmpDisk|CPUs|socket)|gres/\w+ count")
"""Reasons that slurmctld gives when a node registers with less than slurm.conf says."""

_SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWERING_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_ISSUED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""Signs behind a state that are a short form of a flag (sinfo(1), NODE STATE CODES)."""


def record(text: str) -> dict[str, str]:
    """The fields of one line of `scontrol --oneliner show node`; values may hold spaces."""
    return {key: value.strip() for key, value in re.findall(r"(\w+)=(.*?)(?=\s+\w+=|\s*$)", text)}


def flags(state: str) -> set[str]:
    """A node's state as words: `IDLE*+DRAIN` is IDLE, NOT_RESPONDING and DRAIN."""
    words = set()
    for word in state.split("+"):
        base = word.rstrip("".join(_SUFFIXES))
        words |= {base, *(_SUFFIXES[sign] for sign in word[len(base) :])}
    return words


def is_ready(node: Mapping[str, str]) -> bool:
    """Whether a node takes jobs, now or when those that it has are done."""
    words = flags(node.get("State", "UNKNOWN"))
    return bool(words & READY) and words <= READY | HARMLESS


def has_less(node: Mapping[str, str]) -> bool:
    """Whether Slurm has taken a node out of service because it registered with less than slurm.conf says."""
    return bool(LESS.search(node.get("Reason", "")))


def complaint(name: str, node: Mapping[str, str], acceptance: str) -> str:
    """Why a node takes no jobs, and what to do; empty when it does.

    Args:
        name: the node's name.
        node: its record.
        acceptance: how other hardware than the lock's is accepted.
    """
    if is_ready(node):
        return ""
    state, reason = node.get("State", "UNKNOWN"), node.get("Reason", "")
    said = f"Slurm has it {state}" + (f", for the reason “{reason}”." if reason else ", without a reason.")
    return f"{said} {advice(name, flags(state), reason, acceptance)}"


def advice(name: str, words: set[str], reason: str, acceptance: str) -> str:
    """What a state and a reason mean, and what to do; `acceptance` is how other hardware is accepted."""
    resume = f"scontrol update NodeName={name} State=RESUME"
    rules = (
        (
            bool(LESS.search(reason)),
            "The node has less than slurm.conf promises: memory, CPUs or devices are gone. "
            f"Repair: mend the hardware, then {resume}; or, if it is meant to be so: {acceptance}",
        ),
        (
            bool(words & {"INVAL", "INVALID_REG"}),
            f"What the node reports does not fit slurm.conf. Repair: {deploy(name)}",
        ),
        (
            "NOT_RESPONDING" in words or reason.startswith("Not responding"),
            "slurmctld gets no answer from its slurmd: it is down, or a firewall is in between. "
            f"Repair: {deploy(name)}; if that changes nothing, see `journalctl -u slurmd` there",
        ),
        ("UNKNOWN" in words, f"Its slurmd has not registered since slurmctld started. Repair: {deploy(name)}"),
        (
            reason.startswith(HEALTH) and bool(words & {"DRAIN", "DRAINED", "DRAINING"}),
            "Its own health check has drained it. Repair: mend that; it comes back by itself some minutes later, or by "
            f"fab resume {name}",
        ),
        ("unexpectedly rebooted" in reason, f"It was restarted while Slurm counted on it. Repair: {resume}"),
        (
            bool(words & {"DRAIN", "DRAINED", "DRAINING"}),
            f"Somebody, or Slurm itself, has drained it. Repair: when the reason is settled, {resume}",
        ),
        (
            bool(words & {"REBOOT_ISSUED", "POWERING_UP", "POWERED_DOWN", "POWERING_DOWN", "MAINTENANCE"}),
            "It is on its way into or out of service. Repair: wait until it is back",
        ),
    )
    otherwise = f"Repair: {resume}; if that does not last, see /var/log/slurm/slurmctld.log on the controller"
    return next((text for holds, text in rules if holds), otherwise)
