"""File systems that can hold hosts' disks: a tmpfs where this machine's own cannot, as in a container.

A host's disk is an overlay mount. Its upper directory cannot be on another overlay (overlayfs in the kernel's
documentation), which the root file system of a container usually is.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import state
from slurmfab.lab.command import CONTAINED, call, succeeds
from slurmfab.lab.layout import CACHE, LABS

NEEDED = 3 << 30
"""Bytes of memory that must be available for a tmpfs: a base tree has 0.6 GiB, and each deployed host 0.2 GiB."""

MEMORY = Path("/proc/meminfo")

TRY = """
set -e
cd "$1"
mkdir lower upper work root
exec mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
"""
"""Shell script that mounts an overlay in a directory."""


def ensure(progress: Callable[[str], None]) -> None:
    """Mount a tmpfs at each directory of the lab whose file system cannot hold the disks of hosts.

    `progress`: called with a line for each mount. Raises LabError if there is too little memory for that, or this
    process may not mount; the text says what to do.
    """
    for place in (CACHE, LABS.parent):
        place.mkdir(parents=True, exist_ok=True)
        with state.locked(place.parent):
            if not holds_overlays(place):
                _mount_memory(place, progress)


def holds_overlays(place: Path) -> bool:
    """Whether an overlay can have its upper directory there; tried in a mount namespace of its own."""
    with tempfile.TemporaryDirectory(prefix=".trying-", dir=place) as directory:
        return succeeds([*CONTAINED, "sh", "-c", TRY, "sh", directory])


REMEDY = (
    f"Mount a file system that can, such as ext4, with 4 GiB at {CACHE} and another at {LABS.parent} "
    "(a container gets them as volumes, and must be allowed to mount: --privileged)."
)


def shortage(place: Path) -> str:
    """Why no tmpfs can replace a file system, given by a directory, that cannot hold disks; empty if one can."""
    available = _available(MEMORY.read_text())
    if available >= NEEDED:
        return ""
    return f"{_why(place)}, and {available >> 20} MiB of memory are too little for a tmpfs. {REMEDY}"


def _why(place: Path) -> str:
    """What is wrong with the file system of a directory."""
    kind = call(["stat", "--file-system", "--format=%T", str(place)]).strip()
    return f"{place} is on a file system ({kind}) that cannot hold the disks of hosts"


def _mount_memory(place: Path, progress: Callable[[str], None]) -> None:
    """Mount a tmpfs."""
    if short := shortage(place):
        raise LabError(short)
    why = _why(place)
    progress(f"{why}, as in a container: a tmpfs holds them, in this machine's memory")
    try:
        call(["mount", "-t", "tmpfs", "-o", "mode=755,size=75%", "slurmfab", str(place)])
    except LabError as error:
        raise LabError(f"{why}, and no tmpfs can be mounted there. {REMEDY} {error}") from error
    if not holds_overlays(place):
        call(["umount", str(place)])
        raise LabError(f"{why}, and neither can a tmpfs on this kernel. {REMEDY}")


def _available(text: str) -> int:
    """Bytes of memory that programs can have, from the text of /proc/meminfo."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0
