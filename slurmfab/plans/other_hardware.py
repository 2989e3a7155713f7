"""Hardware that is not what the lock holds: found out the same way for a plan, for a check, and for a new machine."""

from __future__ import annotations

from slurmfab.agent.resource import Change
from slurmfab.facts import Gpu, Hardware
from slurmfab.lock import HostLock
from slurmfab.plans import gpu_changes
from slurmfab.slurm.node_lines import real_memory

MEMORY_TOLERANCE = 0.01
"""By how much of its memory a node may differ and be the same hardware: each kernel keeps another part for itself."""


GPUS = "GPUs"
"""How the difference in GPUs is called."""


def differences(known: HostLock, hardware: Hardware | None, gpus: tuple[Gpu, ...] | None, margin: str) -> list[Change]:
    """What differs between a node's hardware as it is now and as the lock holds it; the lock's is the wanted one.

    Args:
        known: the node in the lock.
        hardware: what Slurm counts there now; `None` when that could not be read.
        gpus: those that are there now; `None` where they are not asked for.
        margin: the cluster's memory margin; memory that slurm.conf promises has to be there whatever the tolerance.
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
        found.append(Change(GPUS, in_words(gpus), in_words(known.gpus)))
    return found


def in_words(gpus: tuple[Gpu, ...]) -> str:
    """GPUs with their device files, types and slots."""
    return (
        ", ".join(f"{gpu.file} {gpu.type}".strip() + (f" in slot {gpu.bus}" if gpu.bus else "") for gpu in gpus)
        or "none"
    )
