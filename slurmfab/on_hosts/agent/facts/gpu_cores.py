"""The cores near a GPU, for `Cores` in gres.conf(5).

Slurm numbers cores socket by socket without threads, independent of the kernel's numbers. It expects whole sockets
(from 25.05 it refuses a node whose GPUs are near a part of a socket). So a NUMA node that is part of a socket stands
for the whole socket, and `Cores` is omitted if all sockets are near or the sockets differ in size.
"""

from __future__ import annotations

from typing import Dict, List, Set

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.facts.hardware import CPUS


class Sockets:
    """The sockets of a host, each with its processors and cores. `root`: where the file system begins."""

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
        """The cores of all sockets that contain one of these processors, such as `0-31`; empty to omit `Cores`."""
        order = sorted(self.cpus, key=lambda socket: min(self.cpus[socket]))
        sizes = {len(cores) for cores in self.cores.values()}
        chosen = [number for number, socket in enumerate(order) if self.cpus[socket] & near]
        if len(sizes) != 1 or not chosen or len(chosen) == len(order):
            return ""
        return ranges(chosen, sizes.pop())


def ranges(sockets: List[int], size: int) -> str:
    """The cores of some sockets as ranges; adjacent sockets form one range. `size`: cores per socket."""
    runs: List[List[int]] = []
    for number in sockets:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join("%d-%d" % (first * size, (last + 1) * size - 1) for first, last in runs)
