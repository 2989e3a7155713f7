"""One cgroup subtree per host in each hierarchy, by which its processes are found, and in which slurmd makes more."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from slurmfab.lab import private_users
from slurmfab.lab.layout import LabLayout

HANDED_OVER = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "memory.use_hierarchy", "tasks")
"""Files of its subtree that a host with users of its own may write, so that it makes control groups."""


def lab_directories(lab: LabLayout, mountinfo: str = "", own: str = "") -> tuple[Path, ...]:
    """Directories for a lab's subtrees: one per cgroup hierarchy, below the cgroup of this process.

    Where only cgroup v2 is mounted, the directory is at the top of the hierarchy, because a cgroup that contains
    processes cannot enable controllers for cgroups below it (cgroups(7), "no internal processes" rule). `mountinfo`:
    text of /proc/self/mountinfo; empty to read it. `own`: text of /proc/self/cgroup; empty to read it.
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


def make(lab_directory: Path, host: str, *, private: bool = False) -> Path:
    """Make a host's subtree in one hierarchy and return its path. `private`: for a host with users of its own."""
    for directory in (lab_directory, lab_directory / host):
        directory.mkdir(exist_ok=True)
        # A new cgroup of the v1 cpuset controller has no CPUs, so no process can enter it until it gets some.
        for name in ("cpuset.cpus", "cpuset.mems"):
            file = directory / name
            if file.exists() and not file.read_text().strip() and (lab_directory.parent / "tasks").exists():
                file.write_text((directory.parent / name).read_text())
    available, handed_on = lab_directory / "cgroup.controllers", lab_directory / "cgroup.subtree_control"
    if available.exists() and available.read_text().strip():
        handed_on.write_text(" ".join(f"+{controller}" for controller in available.read_text().split()))
    if private:
        private_users.own(lab_directory / host, HANDED_OVER)
        if (most := lab_directory / host / "pids.max").exists():
            most.write_text(str(private_users.MOST_PROCESSES))
    return lab_directory / host


def thaw(directories: Iterable[Path]) -> None:
    """Let all processes in these subtrees go on: one that is frozen does not end when it is killed (version 1)."""
    for directory in directories:
        for folder, _, files in os.walk(directory):
            if "freezer.state" in files:
                with suppress(OSError):  # it was removed
                    Path(folder, "freezer.state").write_text("THAWED")


def processes(directories: Iterable[Path]) -> frozenset[int]:
    """PIDs of all processes in these subtrees."""
    found: set[int] = set()
    for directory in directories:
        # os.walk skips cgroups that are removed meanwhile; rglob() would raise an error.
        for folder, _, _ in os.walk(directory):
            try:
                found.update(int(line) for line in Path(folder, "cgroup.procs").read_text().split())
            except OSError:
                # The cgroup was removed, or it is a threaded one, whose processes are listed by its parent.
                continue
    found.discard(0)
    return frozenset(found)


def remove(directory: Path) -> bool:
    """Remove a subtree, deepest cgroups first; returns False if a cgroup is still busy."""
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
