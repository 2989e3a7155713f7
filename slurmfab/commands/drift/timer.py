"""`drift --install` and `--remove`: the timer of the calling user on this machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import in_one_line, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.drift import Drift
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.drift.mailing import mailer
from slurmfab.commands.drift.units import Manager, own_manager, unit_name, unit_texts

SECONDS = 60  # how long systemd may take for an answer


def install(cluster: str) -> int:
    """Write the service and the timer, and start the timer.

    Raises InputError if the cluster file has no `drift`, or systemd refuses the units; nothing is left. Raises
    SlurmfabError if systemd did not start the timer.
    """
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
    """The cluster file's `drift`, which this machine can carry out: that is told now, and not at the first drift.

    Raises:
        InputError: there is none, or the file for metrics cannot be written.
        SlurmfabError: this machine cannot send mail.
    """
    settings = known.cluster.drift
    if settings is None:
        raise InputError(f"{known.path} has no drift. To compare the hosts daily, add drift: {{when: daily}} to it.")
    if settings.mail:
        mailer(known.cluster, known.path)
    if settings.textfile:
        atomic_file.require_writable(Path(settings.textfile), "drift.textfile")
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
    python = Path(sys.executable)
    program = python.with_name("slurmfab")
    words = (str(program),) if program.exists() else (str(python), "-m", "slurmfab")
    return (*words, "drift", "--cluster", str(known.path.absolute()))


def verify(texts: Mapping[str, str], manager: Manager) -> None:
    """Show the units to systemd before they are in its directory.

    `texts`: of the units, by file name. `manager`: whose units they will be. Raises InputError if systemd is not here,
    or finds a mistake.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in texts]
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
