"""`drift --install` and `--remove`: the timer of the calling user on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base import atomic_file, surroundings
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.own_directory import own_directory
from slurmfab.base.paths import UNIT_FILES
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import in_one_line, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.drift import Drift
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.drift.alarm import require_textfile
from slurmfab.commands.drift.mailing import mailer

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
    """The texts of the service and the timer (systemd.time(7)) by file name; InputError for odd paths.

    `command`, `directory`: absolute. `is_system`: whether the units are the system's.
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
        "Environment=SLURMFAB_FABFILE=no",
        f"WorkingDirectory={directory.replace('%', '%%')}",
        f"ExecStart={' '.join(map(quoted, command))}",
        "StandardInput=null",
        "TimeoutStartSec=2h",
    ]


def quoted(word: str) -> str:
    """A word of ExecStart= in which specifiers, variables and blanks stand for themselves (systemd.service(5))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return word if _PLAIN.fullmatch(word) else f'"{escaped}"'


SECONDS = 60  # how long systemd may take for an answer


def install(cluster: str) -> int:
    """Write and start service and timer; InputError, nothing left, if refused, SlurmfabError if not started."""
    known = loading.load(loading.named_path(cluster))
    settings = able_settings(known)
    manager = own_manager()
    name = unit_name(known.cluster.name)
    texts = unit_texts(
        known.cluster.name, settings.calendar, command_of(known), str(Path.cwd()), is_system=manager.is_system
    )
    verify(texts, manager)
    for file, text in texts.items():
        atomic_file.write(manager.directory / file, text, new=atomic_file.READABLE_BY_ALL)
    try:
        systemctl(manager, "daemon-reload")
        systemctl(manager, "enable", "--now", f"{name}.timer")
        systemctl(manager, "restart", f"{name}.timer")  # a timer that runs keeps its old schedule otherwise
    except SlurmfabError:
        delete(manager, name)
        raise
    write("\n".join(told_after(manager, name, settings.when)), sys.stdout)
    return 0


def able_settings(known: Inventory) -> Drift:
    """The file's `drift`, checked now for what this machine can do; InputError, or SlurmfabError without mail."""
    settings = known.cluster.drift
    if settings is None:
        raise InputError(f"{known.path} has no drift. To compare the hosts daily, add drift: {{when: daily}} to it.")
    if settings.mail:
        mailer(known.cluster, known.path)
    require_textfile(settings)
    return settings


def remove(cluster: str) -> int:
    """Stop the timer and delete both units. Raises SlurmfabError if systemd did not stop the timer."""
    known = loading.load(loading.named_path(cluster))
    manager, name = own_manager(), unit_name(known.cluster.name)
    if not any((manager.directory / f"{name}.{kind}").exists() for kind in ("service", "timer")):
        write(f"There is no {name}.timer in {manager.directory}.", sys.stdout)
        return 0
    systemctl(manager, "disable", "--now", f"{name}.timer")
    delete(manager, name)
    systemctl(manager, "daemon-reload")
    write(f"Removed {name}.timer and its service from {manager.directory}.", sys.stdout)
    return 0


def told_after(manager: Manager, name: str, when: str) -> list[str]:
    """What is said after an installation."""
    options = " ".join(("", *manager.options))
    lines = [
        f"Installed {name}.timer in {manager.directory} ({when}).",
        f"To run it now: systemctl{options} start {name}.service; then: journalctl{options} -u {name}.service",
        "It runs without your SSH agent and without a password for sudo: a key file without a passphrase has to do.",
    ]
    if not manager.is_system:
        lines.append("Timers of a user run only while that user is logged in, unless you run: loginctl enable-linger")
    return lines


def command_of(known: Inventory) -> tuple[str, ...]:
    """The command of the service: this installation's program and the cluster file, with absolute paths."""
    program = Path(sys.executable).with_name("slurmfab")
    words = ("drift", "--cluster", str(known.path.absolute()))
    return (str(program), *words) if program.exists() else tuple(surroundings.program(*words))


def verify(texts: Mapping[str, str], manager: Manager) -> None:
    """Show the units to systemd before they are installed; InputError if it is absent, or finds a mistake."""
    with own_directory("units") as folder:
        paths = [folder / name for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text)
        words = ("systemd-analyze", *manager.options, "verify", *map(str, paths))
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(
                f"This machine has no systemd that answers ({error}). Run {FAB} drift by cron or another scheduler."
            ) from error
    said = "\n".join(line for line in done.stderr.splitlines() if any(name in line for name in texts))
    if done.returncode != 0 or said:
        raise InputError(f"systemd refuses the units, so nothing was installed: {said or in_one_line(done.stderr)}")


def delete(manager: Manager, name: str) -> None:
    """Delete both units."""
    for kind in ("timer", "service"):
        (manager.directory / f"{name}.{kind}").unlink(missing_ok=True)


def systemctl(manager: Manager, *words: str) -> None:
    """Ask systemd to do something. Raises SlurmfabError if it did not."""
    command = ("systemctl", *manager.options, *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmfabError(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise SlurmfabError(f"{' '.join(command)}: {in_one_line(done.stderr) or f'exit code {done.returncode}'}")
