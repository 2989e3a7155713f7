"""The control groups of a host, seen as Slurm sees them.

Slurm's autodetection (cgroup.conf(5), CgroupPlugin) looks at the file system of /sys/fs/cgroup: cgroup2 means v2, and
with tmpfs /sys/fs/cgroup/systemd decides. If that is a v2 tree beside v1 controllers, v2 is chosen and does not work.
The v2 plugin asks systemd for a place of its own, over the system bus.

What is in the way of Slurm is told in words of two kinds: one about all (`hybrid`, `nothing mounted`, `no systemd`,
`read-only`, `no system bus`), or a controller's name and what is the matter with it (`memory off`).
"""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Tuple

from slurmfab.agent.reading import names, read_text

TOP = "/sys/fs/cgroup"
CONTROLLERS = ("cpuset", "memory", "devices")
BUS = "/run/dbus/system_bus_socket"
NO_BUS = "no system bus"
MEMSW = "memory/memory.memsw.limit_in_bytes"


def read(root: str = "") -> Dict[str, object]:
    """The version, the controllers that Slurm can use and write to, whether swap is accounted, and what is wrong."""
    mounts = read_text(root + "/proc/self/mounts")
    places = ("", *CONTROLLERS)
    # access(2) also says no on a read-only mount, which containers often have.
    writable = [name for name in places if os.access("%s%s/%s" % (root, TOP, name), os.W_OK)]
    limits = [name for name in names(root + TOP) if os.path.exists("%s/%s/memory.swap.max" % (root + TOP, name))]
    has_swap = os.path.exists("%s%s/%s" % (root, TOP, MEMSW)) or bool(limits)
    controllers, known = read_text(root + TOP + "/cgroup.controllers"), read_text(root + "/proc/cgroups")
    return judged(mounts, controllers, known, writable, has_swap, not root and not os.path.exists(BUS))


def judged(  # noqa: PLR0917 - the raw material, each piece from a place of its own
    mounts: str, controllers: str, known: str, writable: List[str], has_swap: bool, lacks_bus: bool
) -> Dict[str, object]:
    """The same, of what was read.

    Args:
        mounts: text of /proc/self/mounts.
        controllers: text of /sys/fs/cgroup/cgroup.controllers, empty where there is none.
        known: text of /proc/cgroups.
        writable: those of the controllers' directories (v1) that can be written to, and "" for /sys/fs/cgroup itself.
        has_swap: whether there is a limit for swap anywhere.
        lacks_bus: whether there is no system bus.
    """
    mounted = parse_mounts(mounts)
    kind = mounted.get(TOP, ("", ""))[0]
    beside = mounted.get(TOP + "/systemd", ("", ""))[0]
    if kind == "cgroup2":
        troubles = v2_troubles(controllers.split(), parse_known(known), "" in writable, lacks_bus)
        version = "v2"
    elif kind == "tmpfs" and beside == "cgroup":
        troubles = v1_troubles(mounted, parse_known(known), writable)
        version = "v1"
    elif kind == "tmpfs" and beside == "cgroup2":
        version, troubles = "hybrid", ["hybrid"]
    else:
        version, troubles = "none", ["no systemd" if kind == "tmpfs" else "nothing mounted"]
    # The bus comes with a package, so it is no reason to do without control groups.
    bad = {words.partition(" ")[0] for words in troubles if words != NO_BUS}
    is_hopeless = not bad <= set(CONTROLLERS)
    usable = [] if is_hopeless else [name for name in CONTROLLERS if name not in bad]
    return {
        "version": version,
        "controllers": usable,
        "swap": has_swap and version in ("v1", "v2"),
        "troubles": troubles,
    }


def parse_mounts(text: str) -> Dict[str, Tuple[str, str]]:
    """File system type and options by mount point, from the text of /proc/self/mounts; the last on a point counts."""
    rows = (line.split(" ") for line in text.splitlines())
    return {row[1]: (row[2], row[3]) for row in rows if len(row) > 3}  # noqa: PLR2004


def parse_known(text: str) -> Dict[str, Tuple[str, str]]:
    """Hierarchy (0 for v2, or none) and whether it is switched on, by controller, from the text of /proc/cgroups."""
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {row[0]: (row[1], row[3]) for row in rows if len(row) > 3}  # noqa: PLR2004


def v2_troubles(
    there: List[str], known: Mapping[str, Tuple[str, str]], is_writable: bool, lacks_bus: bool
) -> List[str]:
    """What is in the way on the unified tree; devices are limited by eBPF there, without a controller of that name."""
    if not is_writable:
        return ["read-only"]
    troubles = [NO_BUS] if lacks_bus else []
    for name in CONTROLLERS[:2]:
        hierarchy, enabled = known.get(name, ("0", "1"))
        if name not in there:
            why = "off" if enabled == "0" else "missing" if hierarchy == "0" else "on v1"
            troubles.append("%s %s" % (name, why))
    return troubles


def v1_troubles(
    mounted: Mapping[str, Tuple[str, str]], known: Mapping[str, Tuple[str, str]], writable: List[str]
) -> List[str]:
    """What is in the way of controllers that are mounted one by one."""
    troubles = []
    for name in CONTROLLERS:
        kind, options = mounted.get("%s/%s" % (TOP, name), ("", ""))
        if kind != "cgroup" or name not in options.split(","):
            troubles.append("%s %s" % (name, "off" if known.get(name, ("0", "1"))[1] == "0" else "not mounted"))
        elif name not in writable:
            troubles.append("%s read-only" % name)
    return troubles
