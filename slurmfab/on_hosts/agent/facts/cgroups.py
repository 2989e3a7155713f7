"""A host's control groups, judged as Slurm does.

Slurm's autodetection (cgroup.conf(5), CgroupPlugin) looks at the file system type of /sys/fs/cgroup: cgroup2 means v2;
with tmpfs, /sys/fs/cgroup/systemd decides. If that is a v2 tree beside v1 controllers, Slurm chooses v2, which fails.
The v2 plugin asks systemd over the D-Bus system bus for its own control group.

Problems are texts of two kinds: one about the whole (`hybrid`, `nothing mounted`, `no systemd`, `read-only`, `no system
bus`), or the name of a controller and its problem (`memory off`).
"""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text

TOP = "/sys/fs/cgroup"
CONTROLLERS = ("cpuset", "memory", "devices")
BUS = "/run/dbus/system_bus_socket"
NO_BUS = "no system bus"
MEMSW = "memory/memory.memsw.limit_in_bytes"


def read(root: str = "") -> Dict[str, object]:
    """The version, the controllers that Slurm can use, whether swap is accounted, and the problems.

    Returns `version`, `controllers`, `swap` and `troubles`, the fields of `slurmfab.cluster.facts.Cgroup`.
    """
    mounts = read_text(root + "/proc/self/mounts")
    places = ("", *CONTROLLERS)
    # access(2) also fails on a read-only mount, which is common in containers.
    writable = [name for name in places if os.access("%s%s/%s" % (root, TOP, name), os.W_OK)]
    limits = [name for name in names(root + TOP) if os.path.exists("%s/%s/memory.swap.max" % (root + TOP, name))]
    has_swap = os.path.exists("%s%s/%s" % (root, TOP, MEMSW)) or bool(limits)
    controllers, known = read_text(root + TOP + "/cgroup.controllers"), read_text(root + "/proc/cgroups")
    return assess(mounts, controllers, known, writable, has_swap, not root and not os.path.exists(BUS))


def assess(  # noqa: PLR0917 - the texts of six places
    mounts: str, controllers: str, known: str, writable: List[str], has_swap: bool, lacks_bus: bool
) -> Dict[str, object]:
    """Judge control groups as `read`, by the texts of the kernel's files.

    `controllers`: of /sys/fs/cgroup/cgroup.controllers. `writable`: v1 directories, and "" for /sys/fs/cgroup itself.
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
    # A missing bus does not count: a package brings it.
    bad = {trouble.partition(" ")[0] for trouble in troubles if trouble != NO_BUS}
    is_hopeless = not bad <= set(CONTROLLERS)
    usable = [] if is_hopeless else [name for name in CONTROLLERS if name not in bad]
    return {
        "version": version,
        "controllers": usable,
        "swap": has_swap and version in ("v1", "v2"),
        "troubles": troubles,
    }


def parse_mounts(text: str) -> Dict[str, Tuple[str, str]]:
    """File system type and options by mount point; of several mounts at one point the last counts."""
    rows = (line.split(" ") for line in text.splitlines())
    return {row[1]: (row[2], row[3]) for row in rows if len(row) > 3}  # noqa: PLR2004


def parse_known(text: str) -> Dict[str, Tuple[str, str]]:
    """Hierarchy (0 for v2 or none) and whether it is enabled, by controller, from the text of /proc/cgroups."""
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {row[0]: (row[1], row[3]) for row in rows if len(row) > 3}  # noqa: PLR2004


def v2_troubles(
    there: List[str], known: Mapping[str, Tuple[str, str]], is_writable: bool, lacks_bus: bool
) -> List[str]:
    """Problems of a v2 tree, of `parse_known`; devices need no controller, since eBPF limits them."""
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
    """Problems of v1 controllers, each with a mount, of `parse_mounts`, `parse_known` and writable ones."""
    troubles = []
    for name in CONTROLLERS:
        kind, options = mounted.get("%s/%s" % (TOP, name), ("", ""))
        if kind != "cgroup" or name not in options.split(","):
            troubles.append("%s %s" % (name, "off" if known.get(name, ("0", "1"))[1] == "0" else "not mounted"))
        elif name not in writable:
            troubles.append("%s read-only" % name)
    return troubles
