"""Room on the file systems in which Slurm's daemons write: they lose logs, jobs and state where there is none."""

from __future__ import annotations

import os
from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State

LEAST_BYTES = 1 << 20  # a file system with less room for users counts as full

ENOUGH = {"space": "enough"}


class FreeSpace(Resource):
    """Room on the file systems of these directories; what fills them is an administrator's, so it is only reported."""

    kind: ClassVar[str] = "free-space"
    only_name: ClassVar[str] = "disks"
    wanted_state: ClassVar[State] = ENOUGH
    # Absolute paths of directories; one that does not exist stands for the place where it would be made.
    paths: Tuple[str, ...]

    def actual(self, context: Context) -> State:
        """The same. Raises ResourceFailed if a file system is full; with the directories on it and a repair."""
        full: Dict[int, List[str]] = {}
        for path in self.paths:
            place = nearest(context.path(path))
            why = shortage(os.statvfs(place))
            if why:
                full.setdefault(os.stat(place).st_dev, []).append("%s (%s)" % (path, why))
        if full:
            there = [path for paths in full.values() for path in paths]
            places = " ".join(path.partition(" ")[0] for path in there)
            raise ResourceFailed(
                "the file system of %s is full. Slurm's daemons write there. Repair: remove what fills it: "
                "du -xah %s | sort -h | tail" % (" and of ".join(there), places)
            )
        return ENOUGH

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Nothing: what differs is an error already."""


def nearest(path: str) -> str:
    """The path, or the nearest directory above it that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def shortage(found: os.statvfs_result) -> str:
    """What a file system lacks, such as `no inodes left`; empty if it has room. One without inodes counts none."""
    free = found.f_bavail * found.f_frsize
    if found.f_blocks and free < LEAST_BYTES:
        return "%d KiB left" % (free >> 10)
    return "no inodes left" if found.f_files and not found.f_favail else ""
