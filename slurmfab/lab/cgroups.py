"""One cgroup subtree per host in each hierarchy, by which its processes are found, and in which slurmd makes more."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
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


def walked(directory: Path) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of each folder of a subtree with "", and again after each folder in it, with the name of that.

    Hosts may make folders that are deeper than a path can be long, or than Python calls functions. Those that are
    removed meanwhile are passed over.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        here = os.open(directory, flags)
    except FileNotFoundError:
        return
    names: list[str] = []
    try:
        yield here, ""
        left = [folders(here)]
        while left[-1] or len(left) > 1:
            if not left[-1]:
                left.pop()
                above = os.open("..", flags & ~os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = above
                yield here, names.pop()
                continue
            name = left[-1].pop()
            with suppress(OSError):
                below = os.open(name, flags, dir_fd=here)
                os.close(here)
                here = below
                names.append(name)
                yield here, ""
                left.append(folders(here))
    except FileNotFoundError:
        return
    finally:
        os.close(here)


def folders(descriptor: int) -> list[str]:
    """The names of the folders in an open one."""
    with os.scandir(descriptor) as found:
        return [one.name for one in found if one.is_dir(follow_symlinks=False)]


def thaw(directories: Iterable[Path]) -> None:
    """Let all processes in these subtrees go on: one that is frozen does not end when it is killed (version 1)."""
    for directory in directories:
        for descriptor, child in walked(directory):
            if not child:
                with suppress(OSError):  # it has no such file, or was removed
                    state = os.open("freezer.state", os.O_WRONLY | os.O_CLOEXEC, dir_fd=descriptor)
                    with os.fdopen(state, "w") as file:
                        file.write("THAWED")


def processes(directories: Iterable[Path]) -> frozenset[int]:
    """PIDs of all processes in these subtrees."""
    found: set[int] = set()
    for directory in directories:
        for descriptor, child in walked(directory):
            if child:
                continue
            # The cgroup was removed, or it is a threaded one, whose processes are listed by its parent.
            with suppress(OSError):
                listed = os.open("cgroup.procs", os.O_RDONLY | os.O_CLOEXEC, dir_fd=descriptor)
                with os.fdopen(listed) as file:
                    found.update(map(int, file.read().split()))
    found.discard(0)
    return frozenset(found)


def remove(directory: Path) -> bool:
    """Remove a subtree, deepest cgroups first; returns False if a cgroup is still busy."""
    try:
        for descriptor, child in walked(directory):
            if child:
                with suppress(FileNotFoundError):
                    os.rmdir(child, dir_fd=descriptor)
        with suppress(FileNotFoundError):
            directory.rmdir()
    except OSError:
        return False
    return True
