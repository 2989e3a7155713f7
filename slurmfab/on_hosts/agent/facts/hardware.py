"""A host's processors and memory as Slurm counts them, read from sysfs, since Slurm may not be installed yet.

The counts are those of `slurmd -C` (slurmd(8)): sockets are physical packages; cores per socket and threads per core
are whole divisions of the totals, as in Slurm's xcpuinfo.c.
"""

from __future__ import annotations

import os
from typing import Dict, Optional

from slurmfab.on_hosts.agent.core.reading import names, read_text

CPUS = "/sys/devices/system/cpu"


def read(root: str = "") -> Optional[Dict[str, int]]:
    """The counts by Slurm's names, memory in MiB; `None` if sysfs or /proc/meminfo lack them."""
    cpus = [name for name in names(root + CPUS) if name.startswith("cpu") and name[3:].isdigit()]
    online = [name for name in cpus if os.path.isdir("%s%s/%s/topology" % (root, CPUS, name))]
    sockets, cores = set(), set()
    for name in online:
        topology = "%s%s/%s/topology/" % (root, CPUS, name)
        sockets.add(read_text(topology + "physical_package_id"))
        # Kernels before 5.3 have the older name only.
        cores.add(read_text(topology + "core_cpus_list") or read_text(topology + "thread_siblings_list"))
    memory = memory_mib(read_text(root + "/proc/meminfo"))
    if not online or "" in cores or not memory:
        return None
    return {
        "CPUs": len(online),
        "Boards": 1,
        "SocketsPerBoard": len(sockets),
        "CoresPerSocket": max(1, len(cores) // len(sockets)),
        "ThreadsPerCore": max(1, len(online) // len(cores)),
        "RealMemory": memory,
    }


def memory_mib(meminfo: str) -> int:
    """MemTotal in whole MiB from the text of /proc/meminfo; 0 if it is missing."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    return 0
