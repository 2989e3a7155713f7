"""Hardware that differs from the lock: compared alike for plans, for checks, and for new machines."""

from __future__ import annotations

from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.cluster.slurm.node_lines import real_memory
from slurmfab.core.impact import gpu_changes
from slurmfab.on_hosts.agent.core.resource import Change

MEMORY_TOLERANCE = 0.01
"""The share of a node's memory that may differ on equal hardware: each kernel version reserves another amount."""


GPUS = "GPUs"  # the name of the difference in GPUs


def differences(known: HostLock, hardware: Hardware | None, gpus: tuple[Gpu, ...] | None, margin: str) -> list[Change]:
    """How a node's hardware differs from the lock, whose values are the wanted ones.

    `hardware`, `gpus`: of now; `None` if unreadable, or not compared. `margin`: of memory, such as `3%`; what
    slurm.conf has must be there in any case.
    """
    if known.hardware is None or hardware is None:
        return []
    before, now = vars(known.hardware), vars(hardware)
    found = [
        Change(key, str(now[key]), str(value))
        for key, value in before.items()
        if key != "RealMemory" and now[key] != value
    ]
    memory, left = known.hardware.RealMemory, hardware.RealMemory
    if abs(memory - left) > memory * MEMORY_TOLERANCE or left < real_memory(memory, margin):
        found.append(Change("RealMemory", str(left), str(memory)))
    if gpus is not None and gpu_changes.changes(known.gpus, gpus):
        found.append(Change(GPUS, format_gpus(gpus), format_gpus(known.gpus)))
    return found


def format_gpus(gpus: tuple[Gpu, ...]) -> str:
    """GPUs with their device files, types and slots."""
    return (
        ", ".join(f"{gpu.file} {gpu.type}".strip() + (f" in slot {gpu.bus}" if gpu.bus else "") for gpu in gpus)
        or "none"
    )
