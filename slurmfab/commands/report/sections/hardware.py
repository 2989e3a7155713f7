"""The kinds of compute nodes: hosts with the same hardware together, with each GPU's slot."""

from __future__ import annotations

from typing import NamedTuple

from slurmfab.base.hostlist import fold
from slurmfab.base.markup import fill
from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.commands.report.node_views import gib, gpu_words, views
from slurmfab.commands.report.section import Section, Sources


class Kind(NamedTuple):
    """Nodes with the same hardware."""

    nodes: str
    size: int
    hardware: Hardware
    gpus: tuple[Gpu, ...]
    gpu_words: str
    memory: str


def section(sources: Sources) -> Section | None:
    """The kinds of compute nodes; `None` where no hardware is known."""
    kinds = kinds_of(sources)
    if not kinds:
        return None
    return Section(
        "hardware", "Hardware", fill("hardware.html.j2", kinds=kinds),
        note="Compute nodes with the same CPUs, memory and GPUs in the same slots are one line.",
        badge=f"{len(kinds)} kind{'' if len(kinds) == 1 else 's'}",
    )  # fmt: skip


def kinds_of(sources: Sources) -> list[Kind]:
    """The kinds of compute nodes, those with most nodes first."""
    found: dict[tuple[Hardware, str, tuple[Gpu, ...]], list[str]] = {}
    for view in views(sources):
        if view.is_node and view.hardware:
            memory = gib(view.hardware.RealMemory)
            # Nodes of one kind differ by a few MiB, which firmware takes.
            alike = Hardware(**{**vars(view.hardware), "RealMemory": 1})
            found.setdefault((alike, memory, view.gpus), []).append(view.name)
    kinds = []
    for (hardware, memory, gpus), nodes in found.items():
        kinds.append(Kind(fold(nodes), len(nodes), hardware, gpus, gpu_words(gpus), memory))
    return sorted(kinds, key=lambda kind: (-kind.size, kind.nodes))
