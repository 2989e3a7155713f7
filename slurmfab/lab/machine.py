"""Settings of this machine that labs need, remembered before they are changed and given back after the last lab."""

from __future__ import annotations

from pathlib import Path

from slurmfab.lab import mounts, state
from slurmfab.lab.layout import LABS

MEMORY = LABS.parent / "machine.json"
"""What the settings were before the first lab."""

NAMESPACES = Path("/run/netns")
"""Where iproute2 keeps named network namespaces; it makes this directory a mount of its own on first use."""

WANTED = {
    # Hosts reach the package mirror through this machine.
    "net/ipv4/ip_forward": 1,
    # Every systemd takes a good part of the default 128; the fourth or fifth host would die at boot.
    "fs/inotify/max_user_instances": 8192,
}
"""Kernel setting, as a path under /proc/sys, to the least value that labs need."""


def prepare() -> None:
    """Raise the settings that are too low, remembering what they were."""
    before = state.read_json(MEMORY)
    if before is None:
        before = {"netns": NAMESPACES in mounts.mount_points()}
        before |= {name: value for name, least in WANTED.items() if (value := _read(name)) < least}
        MEMORY.parent.mkdir(parents=True, exist_ok=True)
        state.write_json(MEMORY, before)
    for name, least in WANTED.items():
        if _read(name) < least:
            _write(name, least)


def restore() -> None:
    """Give back what `prepare` found, unless somebody has changed it since."""
    before = state.read_json(MEMORY)
    if before is None:
        return
    for name, value in before.items():
        if name in WANTED and _read(name) == WANTED[name]:
            _write(name, value)
    if not before["netns"] and NAMESPACES.is_dir() and not any(NAMESPACES.iterdir()):
        mounts.unmount_all(NAMESPACES)
    MEMORY.unlink()


def _read(name: str) -> int:
    """One kernel setting."""
    return int((Path("/proc/sys") / name).read_text())


def _write(name: str, value: int) -> None:
    """Change one kernel setting."""
    (Path("/proc/sys") / name).write_text(f"{value}\n")
