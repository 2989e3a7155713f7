"""Mount points of this machine, read from the kernel, and unmounting."""

from __future__ import annotations

import re
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab.command import succeeds


def mount_points() -> tuple[Path, ...]:
    """All mount points, repeated ones repeated; unlike `Path.is_mount`, also such as iproute2's /run/netns."""
    text = Path("/proc/self/mountinfo").read_text()
    return tuple(map(Path, re.findall(r"^\S+ \S+ \S+ \S+ (\S+) ", text, re.MULTILINE)))


def below(directory: Path) -> tuple[Path, ...]:
    """Mount points at or below a directory, deepest first."""
    return tuple(sorted((place for place in mount_points() if place.is_relative_to(directory)), reverse=True))


def unmount_all(directory: Path) -> None:
    """Unmount all at or below a directory, lazily where busy; LabError if something stays mounted."""
    for place in below(directory):
        if not succeeds(["umount", str(place)]):
            succeeds(["umount", "--lazy", str(place)])
    left = " ".join(map(str, below(directory)))
    if left:
        raise LabError(f"These are mounted and cannot be unmounted: {left}. Look who uses them, then try again.")
