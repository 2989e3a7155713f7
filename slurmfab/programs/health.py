"""The health check of a compute node, which its slurmd runs as root (slurm.conf(5), HealthCheckProgram).

It looks at what nodes die of, and drains its node with a reason of its own while something is wrong. It gives back only
what it has taken. Slurm kills it after 60 s; it takes 40 at most, and without trouble a small part of a second.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any, Callable, Dict, Mapping

from slurmfab.programs import health_looks

MEMORY = "/run/slurmfab/health.json"
"""What one look leaves for the next; it is touched by each, and gone after a boot."""

AT_MOST = 40.0
"""Seconds that all of it may take."""

ASK_EVERY = 3600
"""Seconds after which Slurm is asked for the node's state although nothing is wrong, and nothing was."""


def main(settings: str, word: str = "") -> int:
    """Look, and act on it.

    Args:
        settings: a JSON file: `node`, its NodeName, and what it must have.
        word: `look` only prints what is wrong, as JSON; `forget` lets errors of GPUs count no more that were mended
            without a reboot, and acts on that.

    Returns:
        The exit code: 0 whatever was found; slurmd logs any other as an error, and what was printed.
    """
    left = counted_down(time.monotonic() + AT_MOST)
    wanted = remembered(settings)
    if "node" not in wanted:
        print("%s cannot be read, or says nothing of a node: fab deploy" % settings, file=sys.stderr)  # noqa: T201
        return 1
    place = wanted.get("state", MEMORY)
    if word != "look" and not alone(place, waits=word == "forget"):
        return 0
    memory = remembered(place)
    before = json.dumps(memory, sort_keys=True)
    if word == "forget":
        forget(wanted, memory)
    causes = health_looks.look(wanted, memory, left, time.time())
    if word == "look":
        print(json.dumps({"causes": causes}, sort_keys=True))  # noqa: T201
        return 0
    was_ill = bool(memory.get("causes"))
    memory["causes"] = causes
    if causes and not was_ill:
        remember(place, json.dumps(memory, sort_keys=True), is_new=True)  # should this be killed, the next look asks
    if was_ill or is_worth_asking(memory):
        from slurmfab.programs import health_node  # noqa: PLC0415 - a healthy node need not know it

        if health_node.act(wanted["node"], causes, memory, left):
            memory["asked"] = time.time() // ASK_EVERY
    remember(place, after := json.dumps(memory, sort_keys=True), is_new=after != before)
    return 0


def counted_down(deadline: float) -> Callable[[float], float]:
    """The seconds that are left until then for something that would like to have so many."""
    return lambda most: max(0.1, min(most, deadline - time.monotonic()))


def is_worth_asking(memory: Mapping[str, Any]) -> bool:
    """Whether Slurm has to be asked for the node's state: something is wrong, or was; or it is long ago."""
    is_due = memory.get("asked") != time.time() // ASK_EVERY
    return is_due or bool(memory["causes"] or memory.get("told") or memory.get("well"))


def alone(path: str, *, waits: bool = False) -> bool:
    """Whether no other look is under way; on a busy node, one may take longer than the time between two.

    The lock goes with the process. Two at once could undo each other's work: one that has found something drains the
    node when the other, which has not, has just given it back.
    """
    try:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        descriptor = os.open(path + ".lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def remembered(path: str) -> Dict[str, Any]:
    """What a JSON file holds, such as what the last look has left; nothing where there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def remember(path: str, text: str, *, is_new: bool) -> None:
    """Leave something for the next look, and say that this one was; a disk that takes nothing is no reason to stop."""
    try:
        if not is_new:
            os.utime(path)
            return
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        fresh = "%s.%d" % (path, os.getpid())
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(fresh, path)
    except OSError as error:
        print("%s cannot be written: %s" % (path, error.strerror), file=sys.stderr)  # noqa: T201


def forget(wanted: Mapping[str, Any], memory: Dict[str, Any]) -> None:
    """Count no error of a GPU that was up to now."""
    from slurmfab.programs import health_gpus  # noqa: PLC0415

    memory["xids_after"] = health_gpus.latest(wanted.get("kernel_log", health_gpus.KERNEL_LOG))
    memory.pop("xids", None)
    memory.pop("smi", None)
