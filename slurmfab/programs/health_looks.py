"""What a compute node dies of, each looked at in some milliseconds: causes by a key that stays while the cause does."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Callable, Dict, Mapping, Sequence

from slurmfab.programs.health_probe import LATE, STUCK, Answer, probe

PATH_SECONDS = 5.0
PROBE_SECONDS = 15.0
"""How long one path may take, and all of them."""

EASE = 1.25
"""By how much more than its measure has to be free of a disk that was full, so that a node does not come and go."""

INODES = 0.01
"""The share of a file system's inodes that has to be free."""

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
RUNNING = ("active", "activating", "reloading", "deactivating", "refreshing")
"""States of units that run, or are about to again (systemctl(1), is-active)."""

CHRONY = ("chronyc", "-c", "tracking")
OFFSET = 4
"""The column of the system clock's offset in seconds (chronyc(1), -c and tracking)."""

Causes = Dict[str, str]
Left = Callable[[float], float]


def look(settings: Mapping[str, Any], memory: Dict[str, Any], left: Left, now: float) -> Causes:
    """Everything that is wrong.

    Args:
        settings: what the node must have.
        memory: what earlier looks have left, kept up to date.
        left: the seconds that are left for something that would like to have so many.
        now: seconds since 1970.
    """
    mounts, disk = settings.get("mounts", ()), settings.get("disk", {})
    deadline = time.monotonic() + left(PROBE_SECONDS)
    answers = probe([*disk, *mounts], memory.setdefault("stuck", {}), PATH_SECONDS, deadline)
    found = {
        **missing_mounts(mounts, answers, settings.get("mountinfo", "/proc/self/mountinfo")),
        **full_disks(disk, answers, memory.get("causes", {})),
        **less_memory(settings.get("memory", 0), settings.get("meminfo", "/proc/meminfo")),
        **dead_units(settings.get("daemons", ()), left),
        **wrong_clock(settings.get("clock", 0), left, settings.get("chrony", CHRONY)),
    }
    if settings.get("gpus"):
        found.update(broken_gpus(settings, memory, left, now))
    return found


def broken_gpus(settings: Mapping[str, Any], memory: Dict[str, Any], left: Left, now: float) -> Causes:
    """GPUs that are gone, or that their driver has given up; arguments as for `look`."""
    from slurmfab.programs import health_gpus  # noqa: PLC0415 - most nodes have none

    found = health_gpus.devices(settings["gpus"])
    if any(os.path.basename(path).startswith("nvidia") for path in settings["gpus"]):
        found.update(health_gpus.xids(memory, settings.get("kernel_log", health_gpus.KERNEL_LOG)))
        found.update(health_gpus.asked(memory, now, left, settings.get("nvidia_smi", health_gpus.NVIDIA_SMI)))
    return found


def missing_mounts(paths: Sequence[str], answers: Mapping[str, Answer], mountinfo: str) -> Causes:
    """Paths at which nothing is mounted, or nothing that answers."""
    found, mounted = {}, mount_points(mountinfo) if paths else set()
    for path in paths:
        error = answers[path].error
        if error == STUCK:
            found["mount " + path] = "%s does not answer" % path
        elif error == errno.ENOENT or path not in mounted:
            found["mount " + path] = "nothing is mounted at %s" % path
        elif error not in (0, LATE):
            found["mount " + path] = "%s does not answer (%s)" % (path, os.strerror(error))
    return found


def mount_points(mountinfo: str) -> "set[str]":
    """Where something is mounted (proc(5), mountinfo)."""
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        return {line.split(" ", 5)[4] for line in file}


def full_disks(disk: Mapping[str, str], answers: Mapping[str, Answer], before: Mapping[str, str]) -> Causes:
    """File systems on which too little is free, or on which nothing can be written any more.

    Args:
        disk: by path, what has to be free.
        answers: of the paths.
        before: the causes of the last look.
    """
    found: Causes = {}
    seen = set()
    for path, amount in disk.items():
        answer = answers[path]
        if answer.error in (errno.ENOENT, LATE):
            continue
        if answer.error:
            why = "" if answer.error == STUCK else " (%s)" % os.strerror(answer.error)
            found["disk " + path] = "%s does not answer%s" % (path, why)
            continue
        if (answer.device, amount) in seen:
            continue
        seen.add((answer.device, amount))
        key, inodes = "full " + path, "inodes " + path
        if answer.is_read_only:
            found["read-only " + path] = "%s is mounted read-only" % path
        if answer.size and answer.free < wanted(amount, answer.size) * (EASE if key in before else 1):
            found[key] = "%s is full (%s of %s free)" % (path, size(answer.free), size(answer.size))
        if answer.inodes and answer.inodes_free < answer.inodes * INODES * (EASE if inodes in before else 1):
            found[inodes] = "%s has no inodes left (%d of %d free)" % (path, answer.inodes_free, answer.inodes)
    return found


def wanted(amount: str, total: int) -> float:
    """An amount such as `3%` or `2G` in bytes."""
    return total * float(amount[:-1]) / 100 if amount.endswith("%") else int(amount[:-1]) * UNITS[amount[-1]]


def size(number: int) -> str:
    """A number of bytes for people."""
    unit = next((one for one in ("T", "G", "M") if number >= UNITS[one]), "K")
    return "%.3g %siB" % (number / UNITS[unit], unit)


def less_memory(promised: int, meminfo: str) -> Causes:
    """Less memory than slurm.conf promises, in MiB; 0 for no promise."""
    if not promised:
        return {}
    with open(meminfo, encoding="ascii") as file:
        total = int(file.readline().split()[1]) // 1024
    return {"memory": "only %d MiB of memory where slurm.conf has %d" % (total, promised)} if total < promised else {}


def dead_units(units: Sequence[str], left: Left) -> Causes:
    """Units of systemd that do not run."""
    if not units:
        return {}
    states = said(["systemctl", "is-active", "--", *units], left(5.0)).split()
    pairs = zip(units, states)  # noqa: B905 - zip(strict=) is Python 3.10's
    return {"unit " + unit: "%s is %s" % (unit, state) for unit, state in pairs if state not in RUNNING}


def wrong_clock(most: int, left: Left, command: Sequence[str]) -> Causes:
    """A clock that is off by more than some seconds, as chrony knows it; nothing where no chrony runs."""
    words = said(command, left(2.0)).split(",") if most else []
    try:
        offset = abs(float(words[OFFSET]))
    except (IndexError, ValueError):
        return {}
    return {"clock": "the clock is %.3g s off" % offset} if offset > most else {}


def said(argv: Sequence[str], seconds: float) -> str:
    """What a program prints, whatever its exit code; nothing where there is none, or it takes too long."""
    import shutil  # noqa: PLC0415 - most nodes need no program

    if not shutil.which(argv[0]):
        return ""
    import subprocess  # noqa: PLC0415

    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")
