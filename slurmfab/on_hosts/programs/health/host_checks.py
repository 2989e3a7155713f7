"""The health checks of a compute node, some milliseconds each. A cause keeps its key as long as it lasts."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Callable, Dict, Mapping, Sequence

from slurmfab.on_hosts.programs.health.path_probe import LATE, STUCK, PathState, probe

PATH_SECONDS = 5.0
PROBE_SECONDS = 15.0  # time limits for one path, and for all paths
HYSTERESIS = 1.25  # a disk that was full needs this multiple of its limit free, so that the node does not alternate
MIN_INODES = 0.01  # the share of a file system's inodes that has to be free

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
RUNNING = ("active", "activating", "reloading", "deactivating", "refreshing")
"""States of units that run, or will in a moment (systemctl(1), is-active)."""

CHRONY = ("chronyc", "-c", "tracking")
OFFSET_COLUMN = 4  # the column with the system clock's offset in seconds (chronyc(1), -c and tracking)

Causes = Dict[str, str]
Left = Callable[[float], float]


def find_causes(settings: Mapping[str, Any], memory: Dict[str, Any], left: Left, now: float) -> Causes:
    """Run all health checks: a sentence for each problem with what the node must have; updates `memory`."""
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
    """Broken or missing GPUs, by what the node must have and what the memory, which is updated, has of before."""
    from slurmfab.on_hosts.programs.health import gpus  # most nodes have none

    found = gpus.missing_devices(settings["gpus"])
    if any(os.path.basename(path).startswith("nvidia") for path in settings["gpus"]):
        found.update(gpus.xid_causes(memory, settings.get("kernel_log", gpus.KERNEL_LOG)))
        found.update(gpus.smi_causes(memory, now, left, settings.get("nvidia_smi", gpus.NVIDIA_SMI)))
    return found


def missing_mounts(paths: Sequence[str], answers: Mapping[str, PathState], mountinfo: str) -> Causes:
    """Mount points where nothing is mounted, or that do not answer. `answers`: the state of each path."""
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
    """All mount points (proc(5), mountinfo)."""
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        return {line.split(" ", 5)[4] for line in file}


def full_disks(disk: Mapping[str, str], answers: Mapping[str, PathState], before: Mapping[str, str]) -> Causes:
    """File systems with too little of the wanted space by path, or inodes, or read-only; `before`: last causes."""
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
        if answer.size and answer.free < required_bytes(amount, answer.size) * (HYSTERESIS if key in before else 1):
            found[key] = "%s is full (%s of %s free)" % (path, format_size(answer.free), format_size(answer.size))
        if answer.inodes and answer.inodes_free < answer.inodes * MIN_INODES * (HYSTERESIS if inodes in before else 1):
            found[inodes] = "%s has no inodes left (%d of %d free)" % (path, answer.inodes_free, answer.inodes)
    return found


def required_bytes(amount: str, total: int) -> float:
    """An amount such as `3%` or `2G` in bytes."""
    return total * float(amount[:-1]) / 100 if amount.endswith("%") else int(amount[:-1]) * UNITS[amount[-1]]


def format_size(number: int) -> str:
    """A number of bytes in a readable unit."""
    unit = next((one for one in ("T", "G", "M") if number >= UNITS[one]), "K")
    return "%.3g %siB" % (number / UNITS[unit], unit)


def less_memory(promised: int, meminfo: str) -> Causes:
    """A cause if the host has less memory than slurm.conf says. `promised`: RealMemory in MiB; 0 to check nothing."""
    if not promised:
        return {}
    with open(meminfo, encoding="ascii") as file:
        total = int(file.readline().split()[1]) // 1024
    return {"memory": "only %d MiB of memory where slurm.conf has %d" % (total, promised)} if total < promised else {}


def dead_units(units: Sequence[str], left: Left) -> Causes:
    """systemd units that do not run."""
    if not units:
        return {}
    states = output_of(["systemctl", "is-active", "--", *units], left(5.0)).split()
    pairs = zip(units, states)  # noqa: B905 - zip(strict=) is Python 3.10's
    return {"unit " + unit: "%s is %s" % (unit, state) for unit, state in pairs if state not in RUNNING}


def wrong_clock(most: int, left: Left, command: Sequence[str]) -> Causes:
    """A cause if chrony tells that the clock is off by more than `most` seconds (0: unchecked), else none."""
    columns = output_of(command, left(2.0)).split(",") if most else []
    try:
        offset = abs(float(columns[OFFSET_COLUMN]))
    except (IndexError, ValueError):
        return {}
    return {"clock": "the clock is %.3g s off" % offset} if offset > most else {}


def output_of(argv: Sequence[str], seconds: float) -> str:
    """A program's output, whatever its exit code; empty if it is not installed or does not end in time."""
    import shutil  # most nodes need no program

    if not shutil.which(argv[0]):
        return ""
    import subprocess

    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")
