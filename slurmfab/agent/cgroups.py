"""The control groups of a host, seen as Slurm sees them.

Slurm's autodetection (cgroup.conf(5), CgroupPlugin) looks at the file system of /sys/fs/cgroup: cgroup2 means v2, and
with tmpfs /sys/fs/cgroup/systemd decides. If that is a v2 tree beside v1 controllers, v2 is chosen and does not work.
"""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

from slurmfab.agent.reading import names, read_text

TOP = "/sys/fs/cgroup"
CONTROLLERS = ("cpuset", "memory", "devices")


def read(root: str = "") -> Dict[str, object]:
    """The version, the controllers that Slurm can use and write to, and whether swap is accounted."""
    mounts = parse_mounts(read_text(root + "/proc/self/mounts"))
    kind = mounts.get(TOP, ("", ""))[0]
    if kind == "cgroup2":
        return read_v2(root)
    beside = mounts.get(TOP + "/systemd", ("", ""))[0]
    if kind == "tmpfs" and beside == "cgroup":
        return read_v1(root, mounts)
    version = "hybrid" if kind == "tmpfs" and beside == "cgroup2" else "none"
    return {"version": version, "controllers": [], "swap": False}


def parse_mounts(text: str) -> Dict[str, Tuple[str, str]]:
    """File system type and options by mount point, from the text of /proc/self/mounts; the last on a point counts."""
    rows = (line.split(" ") for line in text.splitlines())
    return {row[1]: (row[2], row[3]) for row in rows if len(row) > 3}  # noqa: PLR2004


def read_v2(root: str) -> Dict[str, object]:
    """Those of the unified tree; devices are limited by eBPF there, without a controller of that name."""
    is_writable = os.access(root + TOP, os.W_OK)
    there = [*read_text(root + TOP + "/cgroup.controllers").split(), "devices"]
    return {
        "version": "v2",
        "controllers": [name for name in CONTROLLERS if is_writable and name in there],
        "swap": any(os.path.exists("%s/%s/memory.swap.max" % (root + TOP, name)) for name in names(root + TOP)),
    }


def read_v1(root: str, mounts: Dict[str, Tuple[str, str]]) -> Dict[str, object]:
    """Those mounted one by one."""
    usable: List[str] = []
    for name in CONTROLLERS:
        kind, options = mounts.get("%s/%s" % (TOP, name), ("", ""))
        # access(2) also says no on a read-only mount, which containers often have.
        if kind == "cgroup" and name in options.split(",") and os.access("%s%s/%s" % (root, TOP, name), os.W_OK):
            usable.append(name)
    swap = os.path.exists("%s%s/memory/memory.memsw.limit_in_bytes" % (root, TOP))
    return {"version": "v1", "controllers": usable, "swap": swap}
