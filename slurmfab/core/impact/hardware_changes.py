"""Hardware that differs from the lock: compared alike for plans, for checks, and for new machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slurmfab.base.grouping import grouped
from slurmfab.cluster.facts import Gpu, Hardware, HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.cluster.slurm.gres import named_files
from slurmfab.cluster.slurm.node_lines import real_memory
from slurmfab.on_hosts.agent.core.resource import Change

MEMORY_TOLERANCE = 0.01
"""The share of a node's memory that may differ on equal hardware: each kernel version reserves another amount."""

ECORES = "allow_ecores"
"""The word of SlurmdParameters with which slurmd counts efficiency cores, too, from 23.02 on (slurm.conf(5))."""

GPUS = "GPUs"  # the name of the difference in GPUs

_FOUND = re.compile(r"/dev/nvidia\d+")


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
    if gpus is not None and changes(known.gpus, gpus):
        found.append(Change(GPUS, format_gpus(gpus), format_gpus(known.gpus)))
    return found


def format_gpus(gpus: tuple[Gpu, ...]) -> str:
    """GPUs with their device files, types and slots."""
    return (
        ", ".join(f"{gpu.file} {gpu.type}".strip() + (f" in slot {gpu.bus}" if gpu.bus else "") for gpu in gpus)
        or "none"
    )


def counted_otherwise(hardware: Hardware | None, kernel: Hardware | None, ecores: str) -> str:
    """How slurmd counts a node's processors if the kernel counts them otherwise, and what to write; empty if alike."""
    if hardware is None or kernel is None or hardware.processors == kernel.processors:
        return ""
    if ecores and hardware.CPUs < kernel.CPUs:
        return (
            f"slurmd counts {hardware.CPUs} of its {kernel.CPUs} processors (`slurmd -C`), and so does slurm.conf: it "
            f"leaves the efficiency cores ({ecores}) out. To use them, too: slurm_conf: {{SlurmdParameters: {ECORES}}}"
        )
    found = [(key, value, vars(kernel)[key]) for key, value in vars(hardware).items() if value != vars(kernel)[key]]
    told = ", ".join(f"{key}={value} and not {other}" for key, value, other in found if key != "RealMemory")
    return f"slurm.conf has its processors as slurmd counts them, which is not the kernel's count: {told}"


@dataclass(frozen=True)
class GpuChange:
    """How one GPU has changed."""

    description: str  # the change, as part of a sentence
    is_loss: bool = True  # whether jobs lack something because of it; false for an additional GPU


def changes(known: Sequence[Gpu], now: Sequence[Gpu]) -> tuple[GpuChange, ...]:
    """How the GPUs of a host differ from the lock.

    A value that one side does not know is not a difference; nor are other PCI addresses alone, which a new card
    elsewhere in the host can cause. `now`: the GPUs of the host now.
    """
    known, now = sorted(known, key=_order), sorted(now, key=_order)
    if len(known) == len(now) and all(map(_is_same, known, now)):
        return ()
    has_slots = all(gpu.bus for gpu in (*known, *now))
    found = tuple(_by(known, now, (lambda gpu: gpu.bus) if has_slots else (lambda gpu: gpu.file)))
    return found or (GpuChange(f"they are {_models(now)}, and were {_models(known)}"),)


def pinned(cluster: Cluster, host: str, old: HostLock, fact: HostFacts) -> tuple[Gpu, ...]:
    """The GPUs that the lock is to hold for a host: those of its first contact, and device files named since.

    A device file that the cluster file names (`File`) counts as a GPU when it exists. When the cluster file no longer
    names it, and nothing else shows that it is a GPU, it goes. `old`: the host in the lock before. `fact`: the host's
    facts now.
    """
    if old.hardware is None:
        return old.gpus or fact.gpus
    if old.never_seen and len(fact.gpus) >= len(old.gpus):
        return fact.gpus
    named = named_files(cluster.settings_of(host)) if "compute" in cluster.roles(host) else ()
    kept = tuple(gpu for gpu in old.gpus if gpu.file in named or gpu.bus or gpu.type or _FOUND.fullmatch(gpu.file))
    files = {gpu.file for gpu in kept}
    kept += tuple(gpu for gpu in fact.gpus if gpu.file in named and gpu.file not in files)
    return with_slots(kept, fact.gpus)


def with_slots(known: tuple[Gpu, ...], now: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs of a lock with their PCI addresses, for locks of an older slurmfab that lack these."""
    has_news = any(gpu.bus for gpu in now) and not any(gpu.bus for gpu in known)
    if not has_news or changes(known, now):
        return known
    slots = {_order(gpu): gpu.bus for gpu in now}
    return tuple(replace(gpu, bus=slots[_order(gpu)]) for gpu in known)


def _order(gpu: Gpu) -> tuple[str, tuple[str, ...]]:
    """A sort key that puts equal GPUs of both sides at equal places."""
    return gpu.file, gpu.with_files


def _is_same(known: Gpu, now: Gpu) -> bool:
    """Whether two GPUs are the same for Slurm."""
    is_alike = not (known.type and now.type) or known.type == now.type
    return known.file == now.file and known.with_files == now.with_files and is_alike


def _by(known: Sequence[Gpu], now: Sequence[Gpu], place: Callable[[Gpu], str]) -> Iterator[GpuChange]:
    """The changes by place, where a place is a slot or a device file."""
    before, after = _at_places(known, place), _at_places(now, place)
    gone = [gpus for key, gpus in before.items() if key not in after]
    yield from (GpuChange(f"{gpus[0].slot} is gone{_was(gpus)}") for gpus in gone)
    for key, gpus in before.items():
        description = _at_one_place(gpus, after[key]) if key in after else ""
        if description:
            yield GpuChange(description)
        elif key in after and not gone and gpus[0].file != after[key][0].file:
            yield GpuChange(f"{gpus[0].slot} has the device file {after[key][0].file} now")
    for key, gpus in after.items():
        if key not in before:
            yield GpuChange(f"{gpus[0].slot} is new ({_models(gpus)})", is_loss=False)


def _at_one_place(before: Sequence[Gpu], after: Sequence[Gpu]) -> str:
    """The change at one place; empty for none that matters."""
    was_divided, is_divided = (any(gpu.with_files for gpu in gpus) for gpus in (before, after))
    if was_divided or is_divided:
        counted = Counter(gpu.type for gpu in before), Counter(gpu.type for gpu in after)
        has_others = counted[0] != counted[1] or [gpu.with_files for gpu in before] != [gpu.with_files for gpu in after]
        return f"{before[0].slot} is divided otherwise: {_models(after)}, and was {_models(before)}" * has_others
    was, now = before[0].type, after[0].type
    return f"{before[0].slot} is another one: {now}, and was {was}" if was and now and was != now else ""


def _at_places(gpus: Sequence[Gpu], place: Callable[[Gpu], str]) -> dict[str, list[Gpu]]:
    """GPUs by place; several at one place are MIG instances of one GPU."""
    return grouped((place(gpu), gpu) for gpu in gpus)


def _was(gpus: Sequence[Gpu]) -> str:
    """The former model of a GPU, where it is known."""
    return f" (it was {_models(gpus)})" if any(gpu.type for gpu in gpus) else ""


def _models(gpus: Sequence[Gpu]) -> str:
    """The types of GPUs with counts, such as `a100` or `2 x a100_1g.5gb and a100_3g.20gb`."""
    counted = Counter(gpu.type or "of unknown type" for gpu in gpus)
    return " and ".join(f"{number} x {kind}" if number > 1 else kind for kind, number in counted.items()) or "none"
