"""Which cores are near a GPU, as gres.conf(5) counts them in `Cores`.

Slurm numbers cores through, socket by socket and without threads, whatever the kernel's numbers are. It wants whole
sockets there (from 25.05 it takes no node whose GPUs are near a part of one), so a NUMA node that is a part of a socket
stands for the socket, and nothing is said where all sockets are near or the sockets differ.
"""

from __future__ import annotations

from typing import Dict, List, Set

from slurmfab.agent.hardware import CPUS
from slurmfab.agent.reading import names, read_text


class Sockets:
    """The sockets of a host, each with its processors and cores.

    Args:
        root: where the file system begins.
    """

    def __init__(self, root: str) -> None:
        self.cpus: Dict[str, Set[int]] = {}
        self.cores: Dict[str, Set[str]] = {}
        for name in names(root + CPUS):
            if not (name.startswith("cpu") and name[3:].isdigit()):
                continue
            topology = "%s%s/%s/topology/" % (root, CPUS, name)
            socket = read_text(topology + "physical_package_id")
            core = read_text(topology + "core_cpus_list") or read_text(topology + "thread_siblings_list")
            if socket and core:
                self.cpus.setdefault(socket, set()).add(int(name[3:]))
                self.cores.setdefault(socket, set()).add(core)

    def cores_of(self, near: Set[int]) -> str:
        """The cores of those sockets to which any of these processors belongs, such as `0-31`; empty for no choice."""
        order = sorted(self.cpus, key=lambda socket: min(self.cpus[socket]))
        sizes = {len(cores) for cores in self.cores.values()}
        chosen = [number for number, socket in enumerate(order) if self.cpus[socket] & near]
        if len(sizes) != 1 or not chosen or len(chosen) == len(order):
            return ""
        return ranges(chosen, sizes.pop())


def ranges(sockets: List[int], size: int) -> str:
    """The cores of sockets with so many cores each, sockets side by side as one range."""
    runs: List[List[int]] = []
    for number in sockets:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join("%d-%d" % (first * size, (last + 1) * size - 1) for first, last in runs)
