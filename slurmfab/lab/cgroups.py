"""A subtree for each host in every cgroup hierarchy of this machine.

The host's cgroup namespace starts at its subtree, so slurmd inside can make cgroups of its own that really limit, and
everything that runs in a host is found by its subtree, whoever started it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from slurmfab.lab.layout import LabLayout


def lab_directories(lab: LabLayout, mountinfo: str = "", own: str = "") -> tuple[Path, ...]:
    """Where a lab's subtrees go: below the cgroup of this process, in every hierarchy.

    With the unified hierarchy alone they go to its top, because a cgroup that holds processes cannot hand controllers
    to cgroups below it (cgroups(7), the "no internal processes" rule).

    Args:
        lab: names of the lab.
        mountinfo: text of /proc/self/mountinfo.
        own: text of /proc/self/cgroup.
    """
    mountinfo = mountinfo or Path("/proc/self/mountinfo").read_text()
    own = own or Path("/proc/self/cgroup").read_text()
    paths = {frozenset(line.split(":")[1].split(",")): line.split(":", 2)[2] for line in own.splitlines()}
    mounts = re.findall(r"^\S+ \S+ \S+ (\S+) (\S+) .* - (cgroup2?) \S+ (\S+)$", mountinfo, re.MULTILINE)
    only_unified = all(kind == "cgroup2" for _, _, kind, _ in mounts)
    found = {}
    for root, mountpoint, kind, options in mounts:
        names = frozenset([""]) if kind == "cgroup2" else frozenset(options.split(","))
        own_path = next((path for members, path in paths.items() if members <= names), None)
        if own_path is not None:
            inside = "" if only_unified else own_path.removeprefix(root.rstrip("/"))
            found[options if kind == "cgroup" else kind] = Path(mountpoint, inside.lstrip("/"), lab.cgroup)
    return tuple(sorted(found.values()))


def make(lab_directory: Path, host: str) -> Path:
    """Make a host's subtree in one hierarchy."""
    for directory in (lab_directory, lab_directory / host):
        directory.mkdir(exist_ok=True)
        # A new cpuset (v1) is empty, and no process can enter it.
        for name in ("cpuset.cpus", "cpuset.mems"):
            file = directory / name
            if file.exists() and not file.read_text().strip() and (lab_directory.parent / "tasks").exists():
                file.write_text((directory.parent / name).read_text())
    available, handed_on = lab_directory / "cgroup.controllers", lab_directory / "cgroup.subtree_control"
    if available.exists() and available.read_text().strip():
        handed_on.write_text(" ".join(f"+{controller}" for controller in available.read_text().split()))
    return lab_directory / host


def processes(directories: Iterable[Path]) -> frozenset[int]:
    """All processes in these subtrees."""
    found: set[int] = set()
    for directory in directories:
        # os.walk passes over groups that go away meanwhile, where rglob() stops.
        for folder, _, _ in os.walk(directory):
            try:
                found.update(int(line) for line in Path(folder, "cgroup.procs").read_text().split())
            except OSError:
                # The cgroup went away, or it is a threaded one, whose processes its parent lists.
                continue
    found.discard(0)
    return frozenset(found)


def remove(directory: Path) -> bool:
    """Remove a subtree from below; tells whether it is gone."""
    if not directory.is_dir():
        return True
    below = sorted((Path(folder, name) for folder, names, _ in os.walk(directory) for name in names), reverse=True)
    for path in (*below, directory):
        try:
            path.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
