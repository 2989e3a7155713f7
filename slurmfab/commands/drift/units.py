"""The systemd units that run `drift` on the deployer: their names, their texts and where they belong."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.base.paths import UNIT_FILES

_PLAIN = re.compile(r"[A-Za-z0-9_./:=@+-]+")
MADE = "# Made by slurmfab; edits here are overwritten."

TIMER = (
    "# Run when the machine is on again if it was off at the scheduled time.",
    "Persistent=true",
    "",
    "[Install]",
    "WantedBy=timers.target",
)
"""The lines of a timer after its schedule."""


@dataclass(frozen=True)
class Manager:
    """A systemd manager."""

    is_system: bool  # whether it is the system's, and not a user's
    directory: Path  # where its units are

    @property
    def options(self) -> tuple[str, ...]:
        """The options by which systemctl and systemd-analyze mean this manager."""
        return () if self.is_system else ("--user",)


def own_manager() -> Manager:
    """The manager of the calling user: the system's for root."""
    if os.geteuid() == 0:
        return Manager(is_system=True, directory=Path(UNIT_FILES))
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Manager(is_system=False, directory=Path(configuration) / "systemd" / "user")


def unit_name(cluster: str) -> str:
    """The name of both units without the ending; cluster names have letters that units can have."""
    return f"slurmfab-drift-{cluster}"


def unit_texts(
    cluster: str, calendar: str, command: Sequence[str], directory: str, *, is_system: bool
) -> dict[str, str]:
    """The texts of the service and the timer, by file name.

    Args:
        calendar: when it runs (systemd.time(7)).
        command: the program with its arguments, absolute.
        directory: its working directory, absolute.
        is_system: whether the units are the system's.

    Raises:
        InputError: a path cannot stand in a unit.
    """
    for word in (*command, directory):
        if not word.isprintable():
            raise InputError(f"{word!r} has characters that no systemd unit can hold. Nothing was installed.")
    about = [MADE, "[Unit]", f"Description=Differences between the hosts of {cluster} and its cluster file"]
    service = [*about, *service_lines(command, directory, is_system=is_system)]
    timer = [*about, "", "[Timer]", f"OnCalendar={calendar}", *TIMER]
    name = unit_name(cluster)
    return {f"{name}.service": "\n".join(service) + "\n", f"{name}.timer": "\n".join(timer) + "\n"}


def service_lines(command: Sequence[str], directory: str, *, is_system: bool) -> list[str]:
    """The lines of the service after its description; see `unit_texts`."""
    return [
        *(("Wants=network-online.target", "After=network-online.target") if is_system else ()),
        "",
        "[Service]",
        "Type=oneshot",
        # Only with User= does a unit of the system have HOME, where SSH's keys are.
        *(("User=root",) if is_system else ()),
        f"WorkingDirectory={directory.replace('%', '%%')}",
        f"ExecStart={' '.join(map(quoted, command))}",
        "StandardInput=null",
        "TimeoutStartSec=2h",
    ]


def quoted(word: str) -> str:
    """A word of ExecStart= in which specifiers, variables and blanks stand for themselves (systemd.service(5))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return word if _PLAIN.fullmatch(word) else f'"{escaped}"'
