"""Kernel settings of this machine that labs need; saved before the first lab, restored after the last one."""

from __future__ import annotations

import os
from pathlib import Path

from slurmfab.lab import mounts, state
from slurmfab.lab.layout import LABS

MEMORY = LABS.parent / "machine.json"  # file with the settings as they were before the first lab

NAMESPACES = Path("/run/netns")
"""Directory of iproute2's named network namespaces; iproute2 mounts it onto itself on first use."""

SETTINGS = Path("/proc/sys")

WANTED = {
    # Hosts reach the package mirror through this machine.
    "net/ipv4/ip_forward": 1,
    # Each systemd uses a large part of the default 128, so the fourth or fifth host would fail to boot.
    "fs/inotify/max_user_instances": 8192,
    # Each reading of a host's /proc/net/tcp would walk the machine's table of connections, which has 260,000 places.
    "net/ipv4/tcp_child_ehash_entries": 4096,
}
"""Minimum values that labs need, by path below /proc/sys; a setting that this kernel does not have is left out."""


def prepare() -> None:
    """Raise settings that are too low, after saving their values."""
    before = state.read_json(MEMORY)
    if before is None:
        before = {"netns": NAMESPACES in mounts.mount_points()}
        before |= {name: _read(name) for name in too_low()}
        MEMORY.parent.mkdir(parents=True, exist_ok=True)
        state.write_json(MEMORY, before)
    for name, least in too_low().items():
        _write(name, least)


def restore() -> None:
    """Restore the values that `prepare` saved; settings changed by others since then stay as they are."""
    before = state.read_json(MEMORY)
    if before is None:
        return
    wanted = _wanted()
    for name, value in before.items():
        if name in wanted and _read(name) == wanted[name]:
            _write(name, value)
    if not before["netns"] and NAMESPACES.is_dir() and not any(NAMESPACES.iterdir()):
        mounts.unmount_all(NAMESPACES)
    MEMORY.unlink()


def too_low() -> dict[str, int]:
    """Those of `WANTED` whose value is lower."""
    return {name: least for name, least in _wanted().items() if _read(name) < least}


def shut() -> dict[str, int]:
    """Those of `too_low` that cannot be written, by their files' modes, which alone count in /proc/sys."""
    return {name: least for name, least in too_low().items() if not os.access(SETTINGS / name, os.W_OK)}


def _wanted() -> dict[str, int]:
    """Those of `WANTED` that this kernel has."""
    return {name: least for name, least in WANTED.items() if (SETTINGS / name).exists()}


def _read(name: str) -> int:
    """Read one kernel setting."""
    return int((SETTINGS / name).read_text())


def _write(name: str, value: int) -> None:
    """Write one kernel setting."""
    (SETTINGS / name).write_text(f"{value}\n")
