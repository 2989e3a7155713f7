"""The health check of a compute node, which slurmd runs as root (slurm.conf(5), HealthCheckProgram).

It drains the node with a reason of its own while it finds problems, and resumes only what it has drained. Slurm kills
it after 60 s; it takes 40 s at most, and a fraction of a second on a healthy node.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, Callable, Dict, Mapping

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.programs import replaced_file, starting
from slurmfab.on_hosts.programs.health import host_checks

MEMORY = "/run/slurmfab/health.json"
"""State kept between runs; each run updates its time stamp, and a reboot removes it."""

TOTAL_SECONDS = 40.0  # time limit for the whole run
ASK_EVERY = 3600  # seconds after which Slurm is asked for the node's state even if there was no problem

REMEMBERED: Dict[str, Any] = {
    "asked": (int, float), "causes": dict, "smi": dict, "stuck": dict, "told": list, "well": int,
    "xids": dict, "xids_after": int,
}  # fmt: skip
"""What the state of earlier runs holds, with its types; anything else is forgotten."""


def main(settings: str, word: str = "") -> int:
    """Run the checks, and drain or resume the node.

    Args:
        settings: path of a JSON file: `node` (NodeName) and what the node must have.
        word: `look` only prints the problems as JSON; `forget` ignores past errors of GPUs that were repaired without a
            reboot, then runs as usual.

    Returns:
        The exit code: 0 whatever was found, since slurmd logs any other as an error, together with the output.
    """
    left = countdown(time.monotonic() + TOTAL_SECONDS)
    wanted = starting.begin(settings)
    if "node" not in wanted:
        return starting.log("%s is missing or has no node: fab deploy" % settings)
    place = wanted.get("state", MEMORY)
    if word != "look" and not lock_run(place, waits=word == "forget"):
        return 0
    known = json_objects.read(place)
    memory = {name: value for name, value in known.items() if isinstance(value, REMEMBERED.get(name, ()))}
    before = json.dumps(memory, sort_keys=True)
    if word == "forget":
        ignore_past_errors(wanted, memory)
    causes = host_checks.find_causes(wanted, memory, left, time.time())
    if word == "look":
        print(json.dumps({"causes": causes}, sort_keys=True))  # noqa: T201
        return 0
    was_ill = bool(memory.get("causes"))
    memory["causes"] = causes
    if causes and not was_ill:
        save(place, json.dumps(memory, sort_keys=True), is_new=True)  # if killed now, the next run asks Slurm
    if was_ill or has_to_ask(memory):
        from slurmfab.on_hosts.programs.health import node  # imported only if Slurm has to be asked

        if node.act(wanted["node"], causes, memory, left):
            memory["asked"] = time.time() // ASK_EVERY
    save(place, after := json.dumps(memory, sort_keys=True), is_new=after != before)
    return 0


def countdown(deadline: float) -> Callable[[float], float]:
    """A function that limits a time in seconds to what is left until the deadline (monotonic clock)."""
    return lambda most: max(0.1, min(most, deadline - time.monotonic()))


def has_to_ask(memory: Mapping[str, Any]) -> bool:
    """Whether to ask Slurm for the node's state: there is or was a problem, or the last time is long ago."""
    is_due = memory.get("asked") != time.time() // ASK_EVERY
    return is_due or bool(memory["causes"] or memory.get("told") or memory.get("well"))


def lock_run(path: str, *, waits: bool = False) -> bool:
    """Whether no other run is in progress; on a busy node a run may take longer than the interval.

    The lock ends with the process. Two runs at once could undo each other: one drains the node for a problem while the
    other, which has not found it, resumes the node. `waits`: whether to wait for the other run to end.
    """
    try:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        descriptor = os.open(path + ".lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def save(path: str, text: str, *, is_new: bool) -> None:
    """Save the state, or only update its time stamp where it is not new; a failure is printed, and the run goes on."""
    try:
        if not is_new:
            os.utime(path)
            return
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        replaced_file.write(path, text)
    except OSError as error:
        starting.log("%s cannot be written: %s" % (path, error.strerror))


def ignore_past_errors(wanted: Mapping[str, Any], memory: Dict[str, Any]) -> None:
    """Ignore all GPU errors up to now."""
    from slurmfab.on_hosts.programs.health import gpus

    memory["xids_after"] = gpus.latest(wanted.get("kernel_log", gpus.KERNEL_LOG))
    memory.pop("xids", None)
    memory.pop("smi", None)
