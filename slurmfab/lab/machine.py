"""Kernel settings of this machine that labs need; saved before the first lab, restored after the last one.

Forwarding is a setting of all networks of this machine. Where it was off, rules keep it off for all but labs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from slurmfab.lab import mounts, state
from slurmfab.lab.command import call, succeeds
from slurmfab.lab.layout import LABS, LabLayout

MEMORY = LABS.parent / "machine.json"  # file with the settings as they were before the first lab

NAMESPACES = Path("/run/netns")
"""Directory of iproute2's named network namespaces; iproute2 mounts it onto itself on first use."""

SETTINGS = Path("/proc/sys")

BOOT = Path("/proc/sys/kernel/random/boot_id")

FORWARDING = "net/ipv4/ip_forward"

WANTED = {
    # Hosts reach the package mirror through this machine.
    FORWARDING: 1,
    # Each systemd uses a large part of the default 128, so the fourth or fifth host would fail to boot.
    "fs/inotify/max_user_instances": 8192,
    # Each reading of a host's /proc/net/tcp would walk the machine's table of connections, which has 260,000 places.
    "net/ipv4/tcp_child_ehash_entries": 4096,
}
"""Minimum values that labs need, by path below /proc/sys; a setting that this kernel does not have is left out."""


TABLE = "slurmfab-labs"  # a name that no lab's table has

RULES = f"""\
table ip {TABLE} {{}}
delete table ip {TABLE}
table ip {TABLE} {{
chain through {{
type filter hook forward priority filter
iifname != "{LabLayout("").bridge}*" oifname != "{LabLayout("").bridge}*" drop
}}
}}
"""
"""Rules for nft(8) of a machine that forwards for labs alone; what each lab lets by, its own say (`network.RULES`)."""


def prepare() -> None:
    """Raise settings that are too low, after saving their values and, if need be, closing all other networks' ways."""
    before = _before()
    if before is None:
        before = {"boot": BOOT.read_text().strip(), "netns": NAMESPACES in mounts.mount_points()}
        before |= {name: _read(name) for name in too_low()}
        MEMORY.parent.mkdir(parents=True, exist_ok=True)
        state.write_json(MEMORY, before)
    if FORWARDING in before:
        call(["nft", "-f", "-"], RULES)
    for name, least in too_low().items():
        _write(name, least)


def restore() -> None:
    """Restore the values that `prepare` saved; settings changed by others since then stay as they are."""
    before, wanted = _before() or {}, _wanted()
    for name, value in before.items():
        if name in wanted and _read(name) == wanted[name]:
            _write(name, value)
    if FORWARDING in before:
        succeeds(["nft", "delete", "table", "ip", TABLE])
    if not before.get("netns", True) and NAMESPACES.is_dir() and not any(NAMESPACES.iterdir()):
        mounts.unmount_all(NAMESPACES)
    MEMORY.unlink(missing_ok=True)


def _before() -> dict[str, Any] | None:
    """What `prepare` saved since this machine has booted, if anything: a boot sets all of it anew."""
    before, boot = state.read_json(MEMORY), BOOT.read_text().strip()
    return before if before and before.get("boot", boot) == boot else None


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
