"""A host's processors and memory as Slurm counts them: as slurmd says, where it is installed, and before by sysfs.

slurmd counts with hwloc, and not as the kernel does: from 23.02 on, it leaves efficiency cores of Intel's processors
out, and a node of which slurm.conf says more than slurmd registers is INVAL. So its own count (`slurmd -C`, slurmd(8))
decides. `slurmd -C` knows no slurm.conf, so what SlurmdParameters change in the count is done here.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterable, Mapping, Optional

from slurmfab.on_hosts.agent.compiled import DIRECTORY, Compiled
from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.facts.slurm_versions import SECONDS, mark

CPUS, NUMA = "/sys/devices/system/cpu", "/sys/devices/system/node"
EFFICIENCY = "/sys/devices/cpu_atom/cpus"  # the numbers of Intel's efficiency cores, where a processor has them

ALL_CORES = frozenset({"allow_ecores", "config_overrides"})
"""Values of SlurmdParameters with which slurmd counts all cores, or slurm.conf is believed (slurm.conf(5))."""

TOPOLOGY = "/var/spool/slurmd/hwloc_topo_whole.xml"
"""What a running slurmd has counted, which `slurmd -C` reads in place of sysfs; the path is compiled in."""

HIDING = 'test ! -d "$0" || mount -t tmpfs none "$0"; exec "$@"'  # a script of sh(1)
REMEMBERED = "slurmd-count.json"
MEMORY = "RealMemory"


def facts(root: str, request: Mapping[str, Any]) -> Dict[str, Any]:
    """`hardware`: the count for slurm.conf; `kernel`: that of sysfs where it is another; `ecores`: see EFFICIENCY.

    `request`: `slurm_programs`: paths, of slurmd too; `slurmd_parameters`: words of SlurmdParameters in lower case.
    """
    kernel, words = read(root), {*request.get("slurmd_parameters", ())}
    if kernel is None:
        return {"hardware": None}
    slurmd = next(
        (one for one in request.get("slurm_programs", ()) if one.endswith("/slurmd") and mark(root + one)), ""
    )
    counted = by_slurmd(root, slurmd, kernel) if slurmd and not words & ALL_CORES else kernel
    counted = regrouped(root, counted, words)
    differs = any(kernel[key] != counted[key] for key in kernel if key != MEMORY)
    return {"hardware": counted, "kernel": kernel if differs else None, "ecores": read_text(root + EFFICIENCY).strip()}


def by_slurmd(root: str, slurmd: str, kernel: Dict[str, int]) -> Dict[str, int]:
    """The count of slurmd, or that of the kernel if it tells none; asked anew when either of them may tell another."""
    cache, key = Compiled(root + DIRECTORY), [mark(root + slurmd), mark(root + TOPOLOGY), kernel]
    try:
        known: Any = json.loads(cache.read(REMEMBERED))
    except ValueError:
        known = {}
    if isinstance(known, dict) and known.get("key") == key and {*known.get("count", ())} == {*kernel}:
        found: Dict[str, int] = known["count"]
        return found
    import subprocess  # asked once per boot and slurmd

    asked = [root + slurmd, "-C"]
    # A slurmd that still runs with allow_ecores has counted them; without its file, the next one's count is told.
    hidden = ["unshare", "--mount", "sh", "-c", HIDING, os.path.dirname(root + TOPOLOGY), *asked]
    for argv in (hidden, asked) if os.path.exists(root + EFFICIENCY) else (asked,):
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        lines = done.stdout.decode(errors="replace").splitlines()
        line = next((one for one in lines if one.startswith("NodeName=")), "")
        numbers = re.findall(r"\b(\w+)=([1-9][0-9]{0,11})\b", line)
        told = {name: int(number) for name, number in numbers if name in kernel}
        if {*told} == {*kernel}:
            cache.write(REMEMBERED, json.dumps({"key": key, "count": told}).encode())
            return told
    return kernel


def regrouped(root: str, counted: Dict[str, int], words: Iterable[str]) -> Dict[str, int]:
    """A count whose sockets are third-level caches or NUMA nodes, if SlurmdParameters say so, as in slurm.conf(5)."""
    cores = counted["Boards"] * counted["SocketsPerBoard"] * counted["CoresPerSocket"]
    if "l3cache_as_socket" in words:
        caches = (read_text("%s%s/%s/cache/index3/shared_cpu_list" % (root, CPUS, one)) for one in names(root + CPUS))
        sockets = len({*caches} - {""})
    elif "numa_node_as_socket" in words:
        nodes = (read_text("%s%s/%s/cpulist" % (root, NUMA, one)).strip() for one in names(root + NUMA))
        sockets = len({*nodes} - {""})
    else:
        return counted
    if not 0 < sockets <= cores:
        return counted
    return {**counted, "Boards": 1, "SocketsPerBoard": sockets, "CoresPerSocket": cores // sockets}


def read(root: str = "") -> Optional[Dict[str, int]]:
    """The kernel's counts by Slurm's names, memory in MiB; `None` if sysfs or /proc/meminfo lack them.

    Sockets are physical packages; cores per socket and threads per core are whole divisions of the totals, as in
    Slurm's xcpuinfo.c.
    """
    cpus = [name for name in names(root + CPUS) if name.startswith("cpu") and name[3:].isdecimal()]
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
